//! Eight processes that share a PostgreSQL ledger, and so one pace, beside one process alone, each at a stand-in of its own.

use std::fs;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use rescore::internals::sandbox::{RateLimit, Sandbox, SandboxSettings};
use serde_json::Value;

use crate::cluster;
use crate::program::{Program, Run, all_done, load};
use crate::stand_in::Bill;
use crate::table::{Line, skip};

const WORKERS: u32 = 8;
const RATE: f64 = 150.0;
const BURST: u32 = 15;
/// More than twice an even part, so that no worker comes to the end of its file.
const ROWS_EACH: u32 = 3_000;
/// Seconds into the runs between which they are measured.
const FOUND: u32 = 30;
const END: u32 = 60;
const SERVICE: &str = "150/s, bucket of 15, 80 ms ± 20 ms, 429, no hint";
const AIM: &str = "≥ 0.93 after 30 s, ≤ 30 refusals in the first minute";

pub(crate) fn measure(program: &Program) {
    let name = format!("{WORKERS} workers, one PostgreSQL ledger: {SERVICE}");
    let Some(cluster) = cluster::own() else {
        return skip(&name, "there is no PostgreSQL");
    };
    let (place, database) = (program.place(), cluster.database());
    let (secret, url) = (place.path().join("secret"), database.url());
    program.init_ledger(&url, &secret);
    let (shared, alone) = (stand_in(), stand_in());
    let ledger = [
        "--ledger",
        &url,
        "--ledger-secret-file",
        secret.to_str().unwrap(),
    ];
    let summary = |worker| place.path().join(format!("{worker}.json"));
    let mut runs: Vec<Run> = (0..WORKERS)
        .map(|worker| {
            let users = program.users_of(worker * ROWS_EACH + 1..=(worker + 1) * ROWS_EACH);
            let path = summary(worker);
            let options = [&ledger[..], &["--summary", path.to_str().unwrap()]].concat();
            program.start(&users, &base(shared.address()), &options)
        })
        .collect();
    let users = program.users(WORKERS * ROWS_EACH);
    runs.push(program.start(&users, &base(alone.address()), &[]));

    for run in &mut runs {
        run.wait(Duration::from_secs(FOUND.into()));
    }
    let before = [&shared, &alone].map(|service| Bill::of(service.address()));
    for run in &mut runs {
        run.wait(Duration::from_secs(END.into()));
    }
    let after = [&shared, &alone].map(|service| Bill::of(service.address()));
    let load = load();
    all_done(runs, Duration::ZERO);
    let mut calls: Vec<u64> = (0..WORKERS).map(|worker| sent(&summary(worker))).collect();
    calls.sort_unstable();
    let each = format!("calls of a worker {} to {}; {load}", calls[0], calls[7]);
    line(&name, before[0], after[0], each);
    line(
        &format!("… one worker: {SERVICE}"),
        before[1],
        after[1],
        load,
    );
    for service in [shared, alone] {
        let _ = service.stop();
    }
}

fn stand_in() -> Sandbox {
    Sandbox::start(SandboxSettings {
        latency: Duration::from_millis(60),
        jitter: Duration::from_millis(40),
        rate_limit: Some(RateLimit {
            per_second: RATE,
            burst: NonZeroU32::new(BURST).unwrap(),
            retry_after: None,
        }),
        ..SandboxSettings::default()
    })
    .unwrap()
}

fn base(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// The calls that a run made, by its summary.
fn sent(summary: &Path) -> u64 {
    let text = fs::read_to_string(summary).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    summary["calls"]["sent"].as_u64().unwrap()
}

fn line(service: &str, before: Bill, after: Bill, more: String) {
    let rate = f64::from(after.since(before).billed) / f64::from(END - FOUND);
    Line {
        service,
        rows: WORKERS * ROWS_EACH,
        seen: format!("{rate:.1}/s after {FOUND} s"),
        share: Some(rate / RATE),
        refusals: after.refusals(),
        aim: AIM,
        more,
    }
    .print();
}
