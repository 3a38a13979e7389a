//! Whole runs without latency: rows a second and CPU time, beside the bare loop.

use std::path::Path;
use std::time::Duration;

use crate::bare;
use crate::bench::Bench;
use crate::program::Ledger;
use crate::reading::bodies;
use crate::rounds::{ROUNDS, in_turn};
use crate::server::Server;
use crate::table::{Line, Table, lines, median, ratios, text};

/// A few seconds' worth.
const ROWS: u32 = 150_000;

/// What is measured of each format: speed, its share, CPU time, its multiple.
type Lines = [&'static Line; 4];

pub(crate) fn csv(bench: &Bench, table: &mut Table) {
    let lines = [
        &lines::CSV_SPEED,
        &lines::CSV_SHARE,
        &lines::CSV_CPU,
        &lines::CSV_CPU_RATIO,
    ];
    measure(bench, table, &bench.files.csv(ROWS), lines);
}

pub(crate) fn jsonl(bench: &Bench, table: &mut Table) {
    let lines = [
        &lines::JSONL_SPEED,
        &lines::JSONL_SHARE,
        &lines::JSONL_CPU,
        &lines::JSONL_CPU_RATIO,
    ];
    measure(bench, table, &bench.files.jsonl(ROWS), lines);
}

fn measure(bench: &Bench, table: &mut Table, input: &Path, lines: Lines) {
    let server = Server::start(Duration::ZERO);
    let bodies = bodies(input);
    let [ours, bare] = in_turn(
        ROUNDS,
        [
            &mut || {
                let ran = bench.whole_run((input, ROWS), &server.url, Ledger::None);
                (ran.speed(), ran.cpu())
            },
            &mut || bare::timed(&server.url, &bodies),
        ],
    );
    let ((speed, cpu), (bare_speed, bare_cpu)) = (unzip(ours), unzip(bare));
    let bare = |value| format!("bare reqwest loop {value}");
    let [speed_line, share_line, cpu_line, ratio_line] = lines;
    table.add(speed_line, &speed, bare(text(median(&bare_speed), 0)));
    table.add(share_line, &ratios(&speed, &bare_speed), "");
    table.add(cpu_line, &cpu, bare(text(median(&bare_cpu), 1)));
    table.add(ratio_line, &ratios(&cpu, &bare_cpu), "");
}

fn unzip(pairs: Vec<(f64, f64)>) -> (Vec<f64>, Vec<f64>) {
    pairs.into_iter().unzip()
}
