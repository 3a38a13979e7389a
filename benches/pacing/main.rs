//! How `rescore` paces itself on real sockets: the built program, run as a user runs it, against services that accept
//! everything, refuse at random, refuse one row, or have a limit.
//!
//! `cargo bench --bench pacing` runs everything in less than 20 minutes, `cargo bench --bench pacing -- NAME` the sections
//! whose name contains NAME, and `-- --list` names them. With `RESCORE_BIN=PATH` another build of the program is run.
//! Nothing is asserted: a Markdown table says what was aimed at and what was seen. The sections with nginx are skipped
//! where it is not installed.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures the real clock, across processes"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::exit,
    reason = "a benchmark whose setup fails or that is interrupted should stop, and printing is what it is for"
)]

mod behaviour;
mod busy;
mod children;
mod counts;
#[path = "../shared/interrupted.rs"]
mod interrupted;
mod limits;
mod nginx;
mod program;
mod random;
mod rows;
mod server;
mod stand_in;
mod table;
mod unlimited;
mod users;

use program::Program;

/// A part of the benchmark: it prints its lines of the table.
type Section = fn(&Program);

const SECTIONS: [(&str, Section); 23] = [
    ("unlimited-20ms", unlimited::at_20_ms),
    ("unlimited-100ms", unlimited::at_100_ms),
    ("unlimited-0ms", unlimited::without_latency),
    ("unlimited-300ms", unlimited::at_300_ms),
    ("random-retry-1", random::retry_after_1),
    ("random-retry-0-low", random::retry_after_0_low),
    ("random-retry-0-high", random::retry_after_0_high),
    ("random-no-hint-low", random::no_hint_low),
    ("random-no-hint-high", random::no_hint_high),
    ("random-unlimited", random::unlimited),
    ("one-row-free", rows::one_without_limit),
    ("one-row-limited", rows::one_with_limit),
    ("every-16th", rows::every_16th),
    ("spacing", limits::spacing),
    ("spacing-busy", limits::spacing_busy),
    ("bucket", limits::bucket),
    ("stand-in", stand_in::measure),
    ("nginx-rate", nginx::rate),
    ("nginx-rate-busy", nginx::rate_busy),
    ("nginx-burst", nginx::burst),
    ("nginx-burst-busy", nginx::burst_busy),
    ("nginx-conn", nginx::in_flight),
    ("nginx-conn-busy", nginx::in_flight_busy),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    if has("--list") {
        for (name, _) in SECTIONS {
            println!("{name}");
        }
    } else if has("--bench") {
        let wanted: Vec<&str> = arguments
            .iter()
            .map(String::as_str)
            .filter(|argument| !argument.starts_with("--"))
            .collect();
        measure(&wanted);
    } else {
        // This is `cargo test --all-targets`, where nobody wants to wait for minutes.
        println!("this is run by `cargo bench --bench pacing`");
    }
}

fn measure(wanted: &[&str]) {
    let chosen: Vec<_> = SECTIONS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|word| name.contains(word)))
        .collect();
    if chosen.is_empty() {
        println!("no such section; `--list` names all of them");
        return;
    }
    let program = Program::new();
    children::end_with_us(program.directory().to_owned());
    println!("{program}\n\n{}", table::HEAD);
    for (name, section) in chosen {
        eprintln!("{name}");
        section(&program);
    }
}
