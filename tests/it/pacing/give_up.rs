//! Several rows in a row without a verdict: a run stops early if no row has had a verdict yet, and later gets past them.

use crate::support::process::{Done, Place};
use crate::support::server::{Action, Request, Server, answer, good, ok, silence, status};
use crate::support::users;

fn refused() -> Action {
    answer(400, &[], r#"{"message":"unknown version"}"#)
}

fn run(place: &Place, server: &Server, more: &[&str]) -> Done {
    let program = place.run(server, "users.csv -o scored.csv -c 1");
    program.args(more).done()
}

#[test]
fn a_service_that_refuses_everybody_is_sent_three_rows_and_each_further_run_others() {
    let csv = users::csv(20);
    let (place, server) = (Place::with("users.csv", &csv), Server::start(|_| refused()));
    for calls in [3, 6, 9] {
        run(&place, &server, &[])
            .exits(3)
            .says("` gave no verdict for 3 consecutive rows\n  the last answer: 400 Bad Request: `unknown version`")
            .says("`--keep-going` continues anyway")
            .says("the same command continues from there");
        assert_eq!(server.calls(), calls);
    }
    let names: Vec<_> = server.requests().iter().map(Request::name).collect();
    let expected: Vec<_> = (1..=9).map(|n| format!("User {n}")).collect();
    assert_eq!(names, expected, "nobody is sent twice");
    run(&place, &server, &["--keep-going"]).exits(1);
    assert_eq!(server.calls(), 20);
    assert_eq!(place.text("scored.rejects.csv").lines().count(), 21);
}

#[test]
fn a_retry_goes_on_past_rows_that_are_refused_again() {
    let (place, server) = (
        Place::with("users.csv", users::csv(20)),
        Server::start(|request| match request.nth {
            // Row 1, then those of the retry but the last.
            2..=11 | 21..=29 => refused(),
            _ => good(request),
        }),
    );
    run(&place, &server, &[]).exits(1);
    assert_eq!(server.calls(), 20);
    let retry = run(&place, &server, &["--retry-failed"]);
    retry.exits(1).says("failed 9: refused 9");
    assert_eq!(server.calls(), 30, "each failed row once more");
    let scored = place.text("scored.csv");
    let without = scored.lines().filter(|row| row.ends_with(",,,")).count();
    assert_eq!(without, 9, "{scored}");
}

#[test]
fn a_nightly_run_gets_past_rows_that_the_service_always_refuses() {
    let csv = users::csv(6);
    let lines: Vec<_> = csv.lines().collect();
    let rows = |numbers: &[usize]| -> String {
        let rows = numbers.iter().map(|number| format!("{}\n", lines[*number]));
        rows.collect()
    };
    let server = Server::start(|request| match request.name().as_str() {
        "User 2" | "User 3" | "User 4" => refused(),
        _ => good(request),
    });
    let place = Place::with("users.csv", rows(&[0, 1, 2, 3, 4, 5]));
    let nightly = ["--ledger", "answers.ledger", "--overwrite"];
    run(&place, &server, &nightly).exits(1);
    assert_eq!(server.calls(), 5);
    // The next night somebody is new, and those come first.
    place.write("users.csv", rows(&[0, 2, 3, 4, 1, 5, 6]));
    let night = run(&place, &server, &nightly);
    night.exits(1).says("failed 3: refused 3");
    assert_eq!(server.calls(), 6, "nobody is sent twice");
    // Nor does it stop where they are sent again.
    let retry = [&nightly[..], &["--retry-failed"]].concat();
    let night = run(&place, &server, &retry);
    night.exits(1).says("failed 3: refused 3");
    assert_eq!(server.calls(), 9);
    assert!(!place.text("scored.csv").trim_end().ends_with(",,,"));
}

#[test]
fn one_answer_that_is_not_json_is_enough_also_when_earlier_answers_are_known() {
    let csv = users::csv(10);
    let page = "<html><body>502 from the proxy</body></html>";
    for action in [
        ok(page),
        answer(400, &[], page),
        answer(422, &[], "Bad Request"),
    ] {
        let place = Place::with("users.csv", &csv);
        let server = Server::start(move |_| action.clone());
        run(&place, &server, &[])
            .exits(3)
            .says("` does not look like the service's: it is not JSON")
            .says("the service gives no verdicts: stopping")
            .says("hint: the call may have been billed; check `--base-url`")
            .silent_about("consecutive rows");
        assert_eq!(server.calls(), 1);
    }
    // A nightly run: all users but the last are known.
    let (place, nights) = (
        Place::with("users.csv", users::csv(5)),
        Server::start(move |request| match request.nth {
            1..=5 => good(request),
            _ => ok(page),
        }),
    );
    let shared = ["--ledger", "answers.ledger", "--overwrite"];
    run(&place, &nights, &shared).exits(0);
    place.write("users.csv", &csv);
    run(&place, &nights, &shared).exits(3);
    assert_eq!(nights.calls(), 6);
}

#[test]
fn twenty_useless_answers_in_a_row_stop_a_run_that_had_verdicts() {
    let place = Place::with("users.csv", users::csv(60));
    let server = Server::start(|request| match request.nth {
        1..=5 => good(request),
        _ => ok("<html>down for maintenance</html>"),
    });
    run(&place, &server, &[])
        .exits(3)
        .says("gave no verdict for 20 consecutive rows")
        .says(" calls got an answer without a verdict and will probably be billed");
    // The twentieth answer becomes durable while the next call may already be made.
    assert!((25..=26).contains(&server.calls()), "{}", server.calls());
}

#[test]
fn a_service_that_fails_on_the_first_row_stops_the_run_which_names_the_row_and_logs_what_is_left() {
    let place = Place::with("users.csv", users::csv(9));
    let server = Server::start(|_| status(500));
    let done = run(&place, &server, &["--retries", "1", "--log", "n.log"]);
    done.exits(3)
        .says("answers with errors, or not at all\n  the last call, for row 1: 500 ")
        .says("if it works already, it fails on this row: fix or remove it");
    assert_eq!(server.calls(), 2);
    let log = place.text("n.log");
    let end: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let rows = &end["data"]["rows"];
    let left = rows["read"].as_u64().unwrap() - rows["written"].as_u64().unwrap();
    assert_eq!(rows["left"], left, "{end}");
    assert!(left > 0, "{end}");
}

#[test]
fn twenty_refused_rows_in_a_row_are_warned_of_once_and_stop_nothing() {
    let place = Place::with("users.csv", users::csv(140));
    let server = Server::start(|request| match request.nth {
        1 => good(request),
        _ => refused(),
    });
    let done = run(&place, &server, &["--quiet"]);
    let warning =
        "warning: the service has rejected 20 consecutive rows; the rejects file says why";
    done.exits(1).says(warning);
    assert_eq!(done.stderr.matches(warning).count(), 1, "{done}");
    assert_eq!(server.calls(), 140);
}

/// What the service does, the arguments of the run, and what it says about the rows.
type Case = (fn() -> Action, &'static [&'static str], &'static str);

#[test]
fn equal_rows_of_a_request_that_failed_cost_no_further_call() {
    let equal = |n: usize| format!("{n},Twin,twin@example.com,192.0.2.1,curl/8\n");
    let csv = users::csv(1) + &(2..62).map(equal).collect::<String>();
    let cases: [Case; 3] = [
        (|| ok(r#"{"transaction_id":"t"}"#), &[], "bad_answer 60"),
        (|| refused(), &[], "refused 60"),
        (
            || silence().then_reset(),
            &["--resend-unknown", "0"],
            "no_answer 60",
        ),
    ];
    for (action, args, failed) in cases {
        for more in [&[][..], &["--ledger", "answers.ledger"], &["--no-ledger"]] {
            let place = Place::with("users.csv", &csv);
            let server = Server::start(move |request| match &*request.name() {
                "Twin" => action(),
                _ => good(request),
            });
            let args = [args, more].concat();
            run(&place, &server, &args).exits(1).says(failed);
            assert_eq!(server.calls(), 2, "{failed} {more:?}");
        }
    }
}
