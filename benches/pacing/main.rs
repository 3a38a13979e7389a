//! How `rescore` paces itself on real sockets: the built program, run as a user runs it, against services that accept
//! everything, refuse at random, refuse one row, or have a limit.
//!
//! `cargo bench --bench pacing` runs everything in about half an hour, `cargo bench --bench pacing -- NAME` the sections whose
//! name contains NAME, and `-- --list` names them. With `RESCORE_BIN=PATH` another build of the program is run. Nothing is
//! asserted: a Markdown table says what was aimed at and what was seen. Sections are skipped where nginx or PostgreSQL is
//! missing.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    dead_code,
    reason = "a benchmark measures the real clock, prints, and stops if its setup fails"
)]

mod nginx;
mod program;
mod service;

#[path = "../../tests/support/postgres.rs"]
mod postgres_server;

use std::time::Duration;

use nginx::Nginx;
use postgres_server::{Cluster, PASSWORD};
use program::Program;
use service::{Calls, Refuses, Service};

/// A part of the benchmark: it prints lines of the table.
type Section = fn(&Program);

const SECTIONS: [(&str, Section); 12] = [
    ("unlimited-0ms", |program| {
        beside_unlimited(program, 0, 100_000, "≤ 6 s");
    }),
    ("unlimited-20ms", |program| {
        beside_unlimited(program, 20, 10_000, "≤ 3 s");
    }),
    ("unlimited-100ms", |program| {
        beside_unlimited(program, 100, 200, "≤ 2 s");
    }),
    ("unlimited-300ms", at_300_ms),
    ("random", random),
    ("one-row", one_row),
    ("nginx-200", |program| {
        behind_nginx(program, &nginx::WITHOUT_BURST, 60, "≥ 0.6, at most 1 in 50");
    }),
    ("nginx-burst", |program| {
        behind_nginx(program, &nginx::WITH_BURST, 60, "≥ 0.6, at most 1 in 50");
    }),
    ("nginx-1", |program| {
        behind_nginx(program, &nginx::SLOW, 900, "≥ 0.9, at most 40 refusals");
    }),
    ("nginx-1-burst", |program| {
        behind_nginx(
            program,
            &nginx::SLOW_WITH_BURST,
            300,
            "≥ 0.9, at most 40 refusals",
        );
    }),
    ("nginx-conn", |program| {
        behind_nginx(program, &nginx::IN_FLIGHT, 60, "≥ 0.9, at most 1 in 50");
    }),
    ("eight-processes", eight_processes),
];

/// More rows than are asked about in the time of a run.
const MANY: u32 = 400_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    if has("--list") {
        for (name, _) in SECTIONS {
            println!("{name}");
        }
    } else if has("--bench") {
        let wanted: Vec<_> = arguments
            .iter()
            .filter(|word| !word.starts_with("--"))
            .collect();
        let program = Program::new();
        println!("{program}\n");
        println!("| service | seen | of what is possible | refused | aim |\n|---|---|--:|--:|---|");
        for (name, measure) in SECTIONS {
            if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
                measure(&program);
            }
        }
    } else {
        // This is `cargo test --all-targets`, where nobody wants to wait for minutes.
        println!("this is run by `cargo bench --bench pacing`");
    }
}

fn line(service: &str, seen: &str, share: Option<f64>, refused: usize, aim: &str) {
    let share = share.map_or("–".to_owned(), |share| format!("{share:.3}"));
    println!("| {service} | {seen} | {share} | {refused} | {aim} |");
}

/// A service that accepts everything: how soon a run is as fast as one with `--rate unlimited`.
fn beside_unlimited(program: &Program, milliseconds: u64, rows: u32, aim: &str) {
    let latency = Duration::from_millis(milliseconds);
    let run = |options: &[&str]| {
        let service = Service::start(latency, Refuses::Nobody);
        let seconds = program
            .start(1..=rows, &service.url, options)
            .done(Duration::from_secs(60));
        (seconds, service.calls())
    };
    let ((seconds, calls), (unlimited, _)) = (run(&[]), run(&["--rate", "unlimited"]));
    line(
        &format!("accepts everything, {milliseconds} ms, {rows} rows"),
        &format!("{seconds:.2} s; `--rate unlimited` {unlimited:.2} s"),
        Some(unlimited / seconds),
        calls.refused(),
        aim,
    );
}

fn at_300_ms(program: &Program) {
    let service = Service::start(Duration::from_millis(300), Refuses::Nobody);
    program
        .start(1..=MANY, &service.url, &[])
        .done(Duration::from_secs(32));
    let calls = service.calls();
    let seen = format!("{:.0}/s in second 29", calls.rate(29.0, 30.0));
    line(
        "accepts everything, 300 ms",
        &seen,
        None,
        calls.refused(),
        "≥ 800/s within 30 s",
    );
}

/// One call in sixteen is refused, whatever the pace.
fn random(program: &Program) {
    let service = Service::start(Duration::from_millis(20), Refuses::Share(0.0625));
    program
        .start(1..=MANY, &service.url, &[])
        .done(Duration::from_secs(121));
    let calls = service.calls();
    let seen = format!("{:.0}/s in the second minute", calls.rate(60.0, 120.0));
    let name = "6.25 % of calls refused at random, 20 ms, no hint";
    line(name, &seen, None, calls.refused(), "≥ 500/s");
}

/// One row is refused as often as it is sent.
fn one_row(program: &Program) {
    const ROWS: u32 = 200_000;
    let run = |refuses| {
        let service = Service::start(Duration::from_millis(20), refuses);
        let seconds = program
            .start(1..=ROWS, &service.url, &[])
            .done(Duration::from_secs(90));
        (seconds, service.calls())
    };
    let ((seconds, calls), (without, _)) = (run(Refuses::Row(100)), run(Refuses::Nobody));
    let seen = format!("{seconds:.1} s; without that {without:.1} s");
    let name = format!("one of {ROWS} rows always refused, 20 ms");
    line(
        &name,
        &seen,
        Some(without / seconds),
        calls.refused(),
        "≥ 0.9",
    );
}

/// After twenty seconds of search, or a minute where calls are rare.
fn behind_nginx(program: &Program, limit: &nginx::Limit, seconds: u32, aim: &str) {
    let behind = Service::start(limit.latency, Refuses::Nobody);
    let Some(nginx) = Nginx::start(program.place(), &behind.url, limit) else {
        return println!(
            "| {} | skipped: nginx is not installed | – | – | {aim} |",
            limit.name
        );
    };
    program
        .start(1..=MANY, &nginx.url, &[])
        .done(Duration::from_secs((seconds + 1).into()));
    let calls = nginx.calls();
    let from = if limit.allows > 10.0 { 20.0 } else { 60.0 };
    let rate = calls.rate(from, seconds.into());
    let seen = format!("{rate:.2}/s from second {from} to {seconds}");
    line(
        limit.name,
        &seen,
        Some(rate / limit.allows),
        calls.refused(),
        aim,
    );
}

/// Eight runs with one ledger on a server, behind a limit of 200 calls a second.
fn eight_processes(program: &Program) {
    const SECONDS: u32 = 90;
    let (name, aim) = (
        "eight runs on PostgreSQL, nginx 200/s, 20 may wait",
        "≥ 0.9, at most 1 in 50",
    );
    let limit = nginx::WAITING;
    let behind = Service::start(limit.latency, Refuses::Nobody);
    let nginx = Nginx::start(program.place(), &behind.url, &limit);
    let (Some(nginx), Some(cluster)) = (nginx, Cluster::start()) else {
        return println!(
            "| {name} | skipped: needs nginx, PostgreSQL and `TEST_POSTGRES` | – | – | {aim} |"
        );
    };
    let ledger = format!(
        "postgresql://ledger@localhost:{}/postgres?sslmode=disable",
        cluster.port
    );
    let made = program
        .command()
        .env("PGPASSWORD", PASSWORD)
        .args(["ledger", "init", &ledger])
        .status();
    assert!(made.unwrap().success());
    let options = ["--ledger", &ledger];
    let runs: Vec<_> = (0..8)
        .map(|run| program.start(run * 10_000..(run + 1) * 10_000, &nginx.url, &options))
        .collect();
    let runs: Vec<_> = { runs.into_iter() }
        .map(|run| std::thread::spawn(move || run.done(Duration::from_secs((SECONDS + 1).into()))))
        .collect();
    for run in runs {
        run.join().unwrap();
    }
    let calls: Calls = nginx.calls();
    let rate = calls.rate(20.0, SECONDS.into());
    let seen = format!("{rate:.1}/s from second 20 to {SECONDS}");
    line(name, &seen, Some(rate / limit.allows), calls.refused(), aim);
}
