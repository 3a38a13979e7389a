//! What it costs to keep answers, and what it saves to know them.

use std::time::Duration;

use rescore::internals::config::{LedgerChoice, LedgerConfig};
use rescore::internals::ledger::Reuse;
use rescore::internals::pace::Rate;

use crate::calls::{
    LATENCY, NOTHING_KEPT, ROWS, ROWS_WITH_LATENCY, Round, most_with_latency, run_with,
};
use crate::data::Files;
use crate::measure::{ROUNDS, Spread, Table, in_turn, ratios};
use crate::server::Server;

/// Two seconds' worth.
const KNOWN_ROWS: u32 = 400_000;

/// The run's own ledger, as every run to a file has it.
const OWN: LedgerConfig = LedgerConfig {
    choice: LedgerChoice::Own,
    reuse: Reuse::All,
    dedupe: true,
};

/// Runs with a ledger and without in turn.
fn rounds(files: &Files, rows: u32, latency: Duration) -> (Vec<f64>, Vec<f64>) {
    let (input, output) = (files.csv(rows), files.output("scored.csv"));
    let server = Server::start(latency);
    let speed = |ledger: LedgerConfig| {
        Round::of(rows, || {
            run_with(&input, &output, &server.url, Rate::Unlimited, ledger);
        })
        .speed
    };
    in_turn(ROUNDS, || speed(OWN), || speed(NOTHING_KEPT))
}

pub(crate) fn zero_latency(files: &Files, table: &mut Table) {
    let (with, without) = rounds(files, ROWS, Duration::ZERO);
    table.add(
        "with a ledger, zero latency, rows/s",
        "–",
        &with,
        0,
        format!("without: {:.0}", Spread::of(&without)),
    );
    table.add(
        "… ratio",
        "≥ 0.60",
        &ratios(&with, &without),
        3,
        "without = 1",
    );
}

pub(crate) fn with_latency(files: &Files, table: &mut Table) {
    let (with, without) = rounds(files, ROWS_WITH_LATENCY, LATENCY);
    let share = |speeds: &[f64]| -> Vec<f64> {
        speeds
            .iter()
            .map(|speed| speed / most_with_latency() * 100.0)
            .collect()
    };
    table.add(
        "with a ledger, 20 ms latency, 64 in flight: % of 3,200 rows/s",
        "as without",
        &share(&with),
        1,
        format!("without: {:.1}", Spread::of(&share(&without))),
    );
}

pub(crate) fn known(files: &Files, table: &mut Table) {
    let (input, output) = (files.csv(KNOWN_ROWS), files.output("scored.csv"));
    let mut server = Server::start(Duration::ZERO);
    let path = files.output("answers.ledger");
    let shared = || LedgerConfig {
        choice: LedgerChoice::Shared(path.clone()),
        reuse: Reuse::All,
        dedupe: true,
    };
    let run = || run_with(&input, &output, &server.url, Rate::Unlimited, shared());
    run();
    let bytes = path.metadata().unwrap().len();
    let speeds: Vec<f64> = (1..=ROUNDS)
        .map(|_| Round::of(KNOWN_ROWS, run).speed)
        .collect();
    assert_eq!(server.seen().requests, u64::from(KNOWN_ROWS), "asked once");
    table.add(
        "every answer known, rows/s",
        "≥ 150,000",
        &speeds,
        0,
        "nothing is asked",
    );
    #[allow(clippy::cast_precision_loss, reason = "shown with a digit")]
    let each = bytes as f64 / f64::from(KNOWN_ROWS);
    table.add("the ledger's bytes an answer", "–", &[each], 1, "");
}
