//! Services that refuse some rows because of what they are: one row always, or every sixteenth once.

use std::time::Duration;

use crate::behaviour::{Behaviour, Bucket, Refusal, Refuses};
use crate::program::{Program, all_done};
use crate::server::Server;
use crate::table::Line;

const LATENCY: Duration = Duration::from_millis(20);
const ROWS: u32 = 3_000;
/// Without a limit, these take more than the seconds after which the refused row fails.
const MANY_ROWS: u32 = 200_000;
/// The row that is never accepted. It comes early, when little is known of the service.
const REFUSED: u32 = 30;
/// A run that takes longer is interrupted.
const AT_MOST: Duration = Duration::from_secs(60);

const LIMIT: Bucket = Bucket {
    rate: 100.0,
    burst: 20.0,
};

pub(crate) fn one_without_limit(program: &Program) {
    for rows in [ROWS, MANY_ROWS] {
        one(program, rows, None);
    }
}

pub(crate) fn one_with_limit(program: &Program) {
    one(program, ROWS, Some(LIMIT));
}

/// Two runs at a time, without that row and with it, for either kind of refusal: with a limit, both are refused for it, and
/// pause as they are asked.
fn one(program: &Program, rows: u32, limit: Option<Bucket>) {
    for retry_after in [Some(1), None] {
        let status = 429;
        let refusal = Refusal {
            status,
            retry_after,
        };
        one_refused(program, rows, limit, refusal);
    }
}

fn one_refused(program: &Program, rows: u32, limit: Option<Bucket>, refusal: Refusal) {
    let servers = [Refuses::Nobody, Refuses::Always(REFUSED)].map(|refuses| {
        Server::start(Behaviour {
            latency: LATENCY,
            refuses,
            limit,
            refusal,
        })
    });
    let inputs = [program.users_without(rows, REFUSED), program.users(rows)];
    let place = program.place();
    let ledgers = [0, 1].map(|run| place.path().join(format!("ledger-{run}")));
    let runs = [0, 1].map(|run| {
        let options = ["--ledger", ledgers[run].to_str().unwrap()];
        program.start(&inputs[run], &servers[run].url, &options)
    });
    let done = all_done(runs, AT_MOST);

    let [without, with] = servers.map(|server| server.counts());
    let [time_without, time] = [0, 1].map(|run| done[run].time.as_secs_f64());
    let speed = f64::from(with.accepted()) / time;
    let speed_without = f64::from(without.accepted()) / time_without;
    let [last_without, last] = [&without, &with].map(|counts| counts.last_accepted().as_secs_f64());
    let service = limit.map_or("accepts everything".to_owned(), |limit| {
        format!("{:.0}/s, bucket of {:.0}", limit.rate, limit.burst)
    });
    let hint = refusal.retry_after.map_or("no hint", |_| "Retry-After 1");
    Line {
        service: &format!("{service}, 20 ms; one row always 429, {hint}"),
        rows,
        seen: format!(
            "{time:.1} s, {} accepted; without that row {time_without:.1} s",
            with.accepted()
        ),
        share: Some(speed / speed_without),
        refusals: with.refusals(),
        aim: "≥ 0.9",
        more: format!(
            "last accepted after {last:.1} s, without that row {last_without:.1} s ({:.2}); refused without it: {}; reason of the row: {}; {}; {}",
            last_without / last,
            without.refusals().refused,
            done[1].reason_of(REFUSED).as_deref().unwrap_or("none"),
            done[1].ending(),
            program.kept_limit(&ledgers[1]),
        ),
    }
    .print();
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
