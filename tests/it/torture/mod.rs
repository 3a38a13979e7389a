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

/// Tries so many cases from a random seed on, unless the environment says otherwise.
fn try_cases(cases: u64) {
    let cases = number("TORTURE_CASES").unwrap_or(cases);
    let first = number("TORTURE_SEED").unwrap_or_else(|| fastrand::u64(..u64::MAX / 2));
    println!("TORTURE_SEED={first} TORTURE_CASES={cases}");
    let place = Place::new();
    let wrong_clock = place.path("wrong_clock.so");
    let source = "tests/it/torture/wrong_clock.rs";
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition=2024", "--crate-type=cdylib", source, "-o"]);
    assert!(compiler.arg(&wrong_clock).status().unwrap().success());
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
}

#[test]
fn torture_of_a_hundred_cases_loses_no_row_and_pays_for_none_twice() {
    try_cases(100);
}

#[test]
#[ignore = "takes half an hour"]
fn torture_of_ten_thousand_cases_loses_no_row_and_pays_for_none_twice() {
    try_cases(10_000);
}
