//! Several runs at the same time: a second run on one output is refused, and one ledger serves them all.

use std::fs;
use std::time::Duration;

use crate::support::process::{Place, Running};
use crate::support::server::{Request, Server, good};
use crate::support::users;

/// Answers each request after some milliseconds.
fn slow() -> Server {
    Server::start(|request: &Request| {
        good(request).after(Duration::from_millis(1 + request.nth as u64 % 3))
    })
}

/// The same users, the last one first.
fn reversed(csv: &str) -> String {
    let (header, rows) = csv.split_once('\n').unwrap();
    let rows: String = rows.lines().rev().map(|row| format!("{row}\n")).collect();
    format!("{header}\n{rows}")
}

fn lines(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').count() - 1
}

fn start<'a>(place: &'a Place, server: &'a Server, input: &str, output: &str) -> Running<'a> {
    let args = [input, "-o", output, "-c", "4"];
    place.run(server, args).start()
}

#[test]
fn of_two_runs_to_one_output_the_second_is_refused_and_the_first_named() {
    let csv = users::csv(50);
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", &csv);
    let first = place.run(&server, "users.csv -o scored.csv -c 4").start();
    server.wait_for_calls(7);
    // With another ledger or without one, it is still the same output.
    for more in [
        &["--overwrite"][..],
        &["--fresh"],
        &["--ledger", "answers.ledger"],
        &["--no-ledger"],
    ] {
        let done = place.score(&server, more);
        done.exits(75)
            .says(&format!("another run (process {} on ", first.id()))
            .says(") is writing `scored.csv`\n");
        let since = done.stderr.split(" since ").nth(1).unwrap();
        assert!(since.starts_with("20") && since[19..].starts_with("Z)"));
    }
    assert_eq!(server.calls(), 7);
    drop(release);
    first.done().exits(0);
    assert_eq!(server.calls(), 50);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn two_runs_that_meet_in_the_middle_pay_for_each_row_once() {
    const ROWS: usize = 300;
    let (csv, server) = (users::csv(ROWS), slow());
    let place = Place::with("users.csv", &csv);
    place.write("reversed.csv", reversed(&csv));
    let first = start(&place, &server, "users.csv", "first.csv");
    let second = start(&place, &server, "reversed.csv", "second.csv");
    for done in [first.done(), second.done()] {
        done.exits(0).says("taken from the ledger");
    }
    // A third run over the same users costs nothing.
    let third = start(&place, &server, "users.csv", "third.csv").done();
    third.exits(0);
    for output in ["first.csv", "third.csv"] {
        assert_eq!(place.text(output), users::scored(&csv));
    }
    assert_eq!(place.text("second.csv"), users::scored(&reversed(&csv)));
    assert_eq!(server.calls(), ROWS);
    let names = [
        "first.csv",
        "rescore.ledger",
        "reversed.csv",
        "second.csv",
        "third.csv",
        "users.csv",
    ];
    assert_eq!(place.names(), names);
}

#[test]
fn a_run_uses_what_another_one_pays_for_meanwhile() {
    const ROWS: usize = 200;
    let (csv, server) = (users::csv(ROWS), slow());
    let place = Place::with("users.csv", &csv);
    let first = start(&place, &server, "users.csv", "first.csv");
    server.wait_for_calls(ROWS / 2);
    let second = start(&place, &server, "users.csv", "second.csv");
    for done in [first.done(), second.done()] {
        done.exits(0);
    }
    for output in ["first.csv", "second.csv"] {
        assert_eq!(place.text(output), users::scored(&csv));
    }
    assert_eq!(server.calls(), ROWS);
}

#[test]
fn many_runs_that_create_a_ledger_together_all_finish() {
    let csv = users::csv(20);
    for _ in 0..5 {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        let outputs = ["1.csv", "2.csv", "3.csv", "4.csv", "5.csv", "6.csv"];
        let runs = outputs.map(|output| start(&place, &server, "users.csv", output));
        for run in runs {
            run.done().exits(0);
        }
        for output in outputs {
            assert_eq!(place.text(output), users::scored(&csv));
        }
        assert_eq!(server.calls(), 20);
    }
}

#[test]
fn a_run_that_was_killed_holds_nothing() {
    let csv = users::csv(50);
    let (server, release) = Server::holding(20);
    let place = Place::with("users.csv", &csv);
    let program = || place.run(&server, "users.csv -o scored.csv -c 4 --timeout 2m");
    program().start().kill_when(|| {
        // What is in the file is durable.
        let partial = fs::read(place.path("scored.csv.partial"));
        server.calls() == 24 && partial.is_ok_and(|partial| lines(&partial) == 21)
    });
    drop(release);
    program().done().exits(0);
    assert_eq!(server.calls(), 24 + 30);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn a_damaged_ledger_that_runs_share_is_refused_with_a_way_out_that_leads_somewhere() {
    let (place, server) = (Place::with("users.csv", users::csv(5)), Server::good());
    place.score(&server, "").exits(0);
    let mut damaged = place.read("rescore.ledger");
    damaged[100..].fill(0x55);
    for fresh in ["--overwrite", "--overwrite --fresh"] {
        place.write("rescore.ledger", &damaged);
        let done = place.score(&server, fresh);
        done.exits(2)
            .says("the file is damaged\n\nhint: move it and the files whose names start with its name elsewhere")
            .silent_about("--fresh");
        assert!(place.read("rescore.ledger") == damaged);
    }
    assert_eq!(server.calls(), 5);
}
