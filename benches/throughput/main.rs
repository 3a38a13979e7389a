//! How fast `rescore` is, and how lean: always against a baseline measured in the same run, round by round in turn.
//!
//! `cargo bench --bench throughput` measures everything, with `-- NAME` the sections whose name has NAME in it. Nothing is
//! asserted: a table says what was aimed at and what was seen. The server and the smallest client that starts are this
//! same binary, run again with a word of their own, so that their CPU time is not counted.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures the real clock, across processes"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a benchmark whose setting breaks must end immediately, and printing is its purpose"
)]

mod calls;
mod check;
mod data;
mod decide;
mod files;
mod ledger;
mod measure;
mod phones;
mod process;
mod report;
mod server;

use std::time::Duration;

use data::Files;
use measure::Table;

/// The program's own, for the baselines as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A part of the benchmark.
type Section = fn(&Files, &mut Table);

const SECTIONS: &[(&str, Section)] = &[
    ("end-to-end", calls::end_to_end),
    ("latency", calls::latency),
    ("rate", calls::rate),
    ("ledger", ledger::zero_latency),
    ("slow-ledger", ledger::with_latency),
    ("known", ledger::known),
    ("files", files::alone),
    ("phones", phones::national),
    ("check", check::check),
    ("decide", decide::decide),
    ("report", report::report),
    ("memory", process::memory),
    ("startup", process::startup),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [server::WORD, milliseconds] => {
            server::serve(Duration::from_millis(milliseconds.parse().unwrap()));
        }
        [process::WORD, url] => process::first_request(url),
        // Without it, it was `cargo test --all-targets` that built and ran this, and nobody wants to wait for minutes.
        words if !words.contains(&"--bench") => println!("this is run by `cargo bench`"),
        words => bench(words),
    }
}

fn bench(words: &[&str]) {
    let wanted: Vec<_> = words
        .iter()
        .filter(|word| !word.starts_with("--"))
        .collect();
    let chosen: Vec<_> = SECTIONS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|word| name.contains(**word)))
        .collect();
    if chosen.is_empty() {
        println!(
            "sections are {}",
            SECTIONS
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(", ")
        );
        return;
    }
    let files = Files::new();
    let mut table = Table::default();
    for (name, section) in chosen {
        eprintln!("{name}");
        section(&files, &mut table);
    }
    println!("\n{}\n\n{table}", measure::machine());
}
