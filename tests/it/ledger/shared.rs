//! Several runs at the same time: a second run on one output is refused, and one ledger serves them all.

use std::fs;
use std::time::Duration;

use crate::support::process::{Place, Running};
use crate::support::server::{Request, Server, good, ok, status};
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
    let args = [input, "-o", output, "--ledger", "answers.ledger", "-c", "4"];
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
        &["--no-dedupe"][..],
        &["--overwrite"],
        &["--fresh"],
        &["--ledger", "answers.ledger"],
        &["--no-ledger"],
        &["--no-ledger", "--no-dedupe"],
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
fn two_concurrent_runs_share_what_either_paid_for() {
    const ROWS: usize = 300;
    let (csv, server) = (users::csv(ROWS), slow());
    let place = Place::with("users.csv", &csv);
    place.write("reversed.csv", reversed(&csv));
    let first = start(&place, &server, "users.csv", "first.csv");
    let second = start(&place, &server, "reversed.csv", "second.csv");
    for done in [first.done(), second.done()] {
        done.exits(0).says("taken from the ledger");
    }
    assert_eq!(place.text("first.csv"), users::scored(&csv));
    assert_eq!(place.text("second.csv"), users::scored(&reversed(&csv)));
    // They meet in the middle, where each may have calls in flight and answers that are not durable yet.
    let calls = server.calls();
    assert!((ROWS..=ROWS + 4 * 4).contains(&calls), "{calls}");
    // A third run over the same users costs nothing. Only the last run to end merges the log into the ledger; of two that
    // end at the same moment neither may be the last, but this one is.
    start(&place, &server, "users.csv", "third.csv")
        .done()
        .exits(0)
        .says("300 rows already paid for, taken from the ledger");
    assert_eq!(server.calls(), calls);
    assert_eq!(place.text("third.csv"), users::scored(&csv));
    assert_eq!(
        place.names(),
        [
            "answers.ledger",
            "first.csv",
            "reversed.csv",
            "second.csv",
            "third.csv",
            "users.csv"
        ]
    );
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
    let (calls, most) = (server.calls(), 2 * ROWS - ROWS / 2 + 2 * 4);
    assert!((ROWS..=most).contains(&calls), "{calls} and not {most}");
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
    }
}

#[test]
fn a_run_that_was_killed_holds_nothing() {
    let csv = users::csv(50);
    for (ledger, name) in [
        (None, "scored.csv.ledger"),
        (Some("answers.ledger"), "answers.ledger"),
    ] {
        let (server, release) = Server::holding(20);
        let place = Place::with("users.csv", &csv);
        let program = || {
            let program = place.run(&server, "users.csv -o scored.csv -c 4");
            match ledger {
                Some(ledger) => program.arg("--ledger").arg(ledger),
                None => program,
            }
        };
        program().start().kill_when(|| {
            // What is in the file is durable.
            let partial = fs::read(place.path("scored.csv.partial"));
            server.calls() == 24 && partial.is_ok_and(|partial| lines(&partial) == 21)
        });
        assert!(
            place.names().contains(&name.to_owned()),
            "{:?}",
            place.names()
        );
        assert!(place.names().contains(&"scored.csv.partial".to_owned()));
        drop(release);
        let done = program().done();
        done.exits(0).says("taken from the ledger");
        assert_eq!(server.calls(), 24 + 30);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        let left = place
            .names()
            .into_iter()
            .filter(|name| name.starts_with("scored.csv"));
        assert_eq!(left.collect::<Vec<_>>(), ["scored.csv"]);
    }
}

#[test]
fn a_run_continues_beside_one_that_was_killed_on_the_same_ledger() {
    let csv = users::csv(60);
    let (server, release) = Server::holding(20);
    let place = Place::with("users.csv", &csv);
    let killed = start(&place, &server, "users.csv", "first.csv");
    server.wait_for_calls(24);
    killed.wait_for_file("first.csv.partial", |partial| lines(partial) == 21);
    let living = start(&place, &server, "users.csv", "second.csv");
    // It knows twenty users, and its first call waits like the others.
    server.wait_for_calls(25);
    killed.kill_when(|| true);
    drop(release);
    living
        .done()
        .exits(0)
        .says("20 rows already paid for, taken from the ledger");
    assert_eq!(place.text("second.csv"), users::scored(&csv));
    assert_eq!(server.calls(), 24 + 40);
}

/// Answers each call with a number of its own, also in two further fields.
fn numbered() -> Server {
    Server::start(|request: &Request| {
        let nth = request.nth;
        ok(&format!(
            r#"{{"transaction_id":"t-{nth}","summary":{{"risk_score":1,"a":{nth},"b":{nth}}}}}"#
        ))
    })
}

#[test]
fn runs_that_want_different_fields_of_one_ledger_pay_for_nobody_again_and_again() {
    let server = numbered();
    let place = Place::with("users.csv", users::csv(4));
    let run = |columns: &[&str]| {
        let args = "--ledger answers.ledger --overwrite";
        let program = place.scoring(&server);
        let program = program.args(args);
        let program = columns.iter().fold(program, |program, column| {
            program.arg("--column").arg(column)
        });
        program.done().exits(0);
        let scored = place.text("scored.csv");
        for row in scored.lines().skip(1) {
            let cells: Vec<_> = row.split(',').skip(5).collect();
            let (verdict, fields) = cells.split_at(3);
            assert_eq!(fields.len(), columns.len());
            // They belong to the same transaction.
            let number = verdict[0].strip_prefix("t-").unwrap();
            assert!(fields.iter().all(|field| *field == number), "{scored}");
        }
        server.calls()
    };
    let (a, b) = ("a=/summary/a", "b=/summary/b");
    assert_eq!(run(&[]), 4);
    // Answers without a needed field are paid for once more, and then serve both runs.
    assert_eq!(run(&[a]), 8);
    assert_eq!(run(&[b]), 12);
    for columns in [&[a][..], &[b], &[], &[a, b], &[b, a], &[a]] {
        assert_eq!(run(columns), 12);
    }
    // So do later answers, whichever run pays for them.
    for (calls, columns) in [(13, &[][..]), (14, &[b]), (15, &[a])] {
        place.write("users.csv", users::csv(calls - 8));
        assert_eq!(run(columns), calls);
        for columns in [&[a][..], &[b], &[]] {
            assert_eq!(run(columns), calls);
        }
    }
}

#[test]
fn a_damaged_ledger_that_runs_share_is_refused_with_a_way_out_that_leads_somewhere() {
    let (place, server) = (Place::with("users.csv", users::csv(5)), Server::good());
    let shared = ["--ledger", "answers.ledger", "--overwrite"];
    place.score(&server, shared).exits(0);
    let mut damaged = place.read("answers.ledger");
    damaged[100..].fill(0x55);
    for fresh in [false, true] {
        place.write("answers.ledger", &damaged);
        let program = place.scoring(&server);
        let fresh = fresh.then_some("--fresh").into_iter();
        let args = shared.into_iter().chain(fresh);
        let done = program.args(args).done();
        done.exits(2)
            .says("the file is damaged\n\nhint: move it and the files whose names start with its name elsewhere")
            .silent_about("--fresh");
        assert!(place.read("answers.ledger") == damaged);
    }
    assert_eq!(server.calls(), 5);
}

#[test]
fn failed_rows_of_a_finished_run_are_asked_again_as_the_summary_says() {
    let csv = users::csv(5);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| match &*request.name() {
        "User 3" if request.attempt == 1 => status(422),
        _ => good(request),
    });
    let shared = ["--ledger", "answers.ledger"];
    place
        .score(&server, shared)
        .exits(1)
        .says("`--retry-failed` sends only the rows without a verdict");
    place
        .score(&server, [shared[0], shared[1], "--retry-failed"])
        .exits(0)
        .says("the answers are kept in answers.ledger\n");
    assert_eq!(server.calls(), 5 + 1);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}
