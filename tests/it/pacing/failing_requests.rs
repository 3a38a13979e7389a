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
    let flags = "-c 1 --retries 1 --max-outage 6s";
    let done = place.score(&server, flags);
    done.exits(1)
        .says("rescore: service down, next try in 5 s")
        .says("rescore: not an outage: the service answers, but fails on every row that is tried")
        .says("for the service, which failed on each of the last rows")
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

/// A file of good users, with a user for whom the service fails after every third.
fn with_failing_amid(failing: usize) -> String {
    let group = |i| {
        [1, 2, 3]
            .map(|good| format!("User {i}-{good}"))
            .into_iter()
            .chain([format!("Failing {i}")])
    };
    users::named((1..=failing).flat_map(group))
}

#[test]
fn failing_rows_are_known_the_next_night_and_sent_alone() {
    const FAILING: usize = 12;
    let csv = with_failing_amid(FAILING);
    let scored = users::scored_without(&csv, |name| name.starts_with("Failing"));
    for ledger in [&[][..], &["--ledger", "nightly.ledger"]] {
        let (place, server) = (Place::with("users.csv", &csv), Server::start(script));
        let mut before = 0;
        for new in [FAILING * 3, 0] {
            let flags = ["-c", "4", "--retries", "1", "--max-outage", "1s"];
            let again = if before > 0 {
                "--retry-failed"
            } else {
                "--overwrite"
            };
            let flags = flags.iter().chain(ledger).chain([&again]);
            let done = place.score(&server, flags);
            done.exits(1)
                .says("failed 12")
                .silent_about("service down")
                .silent_about("which failed on each of the last rows");
            assert_eq!(place.text("scored.csv"), scored);
            assert_eq!(server.calls() - before, new + FAILING * 2);
            before = server.calls();
        }
        if let [_, file] = ledger {
            let done = place.rescore(["ledger", "stats", file]).done();
            done.exits(0);
            let stats = done.printed();
            assert!(
                stats.contains("\n  calls for 12 users failed while others were answered; the next run sends them again\n"),
                "{stats}"
            );
            let whom = ["ledger", "forget", file, "--users", "users.csv"];
            let done = place.rescore(whom).done();
            done.exits(0);
            let forgot = done.printed();
            assert!(
                forgot.contains("\nalso forgot that the service had failed for 12 requests\n"),
                "{forgot}"
            );
        }
    }
}

#[test]
fn a_service_that_fails_on_every_row_is_down_and_no_row_is_given_up() {
    let place = Place::with("users.csv", users::csv(500));
    let server = Server::start(|request: &Request| match request.nth {
        21.. => status(500),
        _ => good(request),
    });
    let flags = "-c 1 --max-outage 1s";
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
fn a_row_that_is_always_refused_ends_with_a_reason_also_where_it_is_the_only_one_to_retry() {
    let place = Place::with("users.csv", users::csv(200));
    let server = Server::start(|request: &Request| match &*request.name() {
        "User 7" => status(429),
        _ => good(request),
    });
    for more in ["", "--retry-failed"] {
        place.score(&server, more).exits(1).says("throttled 1");
    }
    assert!(server.calls() < 200 + 20, "{}", server.calls());
}

#[test]
fn a_request_that_failed_once_and_was_not_retried_is_not_recorded() {
    let csv = with_failing_amid(3);
    let (place, server) = (Place::with("users.csv", csv), Server::start(script));
    let flags = "-c 1 --retries 0 --ledger nightly.ledger";
    place.score(&server, flags).exits(1).says("failed 3");
    let done = place.rescore("ledger stats nightly.ledger").done();
    let stats = done.printed();
    done.exits(0);
    assert!(
        !stats.contains("failed while others were answered"),
        "{stats}"
    );
}
