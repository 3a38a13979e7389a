//! Without `--overwrite`, a run replaces only files that are still as an earlier run of the same input left them.

use std::os::unix::fs::symlink;

use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::users;

/// A finished run of ten users with output, rejects and ledger. Two users have no verdict yet.
fn unfinished() -> (Place, Server) {
    let place = Place::with("users.csv", users::csv(10));
    let server = Server::start(|request| match &*request.name() {
        "User 3" | "User 7" if request.attempt == 1 => status(422),
        _ => good(request),
    });
    place.score(&server, "").exits(1);
    (place, server)
}

#[test]
fn what_somebody_changed_since_the_run_left_it_is_not_replaced() {
    for name in ["scored.csv", "scored.rejects.csv"] {
        let (place, server) = unfinished();
        let fixed = place.text(name) + "by hand\n";
        place.write(name, &fixed);
        let ledger = place.read("rescore.ledger");
        let refused = place.score(&server, "--retry-failed");
        refused
            .exits(2)
            .says(&format!("`{name}` is not as the "))
            .says("--overwrite");
        assert_eq!(place.text(name), fixed);
        assert!(place.read("rescore.ledger") == ledger);
        assert_eq!(server.calls(), 10);
        place.score(&server, "--retry-failed --overwrite").exits(0);
        assert_eq!(server.calls(), 12);
        assert_eq!(place.text("scored.csv"), users::scored(&users::csv(10)));
    }
}

#[test]
fn what_the_run_never_wrote_is_not_replaced() {
    let (place, server) = (Place::with("users.csv", users::csv(10)), Server::good());
    place.score(&server, "--max-calls 4").exits(5);
    place.write("scored.csv", "precious");
    let foreign = "`scored.csv` is not as the unfinished run left it";
    place.score(&server, "").exits(2).says(foreign);
    assert_eq!(place.text("scored.csv"), "precious");
    place.score(&server, "--overwrite").exits(0);

    let (place, server) = unfinished();
    place.write("mine.csv", "precious");
    for file in ["--rejects", "--changes"] {
        let done = place.score(&server, [file, "mine.csv", "--retry-failed"]);
        done.exits(2)
            .says("`mine.csv` is not as the finished run left it");
        assert_eq!(place.text("mine.csv"), "precious");
    }
    assert_eq!(server.calls(), 10);

    // Where the first run is refused, there is no ledger either.
    for (name, more) in [("scored.rejects.csv", ""), ("c.csv", "--changes c.csv")] {
        let place = Place::with("users.csv", users::csv(3));
        place.write(name, "somebody's");
        let done = place.score(&server, more);
        done.exits(2).says(&format!("`{name}` already exists"));
        assert_eq!(place.names(), [name, "users.csv"]);
    }
}

#[test]
fn an_output_that_is_complete_but_not_recorded_is_kept_and_named() {
    let (place, server) = (Place::with("users.csv", users::csv(10)), Server::good());
    place.score(&server, "").exits(0);
    // As a full disk leaves the ledger.
    let ledger = rusqlite::Connection::open(place.path("rescore.ledger")).unwrap();
    let lost = "DELETE FROM outputs; UPDATE runs SET failed = NULL";
    ledger.execute_batch(lost).unwrap();
    let done = place.score(&server, "");
    done.exits(2).says("completed it").says("--overwrite");
    let scored = users::scored(&users::csv(10));
    assert_eq!(place.text("scored.csv"), scored);
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(place.text("scored.csv"), scored);
    assert_eq!(server.calls(), 10);
}

#[test]
fn the_output_of_another_input_is_not_replaced() {
    let (place, server) = unfinished();
    place.write("other.csv", users::csv(3));
    let other = place.run(&server, "other.csv -o scored.csv --retry-failed");
    let words = "`scored.csv` was written by a run with another input";
    other.exits(2).says(words);
    // Nor by rows that come down a pipe.
    let piped = place.run(&server, "-o scored.csv --format csv --retry-failed");
    piped.stdin(users::csv(10)).exits(2);
    assert_eq!(server.calls(), 10);
    // The same input and output under other names are still the same run.
    symlink("users.csv", place.path("link.csv")).unwrap();
    symlink("scored.csv", place.path("link-out.csv")).unwrap();
    let run = "link.csv -o link-out.csv --rejects ./scored.rejects.csv --retry-failed";
    place.run(&server, run).exits(0);
    assert_eq!(server.calls(), 12);
}

#[test]
fn an_input_that_has_changed_or_comes_down_a_pipe_is_still_the_same() {
    let (place, server) = unfinished();
    place.write("users.csv", users::csv(12));
    let again = place.score(&server, "--retry-failed");
    again.exits(0).says("8 rows already paid for");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(12)));

    let (place, server) = (Place::new(), Server::good());
    let pipe = |rows: String, more: &str| {
        let program = place.run(&server, "- -o scored.csv --format csv");
        program.args(more).stdin(rows).done()
    };
    pipe(users::csv(10) + "11,,u@example.com,::1,u\n", "").exits(1);
    // Nobody knows whether another stream has the same rows.
    let refused = pipe(users::csv(10), "--retry-failed");
    refused.exits(2).says("`--overwrite` replaces it");
    pipe(users::csv(10), "--retry-failed --overwrite")
        .exits(0)
        .says("10 rows already paid for");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(10)));
}
