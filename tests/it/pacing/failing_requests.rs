//! Rows over which the service fails whenever it is asked. They must not be taken for a service that is down, nor the
//! other way round.

use crate::support::process::{Place, Program};
use crate::support::server::{Action, Request, Server, good, status};
use crate::support::users;

/// Fails over every user of that name.
fn script(request: &Request) -> Action {
    if request.name().starts_with("Poison") {
        status(500)
    } else {
        good(request)
    }
}

/// A file of so many good users, and then so many of the other kind.
fn with_poison_at_the_end(good: usize, poison: usize) -> String {
    let good = (1..=good).map(|i| format!("User {i}"));
    users::named(good.chain((1..=poison).map(|i| format!("Poison {i}"))))
}

#[test]
fn at_the_end_of_a_file_they_are_given_up_and_nobody_is_told_to_come_back() {
    let csv = with_poison_at_the_end(20, 11);
    let (place, server) = (Place::with("users.csv", &csv), Server::start(script));
    let flags = ["-c", "1", "--retries", "1", "--max-outage", "6s"];
    let done = place.score(&server, flags);
    done.exits(1)
        .says("rescore: service down, next try in 5 s")
        .says("rescore: not an outage: the service answers, but fails on every row that is tried")
        .says("for the service, which failed on each of the last rows")
        .silent_about("the service was down");
    let poison = |name: &str| name.starts_with("Poison");
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, poison)
    );
    // Each twice; and two calls that asked whether the service is back are held against no row: one after 5 s for the row
    // that had not asked yet, one after 6 s.
    assert_eq!(server.calls(), 20 + 11 * 2 + 2);
}

/// A file of good users, and so many of the other kind, each after three of them.
fn with_poison_amid(poison: usize) -> String {
    let group = |i| {
        [1, 2, 3]
            .map(|good| format!("User {i}-{good}"))
            .into_iter()
            .chain([format!("Poison {i}")])
    };
    users::named((1..=poison).flat_map(group))
}

#[test]
fn the_next_night_they_are_asked_alone_and_are_known() {
    const POISON: usize = 12;
    let csv = with_poison_amid(POISON);
    let scored = users::scored_without(&csv, |name| name.starts_with("Poison"));
    for ledger in [&[][..], &["--ledger", "nightly.ledger"]] {
        let (place, server) = (Place::with("users.csv", &csv), Server::start(script));
        let mut before = 0;
        for new in [POISON * 3, 0] {
            let flags = ["-c", "4", "--retries", "1", "--max-outage", "1s"];
            let again = if before > 0 {
                "--retry-failed"
            } else {
                "--overwrite"
            };
            let flags = flags.iter().chain(ledger).chain([&again]);
            let program = place.run(&server, ["users.csv", "-o", "scored.csv"]);
            let done = flags.fold(program, Program::arg).done();
            done.exits(1)
                .says("failed 12")
                .silent_about("service down")
                .silent_about("which failed on each of the last rows");
            assert_eq!(place.text("scored.csv"), scored);
            assert_eq!(server.calls() - before, new + POISON * 2);
            before = server.calls();
        }
        if let [_, file] = ledger {
            let done = place.rescore(["ledger", "stats", file]).done();
            done.exits(0);
            let stats = String::from_utf8_lossy(&done.stdout);
            assert!(
                stats.contains("\n  12 users over which it failed; they are asked again\n"),
                "{stats}"
            );
            let whom = ["ledger", "forget", file, "--users", "users.csv"];
            let done = place.rescore(whom).done();
            done.exits(0);
            let forgot = String::from_utf8_lossy(&done.stdout);
            assert!(
                forgot.contains("\nforgot as well that the service had failed over 12 requests\n"),
                "{forgot}"
            );
        }
    }
}

#[test]
fn a_service_that_fails_over_every_row_is_down_and_no_row_is_given_up() {
    let place = Place::with("users.csv", users::csv(500));
    let server = Server::start(|request: &Request| match request.nth {
        21.. => status(500),
        _ => good(request),
    });
    let flags = ["-c", "1", "--max-outage", "1s"];
    place
        .score(&server, flags)
        .exits(3)
        .says("error: `127.0.0.1` has failed at every call for 1 s\n  the last call, for row 31: 500 ")
        .says("hint: run the same command again when it is well; if it is, it fails over rows up to about this one")
        .says("the service was down once");
    // Ten show it and one tries again. Of the ten, some may have been tried again before.
    assert!((31..=41).contains(&server.calls()), "{}", server.calls());
    assert!(!place.names().iter().any(|name| name.contains("rejects")));
}

#[test]
fn who_failed_once_and_was_not_tried_again_is_not_noted() {
    let csv = with_poison_amid(3);
    let (place, server) = (Place::with("users.csv", csv), Server::start(script));
    let flags = ["-c", "1", "--retries", "0", "--ledger", "nightly.ledger"];
    place.score(&server, flags).exits(1).says("failed 3");
    let done = place.rescore(["ledger", "stats", "nightly.ledger"]).done();
    let stats = String::from_utf8_lossy(&done.stdout);
    done.exits(0);
    assert!(!stats.contains("over which it failed"), "{stats}");
}
