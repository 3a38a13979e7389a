//! `rescore check` as a process: how fast it counts, and that its memory does not grow with the file.

use std::path::Path;
use std::process::Command;

use crate::bench::Bench;
use crate::process::Process;
use crate::reading::{nothing, through_reader};
use crate::rounds::{ROUNDS, in_turn};
use crate::table::{Table, lines, median, text};

const ROWS: u32 = 1_000_000;
const FEW_ROWS: u32 = 10_000;
const MANY_ROWS: u32 = 10_000_000;
/// Of what takes seconds, and hardly differs.
const MEMORY_ROUNDS: usize = 2;
/// The input, with a file system's own needs.
const GIGABYTES: u64 = 3;

pub(crate) fn check(bench: &Bench, table: &mut Table) {
    let input = bench.files.csv(ROWS);
    let [ours, reading] = in_turn(
        ROUNDS,
        [
            &mut || {
                let used = Process::start(&mut command(bench, &input)).finish();
                f64::from(ROWS) / used.seconds
            },
            &mut || through_reader(&input, ROWS, nothing()),
        ],
    );
    let reading = format!(
        "read and mapped on one thread {}",
        text(median(&reading), 0)
    );
    table.add(&lines::CHECK, &ours, reading);
}

pub(crate) fn ten_million(bench: &Bench, table: &mut Table) {
    if !bench.files.have_room(GIGABYTES) {
        return;
    }
    let (few, many) = (bench.files.csv(FEW_ROWS), bench.files.csv(MANY_ROWS));
    let peak = |input: &Path| Process::start(&mut command(bench, input)).finish().peak;
    let [large, small] = in_turn(MEMORY_ROUNDS, [&mut || peak(&many), &mut || peak(&few)]);
    bench.files.discard(&many);
    let few = format!("10,000 rows {}", text(median(&small), 1));
    table.add(&lines::MEMORY_CHECK, &large, few);
}

fn command(bench: &Bench, input: &Path) -> Command {
    let mut command = bench.program.command("check");
    command.arg(input).args(["--quiet", "--json"]);
    command
}
