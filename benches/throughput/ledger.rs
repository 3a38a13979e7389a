//! What it costs to keep answers: rows a second, CPU time, and bytes written, beside runs that keep none.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::bench::{Bench, Ran};
use crate::program::Ledger;
use crate::rounds::{ROUNDS, in_turn};
use crate::server::Server;
use crate::table::{Table, lines, median, number, ratios, text};

/// A few seconds' worth.
const ROWS: u32 = 100_000;
/// Less than a second's worth.
const FEW_ROWS: u32 = 10_000;

pub(crate) fn ledger(bench: &Bench, table: &mut Table) {
    let input = bench.files.csv(ROWS);
    let server = Server::start(Duration::ZERO);
    let run = |ledger: Ledger| bench.whole_run((&input, ROWS), &server.url, ledger);
    let mut sizes = Vec::new();
    let [without, with] = in_turn(
        ROUNDS,
        [&mut || run(Ledger::None), &mut || {
            let place = bench.files.place();
            let ran = run(Ledger::At(&place.path().join("rescore.ledger")));
            sizes.push(number(size(place.path())) / f64::from(ROWS));
            ran
        }],
    );
    let baseline = |of, digits| format!("without {}", text(median(&column(&without, of)), digits));
    let speed = column(&with, Ran::speed);
    table.add(&lines::LEDGER_SPEED, &speed, baseline(Ran::speed, 0));
    let share = ratios(&speed, &column(&without, Ran::speed));
    table.add(&lines::LEDGER_SHARE, &share, "");
    let cpu = column(&with, Ran::cpu);
    table.add(&lines::LEDGER_CPU, &cpu, baseline(Ran::cpu, 1));
    let written = column(&with, Ran::written);
    table.add(&lines::LEDGER_WRITTEN, &written, baseline(Ran::written, 0));
    table.add(&lines::LEDGER_SIZE, &sizes, "");
}

pub(crate) fn memory(bench: &Bench, table: &mut Table) {
    let input = bench.files.csv(FEW_ROWS);
    let server = Server::start(Duration::ZERO);
    let peak = |ledger| {
        bench
            .whole_run((&input, FEW_ROWS), &server.url, ledger)
            .peak()
    };
    let [with, without] = in_turn(
        ROUNDS,
        [&mut || peak(Ledger::Default), &mut || peak(Ledger::None)],
    );
    let without = format!("without {}", text(median(&without), 1));
    table.add(&lines::MEMORY, &with, without);
}

/// One value of each run.
pub(crate) fn column(runs: &[Ran], value: fn(&Ran) -> f64) -> Vec<f64> {
    runs.iter().map(value).collect()
}

/// The size of everything in a directory: a ledger may be several files.
pub(crate) fn size(directory: &Path) -> u64 {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}
