//! A run that reached the end of its input is finished, and its rows stay paid for. Failed rows can be retried.

use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, answer, good, ok, raw, status};
use crate::support::users;

/// Refuses user 3 until it is asked for the `nth` time.
fn refuses_until(nth: usize) -> Server {
    Server::start(move |request: &Request| {
        if request.name() == "User 3" && request.attempt < nth {
            return answer(422, &[], r#"{"message":"the address is on a list"}"#);
        }
        good(request)
    })
}

/// Ten users, and one who cannot be sent.
fn csv() -> String {
    users::csv(10) + "11,,u@example.com,192.0.2.11,curl/8\n"
}

fn failed(name: &str) -> bool {
    name == "User 3" || name.is_empty()
}

#[test]
fn the_same_command_is_refused_and_neither_way_on_pays_for_a_verdict_again() {
    let (place, server) = (Place::with("users.csv", csv()), refuses_until(4));
    place.score(&server, "").exits(1);
    let scored = users::scored_without(&csv(), failed);
    assert_eq!(place.text("scored.csv"), scored);
    let ledger = place.read("rescore.ledger");
    place
        .score(&server, "")
        .exits(2)
        .says("`scored.csv` already exists")
        .says("--retry-failed")
        .says("--overwrite");
    assert!(place.read("rescore.ledger") == ledger);
    // A refusal may have been billed, and costs nothing more until it is retried.
    for (option, calls) in [
        ("--overwrite", 10),
        ("--retry-failed", 11),
        ("--overwrite", 11),
        ("--retry-failed --overwrite", 12),
    ] {
        place.score(&server, option).exits(1);
        assert_eq!(server.calls(), calls, "{option}");
        assert_eq!(place.text("scored.csv"), scored);
    }
    place.score(&server, "--retry-failed").exits(1);
    assert_eq!(server.calls(), 13);
    let nameless = |name: &str| name.is_empty();
    let scored = users::scored_without(&csv(), nameless);
    assert_eq!(place.text("scored.csv"), scored);
}

/// What users 3 to 6 get first.
type First = fn() -> Action;

#[test]
fn a_failure_that_may_have_been_billed_is_kept_for_all_runs_until_it_is_retried() {
    for (first, may_be_billed) in [
        ((|| status(400)) as First, true),
        (|| status(422), true),
        (|| ok("{}"), true),
        (|| raw("").then_close(), true),
        (
            || raw("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{").then_stall(),
            true,
        ),
        (|| status(500), false),
    ] {
        let csv = users::csv(40);
        let place = Place::with("users.csv", &csv);
        let odd = |name: &str| ["User 3", "User 4", "User 5", "User 6"].contains(&name);
        let server = Server::start(move |request: &Request| {
            if odd(&request.name()) && request.attempt == 1 {
                return first();
            }
            good(request)
        });
        let run = |output: &str, more: &str| {
            let args = "-c 4 --retries 0 --resend-unknown 0 --timeout 1s -o";
            let program = place.run(&server, "users.csv --keep-going");
            let program = program.args(args).arg(output).args(more);
            let done = program.done();
            done.check(done.code() != Some(2), "a start");
            (done.code(), server.calls())
        };
        let expected = first();
        assert_eq!(run("1.csv", ""), (Some(1), 40), "{expected:?}");
        let scored = users::scored_without(&csv, odd);
        assert_eq!(place.text("1.csv"), scored);
        let again = run("2.csv", "");
        if may_be_billed {
            assert_eq!(again, (Some(1), 40), "{expected:?}");
            assert_eq!(place.text("2.csv"), scored);
            assert_eq!(
                run("3.csv", "--retry-failed"),
                (Some(0), 44),
                "{expected:?}"
            );
        } else {
            assert_eq!(again, (Some(0), 44), "{expected:?}");
        }
        assert_eq!(run("4.csv", ""), (Some(0), 44), "{expected:?}");
        assert_eq!(place.text("4.csv"), users::scored(&csv));
    }
}

#[test]
fn a_new_run_that_gets_nowhere_loses_nothing_of_the_finished_one() {
    let place = Place::with("users.csv", csv());
    let server = Server::start(move |request| {
        // The key is refused on the second night alone.
        match request.nth {
            11 => status(401),
            _ if request.name() == "User 3" && request.attempt == 1 => status(422),
            _ => good(request),
        }
    });
    place.score(&server, "").exits(1);
    place.score(&server, "--overwrite --fresh").exits(4);
    place.score(&server, "--overwrite").exits(1);
    assert_eq!(server.calls(), 10 + 1);
    place.score(&server, "--retry-failed").exits(1);
    assert_eq!(server.calls(), 10 + 1 + 1);
    let nameless = |name: &str| name.is_empty();
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv(), nameless)
    );
}

#[test]
fn after_a_stop_no_refused_row_is_sent_again_and_its_message_is_kept() {
    let csv = users::csv(10);
    let (place, server) = (Place::with("users.csv", &csv), refuses_until(9));
    let whole = (Place::with("users.csv", &csv), refuses_until(9));
    let run = |(place, server): (&Place, &Server), more: &[&str]| {
        let program = place.run(server, "users.csv -o scored.csv -c 1");
        program.args(more).done()
    };
    run((&whole.0, &whole.1), &[]).exits(1);
    for calls in ["2", "4", "6"] {
        run((&place, &server), &["--max-calls", calls]).exits(5);
    }
    run((&place, &server), &[]).exits(1);
    assert_eq!(server.calls(), 10);
    for name in ["scored.csv", "scored.rejects.csv"] {
        assert_eq!(place.text(name), whole.0.text(name));
    }
    let rejects = place.text("scored.rejects.csv");
    assert!(rejects.contains("the address is on a list"), "{rejects}");
    // After the end it is asked together with all other rows without a verdict.
    run((&place, &server), &["--retry-failed"]).exits(1);
    assert_eq!(server.calls(), 11);
}

#[test]
fn a_retry_after_a_fresh_run_uses_what_that_run_used() {
    let csv = users::csv(10);
    let (place, server) = (Place::with("users.csv", &csv), refuses_until(3));
    let run = |more: &str| place.score(&server, more);
    run("").exits(1);
    // It asks all users despite earlier answers, so the retry does not use those either.
    run("--fresh --overwrite").exits(1);
    assert_eq!(server.calls(), 20);
    run("--retry-failed").exits(0);
    assert_eq!(server.calls(), 21);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert!(!place.names().contains(&"scored.rejects.csv".to_owned()));
    run("--retry-failed").exits(0);
    assert_eq!(server.calls(), 21);
}

#[test]
fn an_empty_partial_file_does_not_stop_a_run() {
    let csv = users::csv(5);
    for more in ["--ledger answers.ledger", "--no-ledger", ""] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        place.write("scored.csv.partial", "");
        place.score(&server, more).exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn most_rows_may_be_fixed_and_retried() {
    let csv = users::csv(10);
    let place = Place::with("users.csv", &csv);
    let broken = { csv.lines().enumerate() }
        .map(|(number, line)| match number {
            3.. => line.replace('@', " at ") + "\n",
            _ => line.to_owned() + "\n",
        })
        .collect::<String>();
    place.write("users.csv", broken);
    let server = Server::good();
    place.score(&server, "").exits(1);
    assert_eq!(server.calls(), 2);
    place.write("users.csv", &csv);
    place.score(&server, "--retry-failed").exits(0);
    assert_eq!(server.calls(), 10);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn the_summary_says_that_failed_rows_may_be_billed_a_second_time_when_they_are_retried() {
    let csv = users::csv(10);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request: &Request| match &*request.name() {
        "User 3" | "User 4" if request.attempt == 1 => raw("").then_close(),
        "User 5" if request.attempt == 1 => ok("{}"),
        // Refused: it costs nothing.
        "User 7" if request.attempt == 1 => status(422),
        _ => good(request),
    });
    let run = |more: &str| place.score(&server, &*format!("--resend-unknown 0 {more}"));
    let done = run("");
    done.exits(1).silent_about("twice");
    done.says("some of which may be billed a second time");
    run("--retry-failed").exits(0);
    assert_eq!(server.calls(), 14);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}
