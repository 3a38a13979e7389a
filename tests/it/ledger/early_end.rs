//! A run that ends before its first answer: its ledger keeps what the next run must know of calls that may have been billed.

use std::time::Duration;

use crate::support::process::Place;
use crate::support::server::{Request, Server, good, raw, silence};
use crate::support::users;

/// Calls for the first user, and the different UUIDs that they had.
fn first_user(server: &Server) -> (usize, usize) {
    let requests = server.requests();
    let first = requests.iter().filter(|it| it.name() == "User 1");
    let mut uuids: Vec<_> = first
        .map(|it| it.header("idempotency-key").map(str::to_owned))
        .collect();
    let calls = uuids.len();
    uuids.sort();
    uuids.dedup();
    (calls, uuids.len())
}

#[test]
fn the_next_run_sends_the_uuid_of_a_call_that_was_lost_before_the_first_answer() {
    let csv = users::csv(3);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(
        |request: &Request| match (&*request.name(), request.attempt) {
            // Billed, and cut off.
            ("User 1", 1..=4) => raw("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{").then_close(),
            _ => good(request),
        },
    );
    let args = "--retries 1 --idempotency-header idempotency-key";
    for _ in 0..2 {
        place.score(&server, args).exits(3);
        assert!(place.names().contains(&"scored.csv.ledger".to_owned()));
    }
    place.score(&server, args).exits(0);
    assert_eq!(first_user(&server), (5, 1));
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

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
