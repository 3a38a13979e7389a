//! `rescore ledger copy`: a copy has all that makes rows cost nothing, joins with its original, and is whole or not used.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rusqlite::Connection;

use crate::support::ledger_file;
use crate::support::process::{Done, KEY, Place};
use crate::support::server::Server;
use crate::support::users;

/// A ledger with an answer for each of five users.
fn scored(server: &Server) -> Place {
    let place = Place::with("users.csv", users::csv(5));
    score(&place, server, "--ledger a").exits(0);
    place
}

fn score(place: &Place, server: &Server, flags: &str) -> Done {
    place.score(server, &*format!("--overwrite {flags}"))
}

fn copy(place: &Place, from: &str, to: &str) -> Done {
    place.rescore(["ledger", "copy", from, to]).done()
}

fn change(place: &Place, ledger: &str, statements: &str) {
    let ledger = Connection::open(place.path(ledger)).unwrap();
    ledger.execute_batch(statements).unwrap();
}

#[test]
fn a_copy_costs_no_call_and_the_same_command_adds_what_it_lacks() {
    let server = Server::good();
    let place = scored(&server);
    let before = place.read("scored.csv");
    for words in [
        "copied 5 answers from `a` to `b`, which has 5 now",
        "copied 0 answers from `a` to `b`, which has 5 now",
    ] {
        copy(&place, "a", "b").exits(0).prints(words);
        let mode = fs::metadata(place.path("b")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(place.names(), ["a", "b", "scored.csv", "users.csv"]);
    }
    score(&place, &server, "--ledger b").exits(0);
    assert_eq!((server.calls(), place.read("scored.csv")), (5, before));

    place.write("users.csv", users::csv(7));
    score(&place, &server, "--ledger a").exits(0);
    let words = "copied 2 answers from `a` to `b`, which has 7 now";
    copy(&place, "a", "b").exits(0).prints(words);
    score(&place, &server, "--ledger b").exits(0);
    assert_eq!(server.calls(), 7);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(7)));
}

#[test]
fn the_latest_answer_counts_whichever_copy_has_it() {
    for into_the_older in [true, false] {
        let server = Server::good();
        let place = scored(&server);
        copy(&place, "a", "b").exits(0);
        ledger_file::age(&place.path("a"), &server, 31 * 86_400_000);
        let (from, to) = if into_the_older {
            ("b", "a")
        } else {
            ("a", "b")
        };
        // What is older than the target's answers is of no use there.
        let (added, now) = if into_the_older {
            (5, "10 now")
        } else {
            (0, "5 now")
        };
        for added in [added, 0] {
            let words = format!("copied {added} answers");
            copy(&place, from, to).exits(0).prints(&words).prints(now);
        }
        let flags = format!("--max-age 10d --ledger {to}");
        score(&place, &server, &flags).exits(0);
        assert_eq!(server.calls(), 5, "{to}");
    }
}

#[test]
fn a_run_that_was_stopped_continues_with_a_copy() {
    let server = Server::good();
    let place = scored(&server);
    let command = "users.csv -o scored.csv --fresh --overwrite --ledger";
    let run = |ledger: &str, more: &str| {
        let run = place.run(&server, command).arg(ledger);
        run.args(more).done()
    };
    run("a", "--max-calls 3").exits(5);
    copy(&place, "a", "b").exits(0);
    run("b", "").exits(0);
    assert_eq!(server.calls(), 5 + 5, "three of them before the copy");
    // It is known as the run that has written the output.
    copy(&place, "b", "c").exits(0);
    let again = place.score(&server, "--ledger c");
    again.exits(2);
}

#[test]
fn a_copy_that_is_killed_has_all_or_no_answers_and_the_same_command_makes_it() {
    for microseconds in [0, 2_000, 8_000, 20_000, 40_000] {
        let server = Server::good();
        let place = scored(&server);
        let copying = place.rescore("ledger copy a b").start();
        let started = std::time::Instant::now();
        copying.kill_when(|| started.elapsed().as_micros() >= microseconds);
        // Whether it was in time or not, no row is paid for again.
        let code = if place.path("b").exists() { 0 } else { 2 };
        score(&place, &server, "--ledger b").exits(code);
        copy(&place, "a", "b").exits(0).prints("5 now");
        score(&place, &server, "--ledger b").exits(0);
        assert_eq!(server.calls(), 5, "{microseconds}");
    }
}

#[test]
fn a_ledger_in_use_can_be_copied_but_nothing_can_be_copied_into_it() {
    let (server, release) = Server::holding_if(|request| request.nth > 3);
    let place = Place::with("users.csv", users::csv(5));
    let scoring = "users.csv -o scored.csv -c 1 --ledger a";
    let running = place.run(&server, scoring).start();
    server.wait_for_calls(4);
    copy(&place, "a", "b").exits(0).prints("copied ");
    copy(&place, "b", "a")
        .exits(75)
        .says("is using the ledger `a`");
    drop(release);
    running.exits(0);
    // Claims and the lease stay with the run: the copy is free, and becomes whole.
    copy(&place, "a", "b").exits(0).prints("5 now");
    let done = score(&place, &server, "--ledger b");
    done.exits(0).silent_about("billed twice");
    assert_eq!(server.calls(), 5);
}

/// Where the tests' server was when the answers of the stored ledger were paid for.
const ITS_ADDRESS: &str = "http://127.0.0.1:18999";

#[test]
fn a_ledger_of_version_6_can_be_copied_and_costs_no_call() {
    let place = Place::with("users.csv", users::csv(5));
    for (statements, cost) in [
        ("", 5 * 4_000_000),
        // Calls of one day have two prices.
        (
            "INSERT INTO spending SELECT account, day, '5000000', 1, 0 FROM spending",
            0,
        ),
    ] {
        place.write("old", ledger_file::version_6());
        change(&place, "old", statements);
        let new = format!("new {cost} {}", statements.len());
        copy(&place, "old", &new)
            .exits(0)
            .prints("copied 5 answers");
        let run = place.run_at(ITS_ADDRESS).args("--overwrite --ledger");
        // Nothing listens there.
        let run = run.arg(&new).env("RESCORE_API_KEY", KEY);
        run.exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&users::csv(5)));
        let ledger = Connection::open(place.path(&new)).unwrap();
        let sum = "SELECT sum(price) FROM answers";
        let sum: i64 = ledger.query_row(sum, [], |row| row.get(0)).unwrap();
        assert_eq!(sum, cost);
    }
    let run = place.run_at(ITS_ADDRESS).args("--overwrite --ledger old");
    run.env("RESCORE_API_KEY", KEY).exits(2);
}
