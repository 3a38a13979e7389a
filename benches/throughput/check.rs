//! `rescore check` as a process: how fast it counts, what a ledger costs it, and that its memory does not grow with the file.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rescore::internals::config::{LedgerChoice, LedgerConfig};
use rescore::internals::input::{Compose, Reader};
use rescore::internals::ledger::Reuse;
use rescore::internals::pace::Rate;

use crate::calls::{Round, reader_settings, run_with};
use crate::data::Files;
use crate::measure::{ROUNDS, Spread, Table, in_turn, ratios};
use crate::process::{PROGRAM, finish, peak};
use crate::server::Server;

const ROWS: u32 = 1_000_000;
/// As many as in the section `known`.
const KNOWN_ROWS: u32 = 400_000;
const FEW_ROWS: u32 = 10_000;
const MANY_ROWS: u32 = 10_000_000;
/// Ten million rows take a while.
const MEMORY_ROUNDS: usize = 2;

pub(crate) fn check(files: &Files, table: &mut Table) {
    let Some(program) = PROGRAM else {
        return table.skip("check, rows/s", "≥ 1,000,000", "no program was built");
    };
    speed(program, files, table);
    known(program, files, table);
    memory(program, files, table);
}

fn speed(program: &str, files: &Files, table: &mut Table) {
    let input = files.csv(ROWS);
    let (ours, reading) = in_turn(
        ROUNDS,
        || rate(ROWS, || finish(command(program, &input).spawn().unwrap())),
        || rate(ROWS, || read(&input)),
    );
    table.add(
        "check, 1,000,000 rows, rows/s",
        "≥ 1,000,000",
        &ours,
        0,
        format!("read and mapped, one thread: {:.0}", Spread::of(&reading)),
    );
    table.add(
        "… ratio",
        "–",
        &ratios(&ours, &reading),
        3,
        "read and mapped = 1",
    );
}

/// Over a ledger that has every answer, beside the run that uses them.
fn known(program: &str, files: &Files, table: &mut Table) {
    let (input, output) = (files.csv(KNOWN_ROWS), files.output("scored.csv"));
    let mut server = Server::start(Duration::ZERO);
    let path = files.output("checked.ledger");
    let ledger = || LedgerConfig {
        choice: LedgerChoice::Shared(path.clone()),
        reuse: Reuse::All,
        dedupe: true,
    };
    let run = || run_with(&input, &output, &server.url, Rate::Unlimited, ledger());
    run();
    let check = || {
        let mut command = command(program, &input);
        command.arg("--ledger").arg(&path);
        // The flags of the run, as they are part of each request.
        command.args(["--base-url", &server.url, "--service-id", "bench"]);
        finish(command.arg("--vpn-check").spawn().unwrap());
    };
    let (ours, runs) = in_turn(
        ROUNDS,
        || rate(KNOWN_ROWS, check),
        || Round::of(KNOWN_ROWS, run).speed,
    );
    assert_eq!(server.seen().requests, u64::from(KNOWN_ROWS), "asked once");
    table.add(
        "check with a ledger that has every answer, rows/s",
        "≥ the run",
        &ours,
        0,
        format!("the run: {:.0}", Spread::of(&runs)),
    );
    table.add("… ratio", "≥ 1", &ratios(&ours, &runs), 3, "the run = 1");
}

fn memory(program: &str, files: &Files, table: &mut Table) {
    let (few, many) = (files.csv(FEW_ROWS), files.csv(MANY_ROWS));
    let peak = |input: &Path| peak(command(program, input).spawn().unwrap());
    let (large, small) = in_turn(MEMORY_ROUNDS, || peak(&many), || peak(&few));
    table.add(
        "check, memory at the highest, 10,000,000 rows, MiB",
        "flat",
        &large,
        1,
        format!("10,000 rows: {:.1}", Spread::of(&small)),
    );
}

fn command(program: &str, input: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .arg("check")
        .arg(input)
        .args(["--quiet", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn rate(rows: u32, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    f64::from(rows) / began.elapsed().as_secs_f64()
}

/// Reads all rows and finds their fields, without making a request of them.
fn read(input: &Path) {
    let settings = reader_settings(input);
    let (mut reader, _) = Reader::open(settings, Compose::new(|_, _| {})).unwrap();
    while let Some(batch) = reader.next_batch().unwrap() {
        for row in batch.rows {
            row.request.unwrap();
        }
    }
}
