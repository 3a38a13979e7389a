//! Random commands against a service with faults, with kills, signals, full disks, wrong clocks and lost ledgers in between,
//! whose files and bills are held against a model.
//!
//! `cargo test --release torture -- --ignored` tries ten thousand cases. `TORTURE_CASES` says how many, and `TORTURE_SEED` with
//! which seed they start: each case has the seed after the one before. A case that fails names its own, which with
//! `TORTURE_CASES=1` repeats it, up to the moments at which its processes are stopped.

mod case;
mod course;
mod service;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::support::process::Place;

use course::{Tally, torture};

/// A case mostly waits: for answers, for pauses before retries and for disks.
const CASES_AT_ONCE: u64 = 24;

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// The library that makes the clock of a program wrong.
fn wrong_clock(place: &Place) -> PathBuf {
    let (source, library) = (
        "tests/it/torture/wrong_clock.rs",
        place.path("wrong_clock.so"),
    );
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition=2024", "--crate-type=cdylib", source, "-o"]);
    assert!(compiler.arg(&library).status().unwrap().success());
    library
}

/// Tries so many cases from a random seed on, unless the environment says otherwise.
fn try_cases(cases: u64) {
    let cases = number("TORTURE_CASES").unwrap_or(cases);
    let first = number("TORTURE_SEED").unwrap_or_else(|| fastrand::u64(..u64::MAX / 2));
    println!("TORTURE_SEED={first} TORTURE_CASES={cases}");
    let place = Place::new();
    let wrong_clock = wrong_clock(&place);
    let (next, began) = (AtomicU64::new(0), Instant::now());
    let (tally, failures) = (Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= cases || failures.lock().unwrap().len() > 9 {
                break;
            }
            match catch_unwind(AssertUnwindSafe(|| torture(first + nth, &wrong_clock))) {
                Ok(one) => {
                    let mut all = tally.lock().unwrap();
                    for (what, number) in one {
                        *all.entry(what).or_default() += number;
                    }
                }
                Err(_) => failures.lock().unwrap().push(first + nth),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..CASES_AT_ONCE.min(cases) {
            scope.spawn(work);
        }
    });
    let (tally, failures) = (tally.into_inner().unwrap(), failures.into_inner().unwrap());
    println!("seed {first}, {:.0?}: {tally:?}", began.elapsed());
    let again = "TORTURE_CASES=1 and one of these as TORTURE_SEED try it again";
    assert!(failures.is_empty(), "cases failed: {failures:?}; {again}");
    assert_eq!(tally["cases"] as u64, cases);
}

#[test]
#[cfg(target_os = "linux")]
fn the_clock_of_a_start_is_wrong_where_it_is_to_be() {
    let place = Place::with("users.csv", crate::support::users::csv(1));
    let run = place.rescore("run users.csv -o scored.csv --sandbox --ledger l --summary s.json");
    // 50 years.
    let run = run.env("WRONG_CLOCK", "1577847600,0");
    run.env("LD_PRELOAD", wrong_clock(&place)).exits(0);
    let summary = place.json("s.json");
    let year = &summary["start_time"].as_str().unwrap()[..4];
    assert!(year.parse::<u16>().unwrap() > 2070, "{summary:#}");
    // SQLite reads its own clock.
    let stats = place.rescore("ledger stats l").exits(0);
    stats.prints(&format!("created {year}-"));
}

#[test]
fn torture_of_a_hundred_cases_loses_no_row_and_pays_for_none_twice() {
    try_cases(100);
}

#[test]
#[ignore = "takes several minutes"]
fn torture_of_ten_thousand_cases_loses_no_row_and_pays_for_none_twice() {
    try_cases(10_000);
}
