//! How fast `rescore` is, and how lean: always beside a baseline measured in the same run, round by round in turn.
//!
//! `cargo bench --bench throughput` takes some minutes. After `--`, names of sections choose some of them, `--list` names them,
//! and `--long` measures a run of 4 million rows as well. With `RESCORE_BIN=PATH` another build of the program is run. Nothing is
//! asserted: a Markdown table, as in `docs/benchmarks.md`, says what was aimed at and what was seen. The server and the smallest
//! client that starts are this same binary, run again with a word of their own, so that their CPU time is not counted.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark measures the real clock, prints, and stops if its setup fails"
)]

mod bare;
mod data;
mod process;
mod server;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use data::Files;
use process::Used;
use server::Server;

/// The program's own, for the baselines as well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A part of the benchmark: it prints lines of the table.
type Section = fn(&Files);

const SECTIONS: [(&str, Section); 8] = [
    ("calls", calls),
    ("latency", latency),
    ("rate", rate),
    ("startup", startup),
    ("ledger", ledger),
    ("known", known),
    ("files", files),
    ("memory", |files| memory(files, 10_000, 5, "≤ 20")),
];
/// Of `--long`.
const LONG: (&str, Section) = ("million", |files| memory(files, 4_000_000, 1, "≤ 32"));

/// Rounds of what takes seconds.
const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [server::WORD, milliseconds] => {
            server::serve(Duration::from_millis(milliseconds.parse().unwrap()));
        }
        [bare::WORD, url] => bare::first_request(url),
        words if words.contains(&"--list") => {
            for (name, _) in SECTIONS.iter().chain([&LONG]) {
                println!("{name}");
            }
        }
        words if words.contains(&"--bench") => measure(words),
        // This is `cargo test --all-targets`, where nobody wants to wait for minutes.
        _ => println!("this is run by `cargo bench --bench throughput`"),
    }
}

fn measure(words: &[&str]) {
    let names: Vec<_> = words
        .iter()
        .filter(|word| !word.starts_with("--"))
        .collect();
    let files = Files::new();
    let long = words.contains(&"--long").then_some(LONG);
    println!(
        "| Measure | Aim | Median | Range | Baseline in the same run |\n|---|---|--:|--:|---|"
    );
    for (name, section) in SECTIONS.into_iter().chain(long) {
        if names.is_empty() || names.iter().any(|part| name.contains(*part)) {
            section(&files);
        }
    }
}

/// Takes each way once a round, and returns the values of each.
fn in_turn<T, const WAYS: usize>(
    rounds: usize,
    mut ways: [&mut dyn FnMut() -> T; WAYS],
) -> [Vec<T>; WAYS] {
    let mut values = [const { Vec::new() }; WAYS];
    for _ in 0..rounds {
        for (way, values) in ways.iter_mut().zip(&mut values) {
            values.push(way());
        }
    }
    values
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A number with three or four digits that say something.
fn shown(value: f64) -> String {
    match value {
        0.0..2.0 => format!("{value:.3}"),
        2.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn line(measure: &str, aim: &str, values: &[f64], baseline: Option<(&str, &[f64])>) {
    let (least, most) = { values.iter() }.fold((f64::MAX, f64::MIN), |(least, most), value| {
        (value.min(least), value.max(most))
    });
    let baseline = baseline.map(|(what, values)| format!("{what} {}", shown(median(values))));
    let (median, baseline) = (shown(median(values)), baseline.unwrap_or_default());
    println!(
        "| {measure} | {aim} | {median} | {}–{} | {baseline} |",
        shown(least),
        shown(most)
    );
}

/// What is measured of each run.
fn of<T>(runs: &[T], value: impl Fn(&T) -> f64) -> Vec<f64> {
    runs.iter().map(value).collect()
}

/// A run over a file in a directory of its own, as fast as the service answers.
fn whole(files: &Files, input: &Path, url: &str, options: &[&str]) -> Used {
    let place = files.place();
    let options = [&["--rate", "unlimited"], options].concat();
    process::run(&mut files.run(input, &place.path().join("scored.csv"), url, &options))
}

/// Whole runs without latency, beside the bare loop.
fn calls(files: &Files) {
    const ROWS: u32 = 150_000;
    let rows = f64::from(ROWS);
    let (input, server) = (files.csv(ROWS, false), Server::start(Duration::ZERO));
    let [ours, bare] = in_turn(
        ROUNDS,
        [
            &mut || {
                let used = whole(files, &input, &server.url, &["--no-ledger"]);
                (rows / used.seconds, used.cpu / rows * 1e6)
            },
            &mut || bare::timed(&server.url, ROWS),
        ],
    );
    let (speed, cpu) = (of(&bare, |it| it.0), of(&bare, |it| it.1));
    let baseline = "bare reqwest loop";
    line(
        "CSV, zero latency, 64 in flight, rows/s",
        "≥ 0.92 of the baseline",
        &of(&ours, |it| it.0),
        Some((baseline, &speed)),
    );
    line(
        "… CPU a row, µs",
        "≤ 1.15 of the baseline",
        &of(&ours, |it| it.1),
        Some((baseline, &cpu)),
    );
}

/// How near runs come to what is possible where the service takes its time.
fn latency(files: &Files) {
    /// Thirteen seconds' worth: the first call alone, the last answers and the disk take less than a percent of them.
    const ROWS: u32 = 40_000;
    /// What 64 calls in flight can make of 20 ms, rows a second.
    const MOST: f64 = 3_200.0;
    let (input, server) = (
        files.csv(ROWS, false),
        Server::start(Duration::from_millis(20)),
    );
    let percent = |options: &[&str]| {
        f64::from(ROWS) / whole(files, &input, &server.url, options).seconds / MOST * 100.0
    };
    let [with, without] = in_turn(3, [&mut || percent(&[]), &mut || percent(&["--no-ledger"])]);
    line(
        "20 ms latency, 64 in flight, % of 3,200 rows/s",
        "≥ 95",
        &with,
        Some(("without a ledger", &without)),
    );
}

fn rate(files: &Files) {
    const ROWS: u32 = 10_000;
    let (input, mut server) = (files.csv(ROWS, false), Server::start(Duration::ZERO));
    let [shares] = in_turn(
        3,
        [&mut || {
            let place = files.place();
            let output = place.path().join("scored.csv");
            process::run(&mut files.run(
                &input,
                &output,
                &server.url.clone(),
                &["--rate", "1000/s"],
            ));
            let seen = server.seen();
            // Between the first and the last there is one step less than requests.
            f64::from(ROWS - 1) / seen.last.saturating_sub(seen.first).as_secs_f64() / 1_000.0
                * 100.0
        }],
    );
    line(
        "`--rate 1000/s` for 10 s, % of the rate, as the server saw it",
        "98–100.5",
        &shares,
        None,
    );
}

/// How soon the program's first request arrives.
fn startup(files: &Files) {
    let (input, server) = (
        files.csv(10, false),
        std::cell::RefCell::new(Server::start(Duration::ZERO)),
    );
    let url = server.borrow().url.clone();
    let until_first = |command: &mut Command| {
        let began = server::now();
        process::run(command);
        server
            .borrow_mut()
            .seen()
            .first
            .saturating_sub(began)
            .as_secs_f64()
            * 1e3
    };
    let [ours, bare] = in_turn(
        20,
        [
            &mut || {
                let place = files.place();
                until_first(&mut files.run(&input, &place.path().join("scored.csv"), &url, &[]))
            },
            &mut || {
                until_first(Command::new(std::env::current_exe().unwrap()).args([bare::WORD, &url]))
            },
        ],
    );
    line(
        "start to first request, with a ledger, ms",
        "< 50",
        &ours,
        Some(("bare reqwest program", &bare)),
    );
}

/// What it costs to keep answers.
fn ledger(files: &Files) {
    const ROWS: u32 = 100_000;
    let rows = f64::from(ROWS);
    let (input, server) = (files.csv(ROWS, false), Server::start(Duration::ZERO));
    let mut sizes = Vec::new();
    let [with, without] = in_turn(
        ROUNDS,
        [
            &mut || {
                let place = files.place();
                let ledger = place.path().join("rescore.ledger");
                let used = whole(
                    files,
                    &input,
                    &server.url,
                    &["--ledger", ledger.to_str().unwrap()],
                );
                sizes.push(ledger.metadata().unwrap().len() as f64 / rows);
                used
            },
            &mut || whole(files, &input, &server.url, &["--no-ledger"]),
        ],
    );
    let speed = |runs: &[Used]| of(runs, |used| rows / used.seconds);
    let cpu = |runs: &[Used]| of(runs, |used| used.cpu / rows * 1e6);
    // Both have written the same output.
    let written = |runs: &[Used]| of(runs, |used| used.written as f64 / rows);
    let without_it = "without";
    line(
        "100,000 rows with a ledger, zero latency, rows/s",
        "≥ 0.85 of the baseline",
        &speed(&with),
        Some((without_it, &speed(&without))),
    );
    line(
        "… CPU a row, µs",
        "",
        &cpu(&with),
        Some((without_it, &cpu(&without))),
    );
    line(
        "… bytes written a row, with the output",
        "≤ 1,000 more than without",
        &written(&with),
        Some((without_it, &written(&without))),
    );
    line("… bytes of the ledger per answer", "", &sizes, None);
}

/// What it saves to know every answer.
fn known(files: &Files) {
    const ROWS: u32 = 400_000;
    let (input, server, place) = (
        files.csv(ROWS, false),
        Server::start(Duration::ZERO),
        files.place(),
    );
    let ledger = place.path().join("rescore.ledger");
    let ledger = ["--ledger", ledger.to_str().unwrap()];
    whole(files, &input, &server.url, &ledger);
    let check = || {
        let mut command = files.command("check");
        command
            .arg(&input)
            .args(["--quiet", "--json", "--service-id", "bench", "--vpn-check"]);
        f64::from(ROWS)
            / process::run(command.args(["--base-url", &server.url]).args(ledger)).seconds
    };
    let run = || f64::from(ROWS) / whole(files, &input, &server.url, &ledger).seconds;
    let [runs, checks] = in_turn(ROUNDS, [&mut || run(), &mut || check()]);
    line(
        "400,000 rows, every answer known, rows/s",
        "≥ 400,000",
        &runs,
        Some(("`check` with that ledger", &checks)),
    );
}

/// Commands without a call, beside the csv crate that reads the same file.
fn files(files: &Files) {
    const ROWS: u32 = 1_000_000;
    let (input, scored, place) = (files.csv(ROWS, false), files.csv(ROWS, true), files.place());
    let speed = |command: &mut Command| f64::from(ROWS) / process::run(command).seconds;
    let page = place.path().join("report.html");
    let [check, decide, report, crate_alone] = in_turn(
        ROUNDS,
        [
            &mut || {
                speed(
                    files
                        .command("check")
                        .arg(&input)
                        .args(["--quiet", "--json"]),
                )
            },
            &mut || speed(files.command("decide").arg(&scored).args(["--what-if"])),
            &mut || {
                speed(
                    files
                        .command("report")
                        .arg(&scored)
                        .arg("--overwrite")
                        .arg("-o")
                        .arg(&page),
                )
            },
            &mut || read(&scored),
        ],
    );
    let baseline = Some(("csv crate, reading alone", &*crate_alone));
    line(
        "`check`, 1,000,000 rows, rows/s",
        "≥ 1,000,000",
        &check,
        baseline,
    );
    line(
        "`decide --what-if`, rows/s",
        "≥ 1,000,000",
        &decide,
        baseline,
    );
    line("`report`, rows/s", "≥ 500,000", &report, baseline);
}

/// Rows a second when the csv crate takes the records apart.
fn read(input: &Path) -> f64 {
    let began = Instant::now();
    let mut reader = csv::ReaderBuilder::new().from_path(input).unwrap();
    let (mut record, mut rows) = (csv::ByteRecord::new(), 0.0);
    while reader.read_byte_record(&mut record).unwrap() {
        rows += 1.0;
    }
    rows / began.elapsed().as_secs_f64()
}

fn memory(files: &Files, rows: u32, rounds: usize, aim: &str) {
    let (input, server) = (files.csv(rows, false), Server::start(Duration::ZERO));
    let run = |options: &[&str]| whole(files, &input, &server.url, options);
    let [with, without] = in_turn(rounds, [&mut || run(&[]), &mut || run(&["--no-ledger"])]);
    let peak = |runs: &[Used]| of(runs, |used| used.peak);
    line(
        &format!("peak memory, {rows} rows with a ledger, MiB"),
        aim,
        &peak(&with),
        Some(("without", &peak(&without))),
    );
    let speed = |runs: &[Used]| of(runs, |used| f64::from(rows) / used.seconds);
    line(
        "… rows/s",
        "",
        &speed(&with),
        Some(("without", &speed(&without))),
    );
}
