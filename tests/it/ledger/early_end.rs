//! A run that ends before its first answer: its ledger keeps what the next run must know of calls that may have been billed.

use std::time::Duration;

use crate::support::process::Place;
use crate::support::server::{Request, Server, good, silence};
use crate::support::users;

#[test]
fn an_interrupted_run_that_got_no_answer_leaves_what_the_next_one_counts() {
    let csv = users::csv(3);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(
        |request: &Request| match (&*request.name(), request.attempt) {
            ("User 1", 1) => silence().then_wait(Duration::from_secs(60)),
            _ => good(request),
        },
    );
    let running = place
        .run(&server, "users.csv -o scored.csv --timeout 1s")
        .start();
    server.wait_for_calls(1);
    running.signal("INT");
    running.done().exits(130);
    assert_eq!(place.names(), ["scored.csv.ledger", "users.csv"]);
    let done = place.score(&server, "");
    done.exits(0).says("1 row may have been billed twice");
    assert_eq!(server.calls(), 4);
    assert_eq!(place.names(), ["scored.csv", "users.csv"]);
}
