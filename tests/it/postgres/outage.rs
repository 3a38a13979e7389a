//! The server goes away: nobody is paid for twice, and no answer is lost.

use super::{end_leases, init, run};
use crate::support::postgres::own;
use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

const ROWS: usize = 60;

#[test]
fn answers_wait_beside_the_output_until_the_server_is_back() {
    let Some(cluster) = own() else { return };
    let (database, csv) = (cluster.database(), users::csv(ROWS));
    let (place, (server, release)) = (Place::with("users.csv", &csv), Server::holding(20));
    init(&place, &database);
    let running = run(&place, &server, &database.url(), "scored.csv").start();
    server.wait_for_calls(28);
    cluster.stop_server();
    drop(release);
    running.wait_for_file("scored.csv.spill", |_| true);
    // Until an answer cannot be stored, nobody knows that the server is away: what was claimed before may be called for.
    assert!(server.calls() <= 28 + 8, "{}", server.calls());
    running.wait_for_words("the ledger's server does not answer");
    cluster.start_server();
    running
        .done()
        .exits(0)
        .says("the ledger's server answers again");
    assert_eq!(server.calls(), ROWS);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(database.count("answers"), ROWS);
    assert_eq!(place.names(), ["scored.csv", "secret", "users.csv"]);
}

#[test]
fn a_server_that_stays_away_stops_the_run_and_the_next_one_brings_its_answers_in() {
    let Some(cluster) = own() else { return };
    let (database, csv) = (cluster.database(), users::csv(ROWS));
    let (place, (server, release)) = (Place::with("users.csv", &csv), Server::holding(20));
    init(&place, &database);
    let url = database.url();
    let running = run(&place, &server, &url, "scored.csv")
        .args(["--max-outage", "1s"])
        .start();
    server.wait_for_calls(28);
    cluster.stop_server();
    drop(release);
    running
        .done()
        .exits(3)
        .says(" paid answers wait in `scored.csv.spill`");
    let paid = server.calls();
    assert!(paid <= 28 + 8, "{paid}");
    cluster.start_server();
    // What it had claimed and not called for is its own for two minutes, as it could tell nobody; here they end now.
    end_leases(&database);
    run(&place, &server, &url, "scored.csv")
        .done()
        .exits(0)
        .says("that an earlier run had kept here while its server was away");
    assert_eq!(server.calls(), ROWS);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(place.names(), ["scored.csv", "secret", "users.csv"]);
}

#[test]
fn a_crash_of_the_server_loses_no_answer() {
    let Some(cluster) = own() else { return };
    let (database, csv) = (cluster.database(), users::csv(ROWS));
    let (place, (server, release)) = (Place::with("users.csv", &csv), Server::holding(20));
    init(&place, &database);
    let running = run(&place, &server, &database.url(), "scored.csv").start();
    server.wait_for_calls(28);
    cluster.crash_server();
    drop(release);
    running.done().exits(0);
    assert_eq!(server.calls(), ROWS);
    assert_eq!(
        (database.count("answers"), place.text("scored.csv")),
        (ROWS, users::scored(&csv))
    );
}
