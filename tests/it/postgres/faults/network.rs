//! What is between the runs and the server breaks connections, or holds back what goes one way or both.

use std::thread;
use std::time::Duration;

use super::several::{IN_FLIGHT, Several, slow};
use crate::postgres::{Setup, init};
use crate::support::postgres::{PASSWORD, shared};
use crate::support::process::Place;
use crate::support::proxy::{Proxy, Way};
use crate::support::server::Server;

const BOTH: [Way; 2] = [Way::ToServer, Way::ToClient];

#[test]
fn connections_that_break_again_and_again_cost_nothing() {
    const RUNS: usize = 4;
    let Some(cluster) = shared() else { return };
    let (database, place, server) = (cluster.database(), Place::new(), slow(5));
    init(&place, &database);
    let proxy = Proxy::start(cluster.port());
    // In the middle of a message as often as not.
    proxy.cut_after(Some(60_000));
    let url = database.url_at("127.0.0.1", proxy.port());
    let runs = Several::start(&place, &server, (RUNS, 300), &url, &[]);
    let bill = runs.done();
    let broken = proxy.connections() - 3 * RUNS;
    assert!(broken > 10, "{broken} connections broke");
    assert_eq!(
        (database.count("answers"), database.count("claims")),
        (300, 0)
    );
    bill.is_exact(&format!("{broken} connections broke"));
}

/// Holds back what goes these ways while calls are out, until the run has noticed; then lets it go on, or breaks the
/// connections. Returns how many answers the server has stored of calls that were out.
fn held_until_noticed(rows: usize, ways: &[Way], breaks: bool) -> usize {
    const BEFORE: usize = 20;
    let cluster = shared().unwrap();
    let (server, release) = Server::holding(BEFORE);
    let mut setup = Setup::new(cluster, rows, server);
    let proxy = Proxy::start(cluster.port());
    setup.url = setup.database.url_at("127.0.0.1", proxy.port());
    let running = setup.run("scored.csv").env("PGPASSWORD", PASSWORD).start();
    setup.server.wait_for_calls(BEFORE + IN_FLIGHT);
    while setup.database.count("answers") < BEFORE {
        thread::sleep(Duration::from_millis(20));
    }
    proxy.hold(ways);
    drop(release);
    running.wait_for_file("scored.csv.spill", |_| true);
    let stored = setup.database.count("answers") - BEFORE;
    if breaks {
        proxy.cut();
    }
    proxy.hold(&[]);
    running.done().exits(0);
    setup.check_all("scored.csv");
    stored
}

#[test]
fn a_connection_that_stands_still_costs_nothing() {
    if shared().is_some() {
        held_until_noticed(60, &BOTH, false);
    }
}

#[test]
fn an_answer_that_the_server_has_stored_and_the_run_does_not_hear_of_is_paid_for_once() {
    if shared().is_some() {
        // Nothing is left to claim, so that what is held back first is what the server says of answers.
        let stored = held_until_noticed(20 + IN_FLIGHT, &[Way::ToClient], true);
        assert!(stored > 0, "no answer was stored");
    }
}

/// Makes entering a worker take a second and a half.
const SLOWLY: &str = "
    CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_sleep(1.5);
        RETURN NULL;
    END $$;
    CREATE TRIGGER slowly BEFORE INSERT ON rescore.workers EXECUTE FUNCTION slowly()";

/// A run does not hear that it was entered as a worker until so many more connections broke, and enters again. In the end it
/// is no worker any more.
fn entered_unheard(more: usize) {
    let cluster = shared().unwrap();
    let mut setup = Setup::new(cluster, 20, Server::good());
    setup.database.sql(SLOWLY);
    let proxy = Proxy::start(cluster.port());
    setup.url = setup.database.url_at("127.0.0.1", proxy.port());
    let running = setup.run("scored.csv").env("PGPASSWORD", PASSWORD).start();
    let entering = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'PgSleep'";
    while setup.database.sql(entering) == "0" {}
    proxy.hold(&[Way::ToClient]);
    while setup.database.count("workers") == 0 {}
    let before = proxy.connections();
    running.wait_until("connections", || {
        proxy.cut();
        proxy.connections() >= before + more
    });
    proxy.hold(&[]);
    running.done().exits(0);
    assert_eq!(
        (setup.server.calls(), setup.database.count("workers")),
        (20, 0)
    );
    setup.check("scored.csv");
}

#[test]
fn a_run_that_does_not_hear_that_it_was_entered_as_a_worker_enters_again() {
    if shared().is_some() {
        entered_unheard(0);
    }
}

#[test]
fn a_run_that_does_not_hear_again_and_again_that_it_was_entered_is_one_worker() {
    if shared().is_some() {
        // It is sent again once, and looks of rows go on meanwhile.
        entered_unheard(10);
    }
}

#[test]
#[ignore = "takes a minute or two"]
fn a_network_that_stands_still_for_twelve_seconds_costs_nothing() {
    const STILL: Duration = Duration::from_secs(12);
    let Some(cluster) = shared() else { return };
    for (situation, ways, breaks) in [
        ("still both ways, then on", &BOTH[..], false),
        ("still both ways, then broken", &BOTH[..], true),
        ("still to the runs, then on", &[Way::ToClient], false),
        ("still to the runs, then broken", &[Way::ToClient], true),
        ("still to the server, then on", &[Way::ToServer], false),
    ] {
        let (database, place, server) = (cluster.database(), Place::new(), slow(50));
        init(&place, &database);
        let proxy = Proxy::start(cluster.port());
        let url = database.url_at("127.0.0.1", proxy.port());
        let runs = Several::start(&place, &server, (4, 600), &url, &[]);
        server.wait_for_calls(150);
        proxy.hold(ways);
        thread::sleep(STILL);
        if breaks {
            proxy.cut();
        }
        proxy.hold(&[]);
        let bill = runs.done_within(Duration::from_secs(120));
        assert_eq!(
            (database.count("answers"), database.count("claims")),
            (600, 0)
        );
        bill.is_exact(situation);
    }
}
