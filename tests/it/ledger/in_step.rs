//! Several runs over the same users at the same time, on one ledger: each user is paid for once.

use std::time::Duration;

use crate::support::process::{Place, Running};
use crate::support::server::{Request, Server, good, status};
use crate::support::users;

/// Calls in flight of each run.
const CALLS: usize = 4;

/// Answers each request after some milliseconds.
fn slow() -> Server {
    Server::start(|request: &Request| {
        good(request).after(Duration::from_millis(1 + request.nth as u64 % 5))
    })
}

/// With calls that can take longer than a test may: a run that waits for one that is gone counts as hanging.
fn start<'a>(place: &'a Place, server: &'a Server, output: &str) -> Running<'a> {
    let args = ["users.csv", "-o", output];
    place.run(server, args).args("-c 4 --timeout 2m").start()
}

/// What is left of a ledger's files once all its runs have ended.
fn ledger_files(place: &Place) -> Vec<String> {
    let mut names = place.names();
    names.retain(|name| name.starts_with("rescore.ledger"));
    names
}

#[test]
fn runs_in_step_over_the_same_users_pay_for_each_of_them_once() {
    let csv = users::csv(600);
    for outputs in [
        &["1.csv", "2.csv"][..],
        &["1.csv", "2.csv", "3.csv"],
        &["1.csv", "2.csv", "3.csv", "4.csv", "5.csv"],
    ] {
        let (place, server) = (Place::with("users.csv", &csv), slow());
        let runs: Vec<_> = { outputs.iter() }
            .map(|output| start(&place, &server, output))
            .collect();
        for run in runs {
            run.done().exits(0);
        }
        for output in outputs {
            assert_eq!(place.text(output), users::scored(&csv));
        }
        assert_eq!(server.calls(), 600, "{} runs", outputs.len());
        assert_eq!(ledger_files(&place), ["rescore.ledger"]);
    }
}

#[test]
fn a_run_that_was_killed_holds_up_neither_its_next_run_nor_another_one() {
    let csv = users::csv(400);
    let (place, server) = (Place::with("users.csv", &csv), slow());
    let killed = start(&place, &server, "1.csv");
    let living = start(&place, &server, "2.csv");
    server.wait_for_calls(150);
    killed.kill_when(|| true);
    // Neither waits until the lease has ended.
    let again = start(&place, &server, "1.csv");
    for run in [living, again] {
        run.done().exits(0);
    }
    for output in ["1.csv", "2.csv"] {
        assert_eq!(place.text(output), users::scored(&csv));
    }
    // Calls in flight, and those whose answers were not durable yet.
    let calls = server.calls();
    assert!((400..=400 + 2 * CALLS).contains(&calls), "{calls}");
    assert_eq!(ledger_files(&place), ["rescore.ledger"]);
}

#[test]
fn another_run_takes_over_what_a_killed_one_had_claimed_once_no_call_of_it_can_be_out() {
    let csv = users::csv(40);
    let (server, release) = Server::holding(10);
    let place = Place::with("users.csv", &csv);
    let start = |output| {
        // It waits for as long as a call can take, and some seconds.
        let args = "users.csv -c 4 --timeout 3s -o";
        place.run(&server, args).arg(output).start()
    };
    let killed = start("1.csv");
    server.wait_for_calls(10 + CALLS);
    killed.kill_when(|| true);
    drop(release);
    let summary = ["--summary", "s.json"];
    let args = "users.csv -c 4 --timeout 3s -o 2.csv";
    let done = place.run(&server, args).args(summary).done();
    done.exits(0);
    assert_eq!(place.text("2.csv"), users::scored(&csv));
    // The kill also lost answers that were on their way to the ledger.
    let calls = server.calls();
    assert!((40 + CALLS..=40 + 2 * CALLS).contains(&calls), "{calls}");
    let said = place.json("s.json")["calls"]["maybe_billed_twice"].clone();
    assert!(said.as_u64().unwrap() >= calls as u64 - 40, "{said}");
    start("1.csv").done().exits(0);
    assert_eq!(server.calls(), calls);
}

#[test]
fn what_an_interrupted_run_was_about_to_ask_is_asked_by_the_other() {
    let csv = users::csv(300);
    let (place, server) = (Place::with("users.csv", &csv), slow());
    let interrupted = start(&place, &server, "1.csv");
    let living = start(&place, &server, "2.csv");
    server.wait_for_calls(100);
    interrupted.signal("INT");
    interrupted.done().exits(130);
    living.done().exits(0);
    assert_eq!(place.text("2.csv"), users::scored(&csv));
    assert_eq!(server.calls(), 300);
    start(&place, &server, "1.csv").done().exits(0);
    assert_eq!(place.text("1.csv"), users::scored(&csv));
    assert_eq!(server.calls(), 300);
    assert_eq!(ledger_files(&place), ["rescore.ledger"]);
}

#[test]
fn a_row_that_failed_in_one_run_is_asked_by_the_other_only_if_it_cannot_have_been_billed() {
    let csv = users::csv(60);
    for (code, calls, codes) in [(422, 60, [Some(1); 2]), (500, 61, [Some(0), Some(1)])] {
        let place = Place::with("users.csv", &csv);
        let server = Server::start(move |request: &Request| match &*request.name() {
            "User 30" if request.attempt == 1 => status(code),
            _ => good(request).after(Duration::from_millis(2)),
        });
        let run = |output| {
            let args = "users.csv -c 4 --retries 0 -o";
            place.run(&server, args).arg(output).start()
        };
        let mut ends = [run("1.csv"), run("2.csv")].map(|run| run.done().code());
        ends.sort_unstable();
        assert_eq!((ends, server.calls()), (codes, calls));
    }
}

#[test]
fn a_run_waits_in_plain_words_for_what_a_stopped_one_asks_about() {
    let csv = users::csv(30);
    let (server, release) = Server::holding(10);
    let place = Place::with("users.csv", &csv);
    let first = start(&place, &server, "1.csv");
    server.wait_for_calls(10 + CALLS);
    first.wait_for_file("1.csv.partial", |partial| {
        partial.split(|it| *it == b'\n').count() > 10
    });
    first.signal("STOP");
    // Not while it has the ledger locked, such as to renew its lease.
    let ledger = rusqlite::Connection::open(place.path("rescore.ledger")).unwrap();
    while ledger.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err() {
        first.signal("CONT");
        first.signal("STOP");
    }
    drop(ledger);
    drop(release);
    let args = "users.csv -o 2.csv";
    let second = place.run(&server, args).start();
    second.wait_for_words("that another run is asking about");
    first.signal("CONT");
    for run in [first, second] {
        run.done().exits(0);
    }
    for output in ["1.csv", "2.csv"] {
        assert_eq!(place.text(output), users::scored(&csv));
    }
    assert_eq!(server.calls(), 30);
}
