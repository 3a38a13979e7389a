//! Whole runs against a server that takes its time: how near they come to what is possible, and to a given rate.

use std::cell::RefCell;
use std::time::Duration;

use crate::bare;
use crate::bench::Bench;
use crate::process::Process;
use crate::program::{Ledger, scored};
use crate::reading::bodies;
use crate::rounds::{FEW_ROUNDS, in_turn};
use crate::server::Server;
use crate::table::{Table, lines, median, text};

const LATENCY: Duration = Duration::from_millis(20);
/// What 64 calls in flight can make of that latency, rows a second.
const MOST: f64 = 3_200.0;
/// Thirteen seconds' worth with latency. The canary, the wait for the last answers and making the output durable take 35
/// to 85 ms whatever the length of a run: of six seconds up to a percent, of a real run's minutes nothing.
const ROWS: u32 = 40_000;
const RATE: u32 = 1_000;
const RATE_SECONDS: u32 = 10;

pub(crate) fn latency(bench: &Bench, table: &mut Table) {
    let input = bench.files.csv(ROWS);
    let server = RefCell::new(Server::start(LATENCY));
    let url = server.borrow().url.clone();
    let bodies = bodies(&input);
    let share = |ledger| {
        let ran = bench.whole_run((&input, ROWS), &url, ledger);
        ran.speed() / MOST * 100.0
    };
    let [without, with, bare] = in_turn(
        FEW_ROUNDS,
        [
            &mut || share(Ledger::None),
            &mut || share(Ledger::Default),
            &mut || bare::timed(&url, &bodies).0 / MOST * 100.0,
        ],
    );
    let seen = server.borrow_mut().seen();
    eprintln!("  the server took {:.2} ms", seen.mean_wait() * 1e3);
    let bare = format!("bare reqwest loop {}", text(median(&bare), 1));
    table.add(&lines::LATENCY, &without, bare);
    let without = format!("without {}", text(median(&without), 1));
    table.add(&lines::LATENCY_LEDGER, &with, without);
}

pub(crate) fn rate(bench: &Bench, table: &mut Table) {
    let rows = RATE * RATE_SECONDS;
    let input = bench.files.csv(rows);
    let mut server = Server::start(Duration::ZERO);
    let [shares] = in_turn(
        FEW_ROUNDS,
        [&mut || {
            let place = bench.files.place();
            let output = scored(place.path(), &input);
            let ledger = Ledger::None;
            let (rate, files) = (format!("{RATE}/s"), (&*input, &*output));
            let mut command = bench.program.run_at(&rate, files, &server.url, ledger);
            Process::start(&mut command).finish();
            let seen = server.seen();
            assert_eq!(seen.requests, u64::from(rows), "requests that arrived");
            // Between the first and the last there is one step less than requests.
            f64::from(rows - 1)
                / seen.last.saturating_sub(seen.first).as_secs_f64()
                / f64::from(RATE)
                * 100.0
        }],
    );
    table.add(&lines::RATE, &shares, "the rate, as the server saw it");
}
