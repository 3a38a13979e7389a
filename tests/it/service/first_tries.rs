//! Services that fail on the first try of every second row, in each way that may pass: every row gets its verdict.

use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, answer, good, raw, silence, status, user};
use crate::support::users;

const ROWS: usize = 120;

#[track_caller]
fn every_row_is_scored_although_half_of_the_first_tries_bring(fault: fn() -> Action) {
    let server = Server::start(move |request: &Request| {
        if request.attempt == 1 && user(request).is_multiple_of(2) {
            fault()
        } else {
            good(request)
        }
    });
    let csv = users::csv(ROWS);
    let place = Place::with("users.csv", &csv);
    place.score(&server, "-c 8 --retries 5").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(server.calls(), ROWS + ROWS / 2);
}

#[test]
fn a_reset() {
    every_row_is_scored_although_half_of_the_first_tries_bring(|| silence().then_reset());
}

#[test]
fn a_closed_connection() {
    every_row_is_scored_although_half_of_the_first_tries_bring(|| silence().then_close());
}

#[test]
fn half_an_answer() {
    every_row_is_scored_although_half_of_the_first_tries_bring(|| {
        raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"trans").then_close()
    });
}

#[test]
fn a_500_a_502_or_a_408() {
    every_row_is_scored_although_half_of_the_first_tries_bring(|| status(500));
    every_row_is_scored_although_half_of_the_first_tries_bring(|| status(502));
    every_row_is_scored_although_half_of_the_first_tries_bring(|| status(408));
}

#[test]
fn a_503_that_says_when_to_come_back() {
    every_row_is_scored_although_half_of_the_first_tries_bring(|| {
        answer(503, &[("retry-after", "0")], "")
    });
}
