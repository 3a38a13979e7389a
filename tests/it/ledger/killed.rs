//! A run that is killed with a ledger of its own: the next one counts what may have been billed twice, at most.

use std::time::Duration;

use crate::support::process::{Done, Place};
use crate::support::server::{Server, good};
use crate::support::users;

/// Answers each request after a while.
fn slow() -> Server {
    Server::start(|request| good(request).after(Duration::from_millis(100)))
}

/// How many rows may have been billed twice, as the summary of the last run says.
fn counted(place: &Place) -> usize {
    let summary: serde_json::Value = serde_json::from_str(&place.text("s.json")).unwrap();
    let twice = summary["calls"]["maybe_billed_twice"].as_u64();
    usize::try_from(twice.unwrap()).unwrap()
}

/// Kills a run when so many calls are out.
fn killed(place: &Place, server: &Server, calls: usize) {
    let args = format!("users.csv -o scored.csv -c {calls}");
    let running = place.run(server, &*args).start();
    server.wait_for_calls(server.calls() + 1 + calls);
    running.kill_when(|| true);
}

fn next(place: &Place, server: &Server) -> Done {
    let args = "users.csv -o scored.csv --summary s.json --price 1";
    place.run(server, args).done()
}

#[test]
fn up_to_twice_the_calls_in_flight_of_a_killed_run_are_counted_by_the_next_one() {
    for calls in [4, 64] {
        let (place, server) = (Place::with("users.csv", users::csv(400)), slow());
        killed(&place, &server, calls);
        let before = server.calls();
        let done = next(&place, &server);
        done.exits(0)
            .says("rows may have been billed twice: an earlier run was killed");
        let (counted, asked) = (counted(&place), server.calls() - before);
        let twice = server.calls() - 400;
        assert_eq!(counted, 2 * calls);
        assert!((1..=counted).contains(&twice), "{twice}");
        done.says(&format!("at most {}.00, with ", asked + counted));
    }
}

#[test]
fn no_more_rows_are_counted_than_are_asked_again() {
    let (place, server) = (Place::with("users.csv", users::csv(9)), slow());
    killed(&place, &server, 4);
    let before = server.calls();
    next(&place, &server).exits(0);
    assert_eq!(counted(&place), server.calls() - before);
}
