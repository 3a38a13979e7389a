//! What the tests share: the program, a scripted server, and users with their expected verdicts.

pub(crate) mod command_line;
pub(crate) mod ledger_file;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod server;
pub(crate) mod shown;
pub(crate) mod stand_in;
pub(crate) mod tls;
pub(crate) mod users;

/// Random numbers from a seed that a failing test shows, and that `RESCORE_TEST_SEED` sets.
pub(crate) fn chance() -> fastrand::Rng {
    let seed = std::env::var("RESCORE_TEST_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("RESCORE_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
