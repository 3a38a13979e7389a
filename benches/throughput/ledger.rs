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
    let [without, own, shared] = in_turn(
        ROUNDS,
        [
            &mut || run(Ledger::EachAsked),
            &mut || run(Ledger::Own),
            &mut || {
                let place = bench.files.place();
                let ran = run(Ledger::Shared(&place.path().join("answers.ledger")));
                sizes.push(number(size(place.path())) / f64::from(ROWS));
                ran
            },
        ],
    );
    let speed = column(&without, Ran::speed);
    let baseline = |of, digits| format!("without {}", text(median(&column(&without, of)), digits));
    let written = column(&own, Ran::written);
    let own_speed = column(&own, Ran::speed);
    table.add(&lines::OWN_SPEED, &own_speed, baseline(Ran::speed, 0));
    table.add(&lines::OWN_SHARE, &ratios(&own_speed, &speed), "");
    let cpu = column(&own, Ran::cpu);
    table.add(&lines::OWN_CPU, &cpu, baseline(Ran::cpu, 1));
    table.add(&lines::OWN_WRITTEN, &written, baseline(Ran::written, 0));
    let shared_speed = column(&shared, Ran::speed);
    table.add(&lines::SHARED_SPEED, &shared_speed, baseline(Ran::speed, 0));
    table.add(&lines::SHARED_SHARE, &ratios(&shared_speed, &speed), "");
    let written = column(&shared, Ran::written);
    table.add(&lines::SHARED_WRITTEN, &written, baseline(Ran::written, 0));
    table.add(&lines::LEDGER_SIZE, &sizes, "");
}

/// Rows of which none are equal, in runs that look for equal ones and runs that do not.
pub(crate) fn equal_rows(bench: &Bench, table: &mut Table) {
    let input = bench.files.csv(ROWS);
    let server = Server::start(Duration::ZERO);
    let run = |ledger| bench.whole_run((&input, ROWS), &server.url, ledger);
    let [once, each] = in_turn(
        ROUNDS,
        [&mut || run(Ledger::Nowhere), &mut || run(Ledger::EachAsked)],
    );
    let baseline = |of, digits| {
        let value = text(median(&column(&each, of)), digits);
        format!("`--no-dedupe` {value}")
    };
    let speed = column(&once, Ran::speed);
    let share = ratios(&speed, &column(&each, Ran::speed));
    table.add(&lines::EQUAL_SPEED, &speed, baseline(Ran::speed, 0));
    table.add(&lines::EQUAL_SHARE, &share, "");
    let cpu = column(&once, Ran::cpu);
    table.add(&lines::EQUAL_CPU, &cpu, baseline(Ran::cpu, 1));
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
        [&mut || peak(Ledger::Own), &mut || peak(Ledger::EachAsked)],
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
