//! The same command continues: a row is recognised by its request, wherever it is in the file and however the file was
//! edited, every other row is sent, and rows that failed are asked again as somebody chooses.

use super::paid_once::{file, rows};
use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, answer, good, ok, raw, status};
use crate::support::users;

/// A run of `users.csv` that stopped after so many calls.
fn stopped(place: &Place, server: &Server, calls: usize) {
    let done = place.score(server, ["--max-calls", &calls.to_string()]);
    done.exits(5);
    assert_eq!(server.calls(), calls);
}

#[test]
fn an_input_that_was_sorted_extended_or_edited_costs_only_what_is_new() {
    let csv = users::csv(20);
    let sorted = file(rows(&csv).into_iter().rev());
    let extended = file(rows(&users::csv(25)));
    let shortened = file(rows(&csv).into_iter().skip(3).take(5));
    // The id is not sent: a row is recognised without it.
    let edited = csv.replace("User 3,", "User Three,");
    let edited = edited.replace("\n5,", "\nfive,");
    for (changed, new) in [(sorted, 0), (extended, 5), (shortened, 0), (edited, 1)] {
        for option in ["--retry-failed", "--overwrite"] {
            let (place, server) = (Place::with("users.csv", &csv), Server::good());
            place.write("users.csv", csv.clone() + "9,,x@example.com,192.0.2.1,u\n");
            place.score(&server, "").exits(1);
            assert_eq!(server.calls(), 20);
            place.write("users.csv", &changed);
            place.score(&server, option).exits(0);
            assert_eq!(server.calls(), 20 + new);
            assert_eq!(place.text("scored.csv"), users::scored(&changed));
            assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
        }
    }
}

#[test]
fn a_row_equal_to_one_that_is_out_waits_for_its_answer() {
    let (server, release) = Server::holding_if(|request| request.name() == "A");
    let names = ["B", "A", "A", "C", "A", "D"].map(|name| format!("1,{name},{name}@x.org,::1,u"));
    let csv = file(names.iter().map(String::as_str));
    let place = Place::with("users.csv", &csv);
    let running = place.scoring(&server).start();
    server.wait_for_calls(4);
    drop(release);
    let done = running.exits(0);
    done.says("2 rows reused the answer of an identical request");
    assert_eq!(server.calls(), 4);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_mistyped_command_in_between_costs_no_paid_answer() {
    let csv = users::csv(40);
    let refuses = Server::start(|_| status(401));
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    stopped(&place, &server, 30);
    // An address that refuses everything, names of files that cannot be, and another file with the same output.
    place.score(&refuses, "--overwrite").exits(4);
    place.score(&refuses, "--overwrite --fresh").exits(4);
    for option in ["--summary", "--rejects", "--changes"] {
        let args = ["--fresh", "--overwrite", option, "no/such/file.csv"];
        let done = place.score(&server, args);
        done.exits(2).says("no/such/file.csv");
    }
    place.write("other.csv", users::named(["Somebody Else"]));
    let other = place.run(&server, "other.csv -o scored.csv --overwrite");
    other.exits(0);
    assert_eq!(server.calls(), 31);
    // Now the output belongs to another input.
    for option in ["", "--retry-failed"] {
        place.score(&server, option).exits(2);
    }
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(server.calls(), 41);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn rows_that_were_paid_for_are_not_replaced_by_a_run_whose_ledger_does_not_have_them() {
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    stopped(&place, &server, 4);
    let partial = place.read("scored.csv.partial");
    for option in ["--ledger new.ledger", "--no-ledger"] {
        place.score(&server, option).exits(2);
    }
    assert!(place.read("scored.csv.partial") == partial);
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn failed_rows_alone_are_asked_again_and_put_in_their_place() {
    let csv = users::csv(10);
    let odd = |name: &str| ["User 3", "User 7"].contains(&name);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(move |request| {
        if odd(&request.name()) && request.attempt == 1 {
            return status(422);
        }
        good(request)
    });
    place.score(&server, "").exits(1).says("--retry-failed");
    assert_eq!(place.text("scored.csv"), users::scored_without(&csv, odd));
    assert!(place.path("scored.rejects.csv").exists());
    place.score(&server, "--retry-failed").exits(0);
    let again: Vec<_> = server.requests()[10..].iter().map(Request::name).collect();
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|name| odd(name)), "{again:?}");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

/// Refuses user 3 until it is asked for the `nth` time.
fn refuses_until(nth: usize) -> Server {
    Server::start(move |request: &Request| {
        if request.name() == "User 3" && request.attempt < nth {
            return answer(422, &[], r#"{"message":"the address is on a list"}"#);
        }
        good(request)
    })
}

#[test]
fn a_finished_run_is_not_repeated_and_neither_way_on_pays_for_a_verdict_again() {
    // The last user cannot be sent.
    let csv = users::csv(10) + "11,,u@example.com,192.0.2.11,curl/8\n";
    let (place, server) = (Place::with("users.csv", &csv), refuses_until(5));
    place.score(&server, "").exits(1);
    let without = |name: &str| name == "User 3" || name.is_empty();
    let scored = users::scored_without(&csv, without);
    assert_eq!(place.text("scored.csv"), scored);
    let ledger = place.read("rescore.ledger");
    let done = place.score(&server, "");
    done.exits(2).says("--retry-failed").says("--overwrite");
    assert!(place.read("rescore.ledger") == ledger);
    // A refusal may have been billed, and costs nothing more until it is retried. After a run that asks for all despite
    // earlier answers, the retry does not use those either.
    for (option, calls) in [
        ("--overwrite", 10),
        ("--retry-failed", 11),
        ("--overwrite", 11),
        ("--retry-failed --overwrite", 12),
        ("--fresh --overwrite", 22),
    ] {
        place.score(&server, option).exits(1);
        assert_eq!(server.calls(), calls, "{option}");
        assert_eq!(place.text("scored.csv"), scored);
    }
    let retried = place.score(&server, "--retry-failed");
    retried.exits(1).silent_about("--retry-failed");
    assert_eq!(server.calls(), 23);
    let scored = users::scored_without(&csv, str::is_empty);
    assert_eq!(place.text("scored.csv"), scored);
}

#[test]
fn a_failure_that_may_have_been_billed_is_kept_for_all_runs_until_it_is_retried() {
    type First = fn() -> Action;
    let cases: [(First, bool); 4] = [
        (|| status(422), true),
        (|| ok("{}"), true),
        (|| raw("").then_close(), true),
        (|| status(500), false),
    ];
    for (first, may_be_billed) in cases {
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
            let args = "users.csv --keep-going -c 4 --retries 0 --resend-unknown 0 -o";
            let program = place.run(&server, args).arg(output).args(more);
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
            let retried = run("3.csv", "--retry-failed");
            assert_eq!(retried, (Some(0), 44), "{expected:?}");
        } else {
            assert_eq!(again, (Some(0), 44), "{expected:?}");
        }
        assert_eq!(run("4.csv", ""), (Some(0), 44), "{expected:?}");
        assert_eq!(place.text("4.csv"), users::scored(&csv));
    }
}

#[test]
fn after_a_stop_no_refused_row_is_sent_again_and_its_message_is_kept() {
    let csv = users::csv(10);
    let whole = (Place::with("users.csv", &csv), refuses_until(9));
    whole.0.score(&whole.1, "-c 1").exits(1);
    let (place, server) = (Place::with("users.csv", &csv), refuses_until(9));
    for calls in ["2", "4", "6"] {
        let most = ["-c", "1", "--max-calls", calls];
        place.score(&server, most).exits(5);
    }
    place.score(&server, "-c 1").exits(1);
    assert_eq!(server.calls(), 10);
    for name in ["scored.csv", "scored.rejects.csv"] {
        assert_eq!(place.text(name), whole.0.text(name));
    }
    let rejects = place.text("scored.rejects.csv");
    assert!(rejects.contains("the address is on a list"), "{rejects}");
}
