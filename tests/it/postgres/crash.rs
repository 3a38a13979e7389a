//! The server crashes while calls are in flight: what is claimed stays claimed, so that nobody is paid for twice.

use super::{init, run};
use crate::support::postgres::own;
use crate::support::process::{Done, KEY, Place, Running};
use crate::support::server::Server;
use crate::support::stand_in::StandIn;
use crate::support::users;

#[test]
fn a_crash_of_the_server_loses_no_claim() {
    const ROWS: usize = 9;
    let Some(cluster) = own() else { return };
    let (database, csv) = (cluster.database(), users::csv(ROWS));
    let (place, (server, release)) = (Place::with("users.csv", &csv), Server::holding(1));
    // What no commit waits for is lost.
    database.sql("ALTER SYSTEM SET wal_writer_delay = '10s'");
    cluster.crash_server();
    let url = init(&place, &database);
    let first = run(&place, &server, &url, "first.csv").start();
    server.wait_for_calls(ROWS);
    cluster.crash_server();
    assert_eq!(database.count("claims"), ROWS - 1);
    let second = run(&place, &server, &url, "second.csv").start();
    database.wait_for(2, "workers");
    drop(release);
    for run in [first, second] {
        run.done().exits(0).silent_about("twice");
    }
    assert_eq!(server.calls(), ROWS);
    for output in ["first.csv", "second.csv"] {
        assert_eq!(place.text(output), users::scored(&csv));
    }
}

/// How many rows may have been billed twice, as a run's summary says.
fn perhaps_twice(place: &Place, run: usize) -> u64 {
    let summary = place.json(&format!("{run}.json"));
    summary["calls"]["maybe_billed_twice"].as_u64().unwrap()
}

#[test]
fn eight_runs_pay_once_while_the_server_crashes_twice() {
    const RUNS: usize = 8;
    /// After so many answers.
    const CRASHES: [u64; 2] = [50, 250];
    const ROWS: usize = 600;
    let Some(cluster) = own() else { return };
    let (database, csv) = (cluster.database(), users::csv(ROWS));
    let place = Place::with("users.csv", &csv);
    // Only the server crashes, not its machine.
    database.sql("ALTER SYSTEM SET fsync = off");
    cluster.crash_server();
    let service = StandIn::start(&place, "--latency 40ms --jitter 40ms");
    init(&place, &database);
    let (service_url, url) = (service.url(), database.url());
    let start = |run: usize| {
        let (output, summary) = (format!("{run}.csv"), format!("{run}.json"));
        let program = place.rescore("run users.csv --service-id test -c 8");
        let program = program.args(["--base-url", &service_url, "--rate", "unlimited"]);
        let program = program.args(["-o", &output, "--summary", &summary, "--ledger", &url]);
        let program = program.args("--ledger-secret-file secret");
        program.env("RESCORE_API_KEY", KEY).start()
    };
    let billed = || service.bill()["billed"].as_u64().unwrap();
    // A run that cannot start ends, and says why; and the first one must not be through before the last one has started.
    let runs = service.held_back(|| {
        let runs: Vec<_> = (0..RUNS).map(start).collect();
        runs[0].wait_until("all workers", || database.count("workers") == RUNS);
        runs
    });
    for after in CRASHES {
        runs[0].wait_until("calls", || billed() >= after);
        cluster.crash_server();
    }
    let ended: Vec<Done> = runs.into_iter().map(Running::done).collect();
    for done in &ended {
        done.exits(0);
    }
    let twice: u64 = (0..RUNS).map(|run| perhaps_twice(&place, run)).sum();
    let billed = billed();
    assert!(billed <= ROWS as u64 + twice, "{billed}, {twice}");
    let whole = place.text("0.csv");
    assert_eq!(whole.lines().count(), 1 + ROWS);
    assert!(!whole.contains(",,"), "no row is without a verdict");
    for run in 1..RUNS {
        assert!(place.text(&format!("{run}.csv")) == whole, "{run}");
    }
    assert_eq!(database.count("answers"), ROWS);
}
