//! A server that is stopped and started while several runs are at work, for a moment or for longer than their leases.

use std::thread;
use std::time::Duration;

use super::several::{IN_FLIGHT, Several, slow};
use crate::postgres::init;
use crate::support::postgres::own;
use crate::support::process::Place;

const RUNS: usize = 4;

#[test]
fn a_server_that_is_stopped_and_started_in_the_middle_of_several_runs_costs_nothing() {
    const ROWS: usize = 400;
    let Some(cluster) = own() else { return };
    let (database, place, server) = (cluster.database(), Place::new(), slow(40));
    init(&place, &database);
    let runs = Several::start(&place, &server, (RUNS, ROWS), &database.url(), &[]);
    server.wait_for_calls(ROWS / 4);
    cluster.stop_server();
    cluster.start_server();
    let bill = runs.done();
    assert_eq!(
        (database.count("answers"), database.count("claims")),
        (ROWS, 0)
    );
    bill.is_exact("the server is stopped and started");
}

#[test]
#[ignore = "takes three minutes: a lease is two"]
fn a_server_that_is_away_for_longer_than_the_leases_costs_what_was_in_flight_at_most() {
    const ROWS: usize = 2_000;
    let Some(cluster) = own() else { return };
    let (database, place, server) = (cluster.database(), Place::new(), slow(100));
    init(&place, &database);
    let outage = ["--max-outage", "10m"];
    let runs = Several::start(&place, &server, (RUNS, ROWS), &database.url(), &outage);
    server.wait_for_calls(ROWS / 4);
    cluster.stop_server();
    thread::sleep(Duration::from_secs(150));
    println!("paid when the server starts again: {}", server.calls());
    cluster.start_server();
    let bill = runs.done_within(Duration::from_secs(300));
    assert_eq!(
        (database.count("answers"), database.count("claims")),
        (ROWS, 0)
    );
    bill.is_counted("the server is away for 150 s", RUNS * 2 * IN_FLIGHT);
}
