//! Services of our own with a rate: calls that must keep a distance, and a small bucket.

use std::time::Duration;

use crate::behaviour::{Behaviour, Bucket, Refusal, Refuses};
use crate::busy::Busy;
use crate::program::{Program, load};
use crate::server::Server;
use crate::table::Line;

/// More than these services accept in the time of a run.
pub(crate) const ROWS: u32 = 20_000;
/// Seconds that are measured: the limit should be found by then.
pub(crate) const FROM: usize = 20;
pub(crate) const TO: usize = 32;
/// Time of a run.
pub(crate) const TIME: Duration = Duration::from_secs(TO as u64 + 1);

pub(crate) fn spacing(program: &Program) {
    keep_distance(program, "", "≥ 0.6, at most 1 in 50");
}

pub(crate) fn spacing_busy(program: &Program) {
    let _busy = Busy::start();
    keep_distance(program, ", busy machine", "≥ 0.3");
}

fn keep_distance(program: &Program, machine: &str, aim: &str) {
    const RATE: f64 = 200.0;
    let server = limited(20, RATE, 1.0);
    let load = load();
    let done = program
        .start(&program.users(ROWS), &server.url, &[])
        .done(TIME);
    let counts = server.counts();
    let rate = counts.rate(FROM..TO);
    Line {
        service: &format!("200/s, calls 5 ms apart, 20 ms{machine}"),
        rows: ROWS,
        seen: format!("{rate:.1}/s after 20 s"),
        share: Some(rate / RATE),
        refusals: counts.refusals(),
        aim,
        more: format!(
            "{} of the refusals after 20 s; {load}; {}",
            counts.refused_in(FROM..TO),
            done.ending()
        ),
    }
    .print();
}

pub(crate) fn bucket(program: &Program) {
    const RATE: f64 = 60.0;
    const SECONDS: usize = 75;
    let server = limited(80, RATE, 5.0);
    let done = program
        .start(&program.users(ROWS), &server.url, &[])
        .done(Duration::from_secs(SECONDS as u64 + 1));
    let counts = server.counts();
    let rate = counts.rate(0..SECONDS);
    Line {
        service: "60/s, bucket of 5, 80 ms, 429, no hint",
        rows: ROWS,
        seen: format!("{rate:.1}/s in the first 75 s"),
        share: Some(rate / RATE),
        refusals: counts.refusals(),
        aim: "≥ 0.94, ≤ 10 refusals",
        more: done.ending(),
    }
    .print();
}

fn limited(milliseconds: u64, rate: f64, burst: f64) -> Server {
    Server::start(Behaviour {
        latency: Duration::from_millis(milliseconds),
        refuses: Refuses::Nobody,
        limit: Some(Bucket { rate, burst }),
        refusal: Refusal::NO_HINT,
    })
}
