//! What may be overwritten and what may not: a file that somebody may still need.

use std::io::{self, Write};
use std::os::unix::fs::symlink;

use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::users;

#[test]
fn a_run_that_waits_for_its_input_holds_its_output() {
    let csv = users::csv(5);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let (input, mut rows) = io::pipe().unwrap();
    let run = place.run(&server, "- -o scored.csv --format csv");
    let running = run.stdin_from(input).start();
    // More than a pipe holds, and not yet a whole line: the run reads it and needs more.
    write!(rows, "name,email,ip,user_agent,{}", "x".repeat(100_000)).unwrap();
    place.score(&server, "").exits(75).says("another run");
    writeln!(rows, "\nJane,j@example.com,::1,u,").unwrap();
    drop(rows);
    running.done().exits(0);
    assert_eq!(server.calls(), 1);
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn a_run_whose_rejects_or_changes_are_there_creates_no_ledger() {
    for (name, more) in [("scored.rejects.csv", ""), ("c.csv", "--changes c.csv")] {
        let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
        place.write(name, "somebody's");
        let run = place.run(&server, "users.csv -o scored.csv");
        let done = run.args(more).done();
        done.exits(2).says(&format!("`{name}` already exists"));
        assert_eq!(place.names(), [name, "users.csv"]);
        assert_eq!(server.calls(), 0);
    }
}

/// A finished run of which two rows have no verdict yet, with output, rejects and ledger.
fn unfinished(csv: &str) -> (Place, Server) {
    let place = Place::with("users.csv", csv);
    let server = Server::start(|request| match &*request.name() {
        "User 3" | "User 7" if request.attempt == 1 => status(422),
        _ => good(request),
    });
    place.score(&server, "").exits(1);
    let left = [
        "rescore.ledger",
        "scored.csv",
        "scored.rejects.csv",
        "users.csv",
    ];
    assert_eq!(place.names(), left);
    (place, server)
}

#[test]
fn what_somebody_changed_since_the_run_left_it_is_not_replaced() {
    let csv = users::csv(10);
    for name in ["scored.csv", "scored.rejects.csv"] {
        let (place, server) = unfinished(&csv);
        let fixed = place.text(name) + "by hand\n";
        place.write(name, &fixed);
        let ledger = place.read("rescore.ledger");
        place
            .score(&server, "--retry-failed")
            .exits(2)
            .says(&format!("`{name}` is not as the "))
            .says("--overwrite");
        assert_eq!(place.text(name), fixed);
        assert!(place.read("rescore.ledger") == ledger);
        assert_eq!(server.calls(), 10);
        let both = "--retry-failed --overwrite";
        place.score(&server, both).exits(0);
        assert_eq!(
            (server.calls(), place.text("scored.csv")),
            (12, users::scored(&csv))
        );
    }
}

#[test]
fn what_the_run_never_wrote_is_not_replaced() {
    let csv = users::csv(10);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.score(&server, "--max-calls 4").exits(5);
    place.write("scored.csv", "precious");
    let foreign = "`scored.csv` is not as the unfinished run left it";
    place.score(&server, "").exits(2).says(foreign);
    assert_eq!(place.text("scored.csv"), "precious");
    place.score(&server, "--overwrite").exits(0);

    let (place, server) = unfinished(&csv);
    place.write("mine.csv", "precious");
    for file in ["--rejects", "--changes"] {
        let done = place.score(&server, [file, "mine.csv", "--retry-failed"]);
        done.exits(2)
            .says("`mine.csv` is not as the finished run left it");
        assert_eq!(place.text("mine.csv"), "precious");
    }
    assert_eq!(server.calls(), 10);
}

#[test]
fn the_output_of_another_input_is_not_replaced() {
    let csv = users::csv(10);
    let (place, server) = unfinished(&csv);
    place.write("other.csv", users::csv(3));
    let retry = "other.csv -o scored.csv --retry-failed";
    let other = || place.run(&server, retry);
    let done = other().done();
    done.exits(2)
        .says("`scored.csv` was written by a run with another input");
    // Nor by rows that come down a pipe.
    let retry = "-o scored.csv --format csv --retry-failed";
    let piped = place.run(&server, retry);
    piped.stdin(csv.as_str()).done().exits(2);
    assert_eq!(server.calls(), 10);
    // The same input and output under other names are still the same run.
    for (input, output) in [
        ("./users.csv", "scored.csv"),
        ("link.csv", "./scored.csv"),
        ("users.csv", "link-out.csv"),
    ] {
        let (place, server) = unfinished(&csv);
        symlink("users.csv", place.path("link.csv")).unwrap();
        symlink("scored.csv", place.path("link-out.csv")).unwrap();
        let rejects = "--rejects scored.rejects.csv --retry-failed";
        let run = place.run(&server, [input, "-o", output]);
        run.args(rejects).done().exits(0);
        assert_eq!(server.calls(), 12);
    }
}

#[test]
fn an_input_that_has_changed_or_comes_down_a_pipe_is_still_the_same() {
    let csv = users::csv(10);
    let (place, server) = unfinished(&csv);
    place.write("users.csv", users::csv(12));
    place
        .score(&server, "--retry-failed")
        .exits(0)
        .says("8 rows already paid for");
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(12)));

    let (place, server) = (Place::new(), Server::good());
    let pipe = |rows: String, more: &[&str]| {
        let args = "- -o scored.csv --format csv";
        let program = place.run(&server, args).stdin(rows);
        program.args(more).done()
    };
    pipe(csv.clone() + "11,,u@example.com,::1,u\n", &[]).exits(1);
    pipe(csv.clone(), &["--retry-failed"])
        .exits(0)
        .says("10 rows already paid for");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}
