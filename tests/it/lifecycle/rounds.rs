//! A sample that grows in rounds until the shares of the decisions are known: no user is asked about twice, and the rest can
//! be paid for later.

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

#[test]
fn rounds_end_once_the_shares_are_known_and_the_whole_file_pays_for_the_rest() {
    let csv = users::csv(2_000);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let sample = "--sample auto:±15% --price 0.01EUR --summary s.json";
    let done = place.score(&server, sample);
    done.exits(0).says("at most 2,000").says("20.00 EUR");
    // From 200 answers on, the shares are known to fifteen points.
    let asked = server.calls();
    assert!((200..=500).contains(&asked), "{asked}");
    assert_eq!(place.text("scored.csv").lines().count(), asked + 1);
    let summary = place.json("s.json");
    assert_eq!(summary["part"]["sample_percent"], 16.0);
    assert_eq!(summary["part"]["sample_precision"], 15.0);
    assert_eq!(summary["expected"]["sampled_requests"], asked);
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 2_000);
    assert!(server.requests().iter().all(|request| request.attempt == 1));
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_file_that_is_too_small_to_know_is_scored_whole() {
    let csv = users::csv(150);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.score(&server, "--sample auto:1%").exits(0);
    assert_eq!(server.calls(), 150);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    place.score(&server, "").exits(2).says("already exists");
}

#[test]
fn a_limit_ends_the_rounds_and_the_same_command_continues_them() {
    let csv = users::csv(2_000);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place
        .score(&server, "--sample auto:±15% --max-calls 100")
        .exits(5);
    assert_eq!(server.calls(), 100);
    place
        .score(&server, "--sample auto:±15% --max-calls 1000")
        .exits(0);
    assert!((200..=500).contains(&server.calls()));
    assert!(server.requests().iter().all(|request| request.attempt == 1));
}

#[test]
fn fresh_rounds_pay_for_their_own_answers_once() {
    let csv = users::csv(1_000);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.score(&server, "--limit 50").exits(0);
    place
        .score(&server, "--sample auto:±15% --fresh --overwrite")
        .exits(0);
    let sampled = place.text("scored.csv").lines().count() - 1;
    assert_eq!(server.calls(), 50 + sampled);
}

#[test]
fn what_rounds_would_pay_for_again_is_refused() {
    let place = Place::with("users.csv", users::csv(10));
    let server = Server::good();
    for other in ["--limit 5", "--no-ledger", "--retry-failed"] {
        place
            .score(&server, &*format!("--sample auto:±1% {other}"))
            .exits(2);
    }
    for wrong in ["auto", "auto:", "auto:0%", "auto:±1", "auto:±50%"] {
        place.score(&server, ["--sample", wrong]).exits(2);
    }
    assert_eq!(server.calls(), 0);
}
