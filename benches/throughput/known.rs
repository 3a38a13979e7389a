//! What it saves to know every answer: the run over a ledger that has them all, and `check`, which says so before.

use std::process::Command;
use std::time::Duration;

use crate::bench::Bench;
use crate::process::Process;
use crate::program::{Ledger, REQUEST};
use crate::reading::{nothing, through_reader};
use crate::rounds::{ROUNDS, in_turn};
use crate::server::Server;
use crate::table::{Table, lines, median, ratios, text};

/// A second's worth or two.
const ROWS: u32 = 400_000;

pub(crate) fn known(bench: &Bench, table: &mut Table) {
    let input = bench.files.csv(ROWS);
    let place = bench.files.place();
    let path = place.path().join("answers.ledger");
    let mut server = Server::start(Duration::ZERO);
    let url = server.url.clone();
    let run = || {
        let ran = bench.whole_run((&input, ROWS), &url, Ledger::At(&path));
        ran.speed()
    };
    let check = || {
        let mut command = bench.program.command("check");
        command.arg(&input).args(["--quiet", "--json", "--ledger"]);
        command.arg(&path).args(REQUEST).args(["--base-url", &url]);
        speed(&mut command)
    };
    eprintln!("  paying for {ROWS} answers");
    run();
    let [runs, checks, reading] = in_turn(
        ROUNDS,
        [&mut || run(), &mut || check(), &mut || {
            through_reader(&input, ROWS, nothing())
        }],
    );
    assert_eq!(server.seen().requests, u64::from(ROWS), "asked once");
    let reading = format!(
        "read and mapped on one thread {}",
        text(median(&reading), 0)
    );
    table.add(&lines::KNOWN, &runs, reading);
    let run = format!("the run {}", text(median(&runs), 0));
    table.add(&lines::KNOWN_CHECK, &checks, run);
    table.add(&lines::KNOWN_CHECK_SHARE, &ratios(&checks, &runs), "");
}

fn speed(command: &mut Command) -> f64 {
    f64::from(ROWS) / Process::start(command).finish().seconds
}
