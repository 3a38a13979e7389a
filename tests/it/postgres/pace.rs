//! Runs over a ledger on a server keep one pace together.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::init;
use crate::support::postgres::shared;
use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

#[test]
fn two_runs_share_one_pace_and_the_smaller_rate_rules_both() {
    // A second of calls: many questions to the row.
    const ROWS: usize = 200;
    let Some(cluster) = shared() else { return };
    let (database, csv) = (cluster.database(), users::csv(ROWS));
    // Each run has users of its own, and a call that waits for its answer.
    let (head, rows) = csv.split_once('\n').unwrap();
    let rows: Vec<_> = rows.lines().collect();
    let half = |rows: &[&str]| format!("{head}\n{}\n", rows.join("\n"));
    let place = Place::with("a.csv", half(&rows[..ROWS / 2]));
    place.write("b.csv", half(&rows[ROWS / 2..]));
    let (server, release) = Server::holding(0);
    let url = init(&place, &database);
    let with = |rate: &'static str, input: &'static str, output: &'static str| {
        let args = ["run", input, "-o", output, "--service-id", "test"];
        { place.rescore(args) }
            .args(["--base-url", &server.url(), "--ledger", &url])
            .args(["--ledger-secret-file", "secret", "--rate", rate])
            .env("RESCORE_API_KEY", "key-for-tests")
    };
    let (fast, slow) = (
        with("300/s", "a.csv", "a.out.csv").start(),
        with("200/s", "b.csv", "b.out.csv").start(),
    );
    let shown = || database.sql("SELECT state, rate FROM rescore.pace");
    let began = Instant::now();
    while !(shown().contains("\"heard\":2") && shown().trim().ends_with("|200")) {
        let state = shown();
        assert!(began.elapsed() < Duration::from_secs(60), "{state}");
        sleep(Duration::from_millis(20));
    }
    drop(release);
    for run in [fast, slow] {
        run.done()
            .exits(0)
            .says("the pace was shared by up to 2 runs");
    }
    assert_eq!(server.calls(), ROWS);
}
