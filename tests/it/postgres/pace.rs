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
    let Some(cluster) = shared() else { return };
    let (database, csv) = (cluster.database(), users::csv(60));
    let (place, (server, release)) = (Place::with("users.csv", &csv), Server::holding(6));
    init(&place, &database);
    let url = database.url();
    let with = |rate: &'static str, output: &'static str| {
        let args = ["run", "users.csv", "-o", output, "--service-id", "test"];
        { place.rescore(args) }
            .args(["--base-url", &server.url(), "--ledger", &url])
            .args(["--ledger-secret-file", "secret", "--rate", rate])
            .env("RESCORE_API_KEY", "key-for-tests")
    };
    let (fast, slow) = (
        with("300/s", "a.csv").start(),
        with("200/s", "b.csv").start(),
    );
    // Both have calls to make until they are answered.
    let shown = || database.sql("SELECT state, rate FROM rescore.pace");
    let began = Instant::now();
    while !(shown().contains("\"workers\":2") && shown().trim().ends_with("|200")) {
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
    assert_eq!(server.calls(), 60);
}
