//! Services that refuse some rows because of what they are: one row always, or every sixteenth once.

use std::time::Duration;

use crate::behaviour::{Behaviour, Bucket, Refusal, Refuses};
use crate::program::{Program, all_done};
use crate::server::Server;
use crate::table::Line;

const LATENCY: Duration = Duration::from_millis(20);
const ROWS: u32 = 3_000;
/// The row that is never accepted. It comes early, when little is known of the service.
const REFUSED: u32 = 30;
/// A run that takes longer is interrupted.
const AT_MOST: Duration = Duration::from_secs(60);

const LIMIT: Bucket = Bucket {
    rate: 100.0,
    burst: 20.0,
};

pub(crate) fn one_without_limit(program: &Program) {
    one(program, None);
}

pub(crate) fn one_with_limit(program: &Program) {
    one(program, Some(LIMIT));
}

/// Three runs at a time: without that row, and with it and either kind of refusal.
#[allow(clippy::too_many_lines, reason = "one case from start to end")]
fn one(program: &Program, limit: Option<Bucket>) {
    let services = [
        (Refuses::Nobody, None),
        (Refuses::Always(REFUSED), Some(1)),
        (Refuses::Always(REFUSED), None),
    ];
    let servers = services.map(|(refuses, retry_after)| {
        Server::start(Behaviour {
            latency: LATENCY,
            refuses,
            limit,
            refusal: Refusal {
                status: 429,
                retry_after,
            },
        })
    });
    let inputs = [
        program.users_without(ROWS, REFUSED),
        program.users(ROWS),
        program.users(ROWS),
    ];
    let place = program.place();
    let ledgers = [0, 1, 2].map(|run| place.path().join(format!("ledger-{run}")));
    let runs = [0, 1, 2].map(|run| {
        let options = ["--ledger", ledgers[run].to_str().unwrap()];
        program.start(&inputs[run], &servers[run].url, &options)
    });
    let done = all_done(runs, AT_MOST);

    let speed =
        |run: usize| f64::from(servers[run].counts().accepted()) / done[run].time.as_secs_f64();
    let last = |run: usize| servers[run].counts().last_accepted().as_secs_f64();
    let service = limit.map_or("accepts everything".to_owned(), |limit| {
        format!("{:.0}/s, bucket of {:.0}", limit.rate, limit.burst)
    });
    for run in [1, 2] {
        let hint = services[run].1.map_or("no hint", |_| "Retry-After 1");
        let reason = done[run].reason_of(REFUSED);
        let counts = servers[run].counts();
        Line {
            service: &format!("{service}, 20 ms; one row always 429, {hint}"),
            rows: ROWS,
            seen: format!(
                "{:.1} s, {} accepted; without that row {:.1} s",
                done[run].time.as_secs_f64(),
                counts.accepted(),
                done[0].time.as_secs_f64()
            ),
            share: Some(speed(run) / speed(0)),
            refusals: counts.refusals(),
            aim: "≥ 0.9",
            more: format!(
                "last accepted after {:.1} s, without that row {:.1} s; reason of the row: {}; {}; {}",
                last(run),
                last(0),
                reason.as_deref().unwrap_or("none"),
                done[run].ending(),
                program.kept_limit(&ledgers[run]),
            ),
        }
        .print();
    }
}

pub(crate) fn every_16th(program: &Program) {
    const FROM: usize = 20;
    const TO: usize = 60;
    const RATE: f64 = 200.0;
    let rows = 20_000;
    let server = Server::start(Behaviour {
        latency: LATENCY,
        refuses: Refuses::Every(16),
        limit: Some(Bucket {
            rate: RATE,
            burst: 20.0,
        }),
        refusal: Refusal::NO_HINT,
    });
    let done = program
        .start(&program.users(rows), &server.url, &[])
        .done(Duration::from_secs(TO as u64 + 1));
    let counts = server.counts();
    let rate = counts.rate(FROM..TO);
    Line {
        service: "200/s, bucket of 20, 20 ms; every 16th row refused once, 429, no hint",
        rows,
        seen: format!("{rate:.1}/s after 20 s"),
        share: Some(rate / RATE),
        refusals: counts.refusals(),
        aim: "≥ 0.5",
        more: done.ending(),
    }
    .print();
}
