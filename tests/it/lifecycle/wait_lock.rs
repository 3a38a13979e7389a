//! Waiting for another run that holds the output or the ledger (`--wait-lock`), and the files of a run that has to give up.

use std::fs;

use crate::support::process::{Place, Program, Running};
use crate::support::server::Server;
use crate::support::users;

const ROWS: usize = 20;

/// A run that holds `scored.csv` until the server goes on.
fn holder<'a>(place: &'a Place, server: &'a Server, more: &[&str]) -> Running<'a> {
    let program = place.run(server, "users.csv -o scored.csv -c 2");
    let running = program.args(more).start();
    server.wait_for_calls(5);
    running
}

/// A run to the same output that waits for the other one.
fn waiter<'a>(place: &'a Place, server: &'a Server, input: &str, more: &[&str]) -> Program<'a> {
    let program = place.run(server, [input, "-o", "scored.csv", "--wait-lock", "1m"]);
    program.args(more)
}

#[test]
fn a_run_waits_until_the_other_one_has_ended_and_uses_what_that_one_paid_for() {
    let csv = users::csv(ROWS);
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", &csv);
    let first = holder(&place, &server, &["--overwrite"]);
    let second = waiter(&place, &server, "users.csv", &["--overwrite"]).start();
    second.wait_for_words("is writing `scored.csv`: waiting up to 1 min");
    assert_eq!(second.said().lines().count(), 1, "{}", second.said());
    let named = format!("rescore: another run (process {} on ", first.id());
    assert!(second.said().starts_with(&named), "{}", second.said());
    drop(release);
    first.exits(0);
    let done = second.exits(0);
    done.says("20 rows already paid for, taken from the ledger");
    assert_eq!(done.stderr.matches("waiting up to").count(), 1);
    assert_eq!(server.calls(), ROWS);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn after_the_wait_everything_is_checked_again() {
    let csv = users::csv(ROWS);
    // The output of the first run is there now, and the second may not replace it.
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", &csv);
    let first = holder(&place, &server, &[]);
    let second = waiter(&place, &server, "users.csv", &[]).start();
    second.wait_for_words("waiting up to");
    drop(release);
    first.exits(0);
    second.exits(2).says("`scored.csv` already exists");
    assert_eq!(server.calls(), ROWS);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));

    // There is another export now: the one of when the run started is not scored.
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", &csv);
    let first = holder(&place, &server, &[]);
    let second = waiter(&place, &server, "users.csv", &["--overwrite"]).start();
    second.wait_for_words("waiting up to");
    let newer = users::named(["User 31", "User 32"]);
    place.write("newer.csv", &newer);
    fs::rename(place.path("newer.csv"), place.path("users.csv")).unwrap();
    drop(release);
    first.exits(0);
    second.exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&newer));
    assert_eq!(server.calls(), ROWS + 2);
}

#[test]
fn a_run_that_gives_up_leaves_the_summary_and_the_metrics_of_the_run_that_is_at_work() {
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(ROWS));
    let files = ["--summary", "summary.json", "--metrics", "run.prom"];
    let first = holder(&place, &server, &files);
    first.wait_for_file("run.prom", |_| true);
    place.score(&server, files).exits(75);
    assert!(!place.path("summary.json").exists());
    assert!(!place.text("run.prom").contains("rescore_exit_code"));
    drop(release);
    first.exits(0);
    let summary = place.json("summary.json");
    assert_eq!(summary["exit_code"], 0);
}

#[test]
fn the_wait_ends_after_its_time_or_with_a_signal() {
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(ROWS));
    let first = holder(&place, &server, &[]);
    let done = place.score(&server, "");
    done.exits(75)
        .says("hint: `--wait-lock 10m` waits until it has ended");
    let done = place.score(&server, "--wait-lock 1s");
    done.exits(75)
        .says("waiting up to 1.0 s")
        .says("error: another run (process ");
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let second = waiter(&place, &server, "users.csv", &[]).start();
        second.wait_for_words("waiting up to");
        second.signal(signal);
        second.exits(code).says("nothing was sent");
    }
    assert_eq!(server.calls(), 5);
    drop(release);
    first.exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(ROWS)));
}

#[test]
fn rejects_and_a_ledger_that_another_run_uses_are_waited_for_as_well() {
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(ROWS));
    let first = holder(&place, &server, &["--rejects", "rejects.csv"]);
    let other = || place.run(&server, "- -o other.csv --no-ledger --rejects rejects.csv");
    let prune = || place.rescore("ledger prune --older-than 1d");
    let piped = users::named(["User 31", "User 32"]);
    let refused = other().stdin(&*piped).exits(75);
    refused.says("another run is writing `rejects.csv.partial`");
    prune().exits(75);
    let second = other().args("--wait-lock 1m").stdin(&*piped).start();
    second.wait_for_words("is writing `rejects.csv.partial`: waiting up to");
    let pruning = prune().args("--wait-lock 1m").start();
    pruning.wait_for_words("is using the ledger `rescore.ledger`: waiting up to 1 min");
    drop(release);
    first.exits(0);
    pruning.exits(0);
    // What came down the pipe is there after the wait.
    second.exits(0);
    assert_eq!(place.text("other.csv"), users::scored(&piped));
}
