//! Rows for which the service fails each time. They must not be mistaken for a service that is down, nor the other way
//! round.

use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, good, status};
use crate::support::users;

/// Fails for every user with that name.
fn script(request: &Request) -> Action {
    if request.name().starts_with("Failing") {
        status(500)
    } else {
        good(request)
    }
}

/// A file of good users, followed by users for whom the service fails.
fn with_failing_at_the_end(good: usize, failing: usize) -> String {
    let good = (1..=good).map(|i| format!("User {i}"));
    users::named(good.chain((1..=failing).map(|i| format!("Failing {i}"))))
}

#[test]
fn at_the_end_of_a_file_failing_rows_are_given_up_and_no_further_run_is_suggested() {
    let csv = with_failing_at_the_end(20, 11);
    let (place, server) = (Place::with("users.csv", &csv), Server::start(script));
    let flags = "-c 1 --retries 1 --max-wait 6s";
    let done = place.score(&server, flags);
    done.exits(1)
        .says("rescore: service down, next try in 5 s")
        .says("rescore: not an outage: the service answers, but fails on every row that is tried")
        .silent_about("the service was down");
    let failing = |name: &str| name.starts_with("Failing");
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, failing)
    );
    // Each failing row twice. Two further calls asked whether the service is back, and count against no row: one after 5 s
    // for the row that had not been asked yet, one after 6 s.
    assert_eq!(server.calls(), 20 + 11 * 2 + 2);
}

#[test]
fn a_service_that_fails_on_every_row_is_down_and_no_row_is_given_up() {
    let place = Place::with("users.csv", users::csv(500));
    let server = Server::start(|request: &Request| match request.nth {
        21.. => status(500),
        _ => good(request),
    });
    let flags = "-c 1 --max-wait 1s";
    place
        .score(&server, flags)
        .exits(3)
        .says("` has been failing for 1 s\n  the last call, for row 31: 500 ")
        .says("hint: run the same command again when the service works; if it works already, it fails on rows near this one")
        .says("the service was down once");
    // Ten calls show the outage and one tries again. Some of the ten may have been retries.
    assert!((31..=41).contains(&server.calls()), "{}", server.calls());
    assert!(!place.names().iter().any(|name| name.contains("rejects")));
}

#[test]
fn a_row_that_is_always_refused_ends_with_a_reason() {
    let place = Place::with("users.csv", users::csv(200));
    let server = Server::start(|request: &Request| match &*request.name() {
        "User 7" => status(429),
        _ => good(request),
    });
    place.score(&server, "").exits(1).says("throttled 1");
    assert!(server.calls() < 200 + 20, "{}", server.calls());
}
