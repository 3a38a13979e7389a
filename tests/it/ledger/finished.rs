//! A run that reached the end of its input is finished: the same command starts a new run. Failed rows can be retried.

use crate::support::process::Place;
use crate::support::server::{Request, Server, answer, good, ok, raw, status};
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
fn the_same_command_is_a_new_run_and_the_refusal_names_both_ways_and_their_costs() {
    let (place, server) = (Place::with("users.csv", csv()), refuses_until(9));
    place
        .score(&server, "")
        .exits(1)
        .says("scored.csv.ledger has 9 paid answers; `--retry-failed` sends only the rows without a verdict");
    let scored = users::scored_without(&csv(), failed);
    assert_eq!(place.text("scored.csv"), scored);
    let ledger = place.read("scored.csv.ledger");
    place
        .score(&server, "")
        .exits(2)
        .says("error: `scored.csv` already exists\n")
        .says("`--retry-failed` sends only the rows without a verdict and keeps all others (up to 1 call)\n")
        .says("`--overwrite` starts a new run, which sends every row again (about 10 calls)\n");
    assert!(place.read("scored.csv.ledger") == ledger);
    assert_eq!(server.calls(), 10);

    // The nightly job: one bad row, and all users are asked each night.
    for night in 2..=4 {
        place.score(&server, "--overwrite").exits(1);
        assert_eq!(server.calls(), 10 * night);
        assert_eq!(place.text("scored.csv"), scored);
    }
    place
        .score(&server, "--retry-failed")
        .exits(1)
        .says("retrying the failed rows of the run of ")
        .says(": 9 answers are paid for");
    assert_eq!(server.calls(), 41);
    let names = [
        "scored.csv",
        "scored.csv.ledger",
        "scored.rejects.csv",
        "users.csv",
    ];
    assert_eq!(place.names(), names);
}

#[test]
fn without_a_finished_run_there_is_nothing_to_retry() {
    let (place, server) = (Place::with("users.csv", csv()), Server::good());
    place
        .score(&server, "--retry-failed")
        .exits(2)
        .says("nothing to retry: `")
        .says("scored.csv.ledger` does not exist");
    assert_eq!(place.names(), ["users.csv"]);
    let shared = "--ledger answers.ledger --retry-failed";
    place
        .score(&server, shared)
        .exits(2)
        .says("nothing to retry")
        // Its answers would be used, not paid for again.
        .silent_about("pays for all of them");
    let stream = place.run(&server, "users.csv --retry-failed").done();
    stream.exits(2).says("`--retry-failed` needs a ledger");
    assert_eq!(server.calls(), 0);
}

#[test]
fn what_a_finished_run_has_left_stays_until_the_next_one_has_its_first_answer() {
    let (place, server) = (Place::with("users.csv", csv()), refuses_until(2));
    let refuses = Server::start(|_| status(401));
    place.score(&server, "").exits(1);
    // Another key, another address: a new run that gets nowhere. Its address has nothing here.
    place.score(&refuses, "--overwrite").exits(4);
    place.score(&server, "--retry-failed").exits(1);
    assert_eq!(server.calls(), 11);

    let (place, server) = (
        Place::with("users.csv", csv()),
        Server::start(move |request| {
            // The key is refused on the second night alone.
            match request.nth {
                11 => status(401),
                _ if request.name() == "User 3" && request.attempt == 1 => status(422),
                _ => good(request),
            }
        }),
    );
    place.score(&server, "").exits(1);
    place.score(&server, "--overwrite").exits(4);
    place
        .score(&server, "--retry-failed")
        .exits(1)
        .says("9 rows already paid for, taken from the ledger");
    assert_eq!(server.calls(), 10 + 1 + 1);
    let nameless = |name: &str| name.is_empty();
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv(), nameless)
    );
}

#[test]
fn a_new_run_that_was_stopped_before_its_first_answer_does_not_continue_the_finished_one() {
    let place = Place::with("users.csv", csv());
    let server = Server::start(|request| match request.nth {
        11 => status(401),
        _ => good(request),
    });
    place.score(&server, "").exits(1);
    place.score(&server, "--overwrite").exits(4);
    place
        .score(&server, "--overwrite")
        .exits(1)
        .silent_about("continuing")
        .silent_about("taken from the ledger");
    assert_eq!(server.calls(), 10 + 1 + 10);
}

#[test]
fn after_a_stop_no_refused_row_is_sent_again_and_its_message_is_kept() {
    let csv = users::csv(10);
    for ledger in [&[][..], &["--ledger", "answers.ledger"]] {
        let (place, server) = (Place::with("users.csv", &csv), refuses_until(9));
        let whole = (Place::with("users.csv", &csv), refuses_until(9));
        let run = |(place, server): (&Place, &Server), more: &[&str]| {
            let program = place.run(server, "users.csv -o scored.csv -c 1");
            let args = ledger.iter().chain(more);
            program.args(args).done()
        };
        run((&whole.0, &whole.1), &[]).exits(1);
        for _ in 0..3 {
            run((&place, &server), &["--max-calls", "2"]).exits(3);
        }
        run((&place, &server), &[]).exits(1);
        assert_eq!(server.calls(), 10, "{ledger:?}");
        for name in ["scored.csv", "scored.rejects.csv"] {
            assert_eq!(place.text(name), whole.0.text(name));
        }
        assert!(
            place
                .text("scored.rejects.csv")
                .contains("the address is on a list")
        );
        for name in place.names().iter().filter(|name| name.contains("ledger")) {
            let bytes = place.read(name);
            assert!(!bytes.windows(9).any(|part| part == b"on a list"), "{name}");
        }
        // After the end it is asked together with all other rows without a verdict.
        let retry = run((&place, &server), &["--retry-failed"]);
        retry.exits(1).says("failed 1: refused 1");
        assert_eq!(server.calls(), 11);
    }
}

#[test]
fn with_a_shared_ledger_a_retry_uses_what_the_finished_run_used() {
    let csv = users::csv(10);
    let (place, server) = (Place::with("users.csv", &csv), refuses_until(3));
    let run = |more: &[&str]| {
        let program = place.scoring(&server);
        let args = ["--ledger", "answers.ledger"];
        program.args(args.iter().chain(more)).done()
    };
    run(&[]).exits(1);
    run(&[])
        .exits(2)
        .says("`--retry-failed` sends only the rows without a verdict")
        .says("`--overwrite` starts a new run, which uses the answers in the ledger");
    // It asked all users despite earlier answers, so the retry must not use those either.
    run(&["--fresh", "--overwrite"]).exits(1);
    assert_eq!(server.calls(), 20);
    run(&["--retry-failed"])
        .exits(0)
        .says("9 rows already paid for, taken from the ledger");
    assert_eq!(server.calls(), 21);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert!(!place.names().contains(&"scored.rejects.csv".to_owned()));
    run(&["--retry-failed"]).exits(2).says("nothing to retry");
}

#[test]
fn rows_that_another_run_has_paid_for_are_not_replaced_because_some_ledger_is_there() {
    let csv = users::csv(10);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let run = |output: &str, more: &[&str]| {
        let program = place.run(&server, ["users.csv", "-o", output]);
        program.args(more).done()
    };
    let shared = ["--ledger", "answers.ledger"];
    run("other.csv", &shared).exits(0);
    place.write(
        "users.csv",
        users::named((1..=10).map(|n| format!("Somebody {n}"))),
    );
    run("scored.csv", &["--no-ledger", "--max-calls", "4"]).exits(3);
    let partial = place.read("scored.csv.partial");
    run("scored.csv", &shared)
        .exits(2)
        .says("scored.csv.partial` from an unfinished run is in the way");
    assert!(place.read("scored.csv.partial") == partial);
    assert_eq!(server.calls(), 14);
}

#[test]
fn an_empty_partial_file_does_not_stop_a_run() {
    let csv = users::csv(5);
    for more in [&["--ledger", "answers.ledger"][..], &["--no-ledger"], &[]] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        place.write("scored.csv.partial", "");
        place.score(&server, more).exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn the_refusal_names_the_rows_that_a_new_field_sends_again() {
    let csv = users::csv(10);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request: &Request| match &*request.name() {
        "User 3" => status(422),
        _ => good(request),
    });
    place.score(&server, "").exits(1);
    let column = "--column again=/transaction_id";
    place.score(&server, column).exits(2).says(
        "(up to 1 call), and asks again for the rows of 9 answers without `/transaction_id`\n",
    );
    place.score(&server, "").exits(2).says("(up to 1 call)\n");
    // A run that replaces the answers has no use for them.
    let done = place.score(&server, "--column again=/transaction_id --overwrite");
    done.exits(1).silent_about("lack");
}

#[test]
fn most_rows_may_be_fixed_and_retried_over_a_shared_ledger() {
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
    let args = "--ledger answers.ledger";
    place.score(&server, args).exits(1);
    assert_eq!(server.calls(), 2);
    place.write("users.csv", &csv);
    let args = "--ledger answers.ledger --retry-failed";
    place.score(&server, args).exits(0);
    assert_eq!(server.calls(), 10);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn the_summary_says_that_failed_rows_may_be_billed_a_second_time_when_they_are_retried() {
    let csv = users::csv(10);
    for ledger in ["", "--ledger answers.ledger"] {
        let place = Place::with("users.csv", &csv);
        let server = Server::start(|request: &Request| match &*request.name() {
            "User 3" | "User 4" if request.attempt == 1 => raw("").then_close(),
            "User 5" if request.attempt == 1 => ok("{}"),
            // Refused: it costs nothing.
            "User 7" if request.attempt == 1 => status(422),
            _ => good(request),
        });
        let run = |more: &str| {
            let args = format!("{ledger} --resend-unknown 0 {more}");
            place.score(&server, &*args)
        };
        run("").exits(1).silent_about("twice").says(
            "sends only the rows without a verdict, some of which may be billed a second time\n",
        );
        run("--retry-failed").exits(0);
        assert_eq!(server.calls(), 14);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}
