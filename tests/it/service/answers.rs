//! Answers of the service, and what a user gets for each.

use std::sync::Barrier;
use std::time::Duration;

use crate::support::process::{Done, Place};
use crate::support::server::{Action, Request, Server, answer, good, ok, silence, status};
use crate::support::users;

/// Scores `users` rows, one after the other, so that the script sees them in order.
fn in_turn<const N: usize>(
    users: usize,
    script: impl Fn(&Request) -> Action + Send + Sync + 'static,
    args: [&str; N],
) -> (Place, Server, Done) {
    let place = Place::with("users.csv", users::csv(users));
    let server = Server::start(script);
    let program = place.run(&server, "users.csv -o scored.csv -c 1");
    let done = program.args(args).done();
    (place, server, done)
}

#[test]
fn sixty_four_answers_in_any_order_come_back_in_the_rows_order() {
    let csv = users::csv(65);
    // No call is answered before all 64 are there; then each after its own delay.
    let all = Barrier::new(64);
    let server = Server::start(move |request| {
        if request.nth == 1 {
            return good(request);
        }
        all.wait();
        let late = request.name().bytes().map(u64::from).sum::<u64>() * 7 % 40;
        good(request).after(Duration::from_millis(late))
    });
    let place = Place::with("users.csv", &csv);
    place.score(&server, "-c 64").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_row_that_waits_holds_back_none_of_thousands() {
    const ROWS: usize = 4_500;
    let csv = users::csv(ROWS);
    let (server, release) = Server::holding_if(|request| request.name() == "User 2");
    let place = Place::with("users.csv", &csv);
    let running = place.run(&server, "users.csv -o scored.csv -c 64").start();
    server.wait_for_calls(ROWS);
    drop(release);
    running.done().exits(0);
    assert!(place.text("scored.csv") == users::scored(&csv));
}

#[test]
fn out_of_credit_stops_and_keeps_what_was_paid_for() {
    for (code, body) in [
        (402, ""),
        (
            429,
            r#"{"error":{"code":"insufficient_quota","message":"You have run out"}}"#,
        ),
    ] {
        let script = move |request: &Request| match request.nth {
            4 => answer(code, &[], body),
            _ => good(request),
        };
        let (place, server, done) = in_turn(9, script, []);
        done.exits(4)
            .says("out of credit")
            .says("the same command continues");
        assert_eq!(server.calls(), 4);
        assert_eq!(
            place.text("scored.csv.partial"),
            users::scored(&users::csv(3))
        );
    }
}

#[test]
fn a_refused_key_costs_one_call_and_the_fix_is_named() {
    let place = Place::with("users.csv", users::csv(100));
    let server = Server::start(|_| status(401));
    let done = place.score(&server, "-c 64");
    done.exits(4)
        .says("API key")
        .says("RESCORE_API_KEY")
        .says("--api-key-file")
        .says("the server's own words");
    assert_eq!(server.calls(), 1);
    assert_eq!(place.names(), ["rescore.ledger", "users.csv"]);
    // Nothing is paid for, and so nothing is said to be.
    done.silent_about("paid answers");
}

#[test]
fn a_key_revoked_during_a_run_stops_it_within_the_calls_in_flight() {
    let place = Place::with("users.csv", users::csv(300));
    let server = Server::start(|request| {
        if request.nth > 100 {
            status(401)
        } else {
            good(request)
        }
    });
    let done = place.score(&server, "-c 8");
    done.exits(4).says("API key");
    done.check(
        server.calls() <= 100 + 8,
        "no call after the first refusal but those in flight",
    );
    let partial = place.text("scored.csv.partial");
    // Calls in flight are written too, so a refused row may be missing before the last one.
    let all = users::scored(&users::csv(300));
    let mut expected = all.lines();
    for line in partial.lines() {
        assert!(expected.any(|expected| expected == line), "{line}");
    }
    assert!(partial.lines().count() > 90);
}

#[test]
fn one_403_amid_good_answers_fails_its_row_and_three_in_a_row_stop() {
    let forbidden = |from: usize, to: usize| {
        move |request: &Request| match request.nth {
            nth if (from..=to).contains(&nth) => status(403),
            _ => good(request),
        }
    };
    let (place, server, done) = in_turn(6, forbidden(3, 4), []);
    done.exits(1);
    assert_eq!(server.calls(), 6);
    let rejects = place.text("scored.rejects.csv");
    assert!(
        rejects.contains("\n3,forbidden,") && rejects.contains("\n4,forbidden,"),
        "{rejects}"
    );

    let (_, server, done) = in_turn(9, forbidden(3, 9), []);
    done.exits(4).says("403");
    assert_eq!(server.calls(), 5);

    let (_, server, done) = in_turn(9, forbidden(1, 9), []);
    done.exits(4).says("403");
    assert_eq!(server.calls(), 1);
}

#[test]
fn a_redirect_is_named_and_its_target_is_never_contacted() {
    let elsewhere = Server::good();
    let target = format!("{}/v1/validate/user", elsewhere.url());
    for code in [301, 302, 303, 307, 308] {
        let target = target.clone();
        let script = move |_: &Request| answer(code, &[("location", &target)], "");
        let (_, server, done) = in_turn(3, script, []);
        done.exits(4).says("redirect").says("base address");
        assert_eq!(server.calls(), 1);
    }
    assert_eq!((elsewhere.connections(), elsewhere.calls()), (0, 0));
}

#[test]
fn an_error_that_passes_is_retried_until_it_has() {
    let script = |request: &Request| {
        if request.attempt < 3 {
            status(500)
        } else {
            good(request)
        }
    };
    let (place, server, done) = in_turn(1, script, []);
    done.exits(0);
    assert_eq!(
        (server.calls(), place.text("scored.csv")),
        (3, users::scored(&users::csv(1)))
    );
}

#[test]
fn a_service_that_is_down_from_the_start_stops_after_one_row() {
    let (place, server, done) = in_turn(50, |_| status(503), ["--retries", "1"]);
    done.exits(3).says("503");
    assert_eq!(server.calls(), 2);
    // The row that was given up has no verdict to keep.
    assert!(!place.names().contains(&"scored.csv".to_owned()));
}

#[test]
fn a_refused_row_has_the_services_words_as_its_message() {
    let script = |request: &Request| match request.nth {
        2 => answer(
            422,
            &[],
            r#"{"title":"Bad","detail":"name, \"too\" \u001b[31mshort\n"}"#,
        ),
        _ => good(request),
    };
    let (place, _, done) = in_turn(3, script, []);
    done.exits(1);
    done.silent_about("\u{1b}[31m");
    let rejects = place.text("scored.rejects.csv");
    let mut reader = csv::Reader::from_reader(rejects.as_bytes());
    let reject = reader.records().next().unwrap().unwrap();
    assert_eq!((&reject[0], &reject[1]), ("2", "refused"));
    assert!(
        reject[2].contains("422") && reject[2].contains("\"too\"") && !reject[2].contains('\u{1b}')
    );
    assert_eq!(&reject[4], "User 2");
}

#[test]
fn answers_without_a_verdict_are_paid_once_and_never_read_as_a_score() {
    let id = r#""transaction_id":"t-1""#;
    let deep = format!(r#"{{{id},"summary":{}}}"#, "[".repeat(100_000));
    let long = format!(
        r#"{{"transaction_id":"{}","summary":{{"risk_score":1}}}}"#,
        "x".repeat(1_000_000)
    );
    let mut bodies = vec![
        String::new(),
        " ".to_owned(),
        "<html>Log in</html>".to_owned(),
        "[]".to_owned(),
        deep,
        long,
    ];
    for score in [
        "\"1.5\"", "null", "NaN", "1e400", "true", "[1]", "{}", "1.", "01", "+1", "-",
    ] {
        bodies.push(format!(r#"{{{id},"summary":{{"risk_score":{score}}}}}"#));
    }
    for bad in [
        "=cmd|' /C calc'!A0",
        "@x",
        "+1",
        "-1",
        r"a\u001b[2J",
        r"a\nb",
        "",
        r"\ud800",
    ] {
        bodies.push(format!(
            r#"{{"transaction_id":"{bad}","summary":{{"risk_score":1}}}}"#
        ));
    }
    for body in [
        r#"{"transaction_id":null,"summary":{"risk_score":1}}"#,
        r#"{"transaction_id":{},"summary":{"risk_score":1}}"#,
        r#"{"transaction_id":"t-1","risk_score":1}"#,
        r#"{"transaction_id":"t-1","summary":null}"#,
        r#"{"status":false,"transaction_id":"t-1","summary":{"risk_score":1}}"#,
        r#"{"transaction_id":"t-1","summary":{"risk_score":1}"#,
        r#"{"transaction_id":"t-1","summary":{"risk_score":1}} x"#,
    ] {
        bodies.push(body.to_owned());
    }
    let rows = bodies.len() + 1;
    let script = move |request: &Request| match request.nth {
        1 => good(request),
        nth => ok(&bodies[nth - 2]),
    };
    let (place, server, done) = in_turn(rows, script, ["--keep-going"]);
    done.exits(1).silent_about("\u{1b}");
    assert_eq!(server.calls(), rows, "{done}");
    let csv = users::csv(rows);
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, |name| name != "User 1")
    );
    let rejects = place.text("scored.rejects.csv");
    assert_eq!(
        rejects
            .lines()
            .filter(|line| line.contains(",bad_answer,"))
            .count(),
        rows - 1
    );
    assert!(!rejects.contains('\u{1b}'));
}

#[test]
fn digits_of_scores_and_numeric_ids_are_written_as_sent() {
    let answers = [
        (r#""a-1""#, "1.2345678901234567", "approve"),
        ("9007199254740993", "1e-3", "approve"),
        (r#""\u0061b""#, "2.0", "approve"),
        (r#""c,\"d""#, "2.0000000000000004", "review"),
        (r#""e""#, "5", "review"),
        (r#""f""#, "5.01", "block"),
        (r#""g""#, "-0.5", "approve"),
    ];
    let ids = [
        "a-1",
        "9007199254740993",
        "ab",
        "\"c,\"\"d\"",
        "e",
        "f",
        "g",
    ];
    let script = move |request: &Request| {
        let (id, score, _) = answers[request.nth - 1];
        ok(&format!(
            r#"{{"summary":{{"other":[1],"risk_score":{score}}},"transaction_id":{id}}}"#
        ))
    };
    let (place, _, done) = in_turn(answers.len(), script, []);
    done.exits(0)
        .says("warning: row 7 got a score below 0, which is decided like any low score");
    let output = place.text("scored.csv");
    for ((line, id), (_, score, decision)) in output.lines().skip(1).zip(ids).zip(answers) {
        assert!(
            line.ends_with(&format!(",{id},{score},{decision}")),
            "{line}"
        );
    }
}

#[test]
fn three_useless_answers_at_the_start_stop_the_run() {
    for (body, said) in [
        ("", "the answer is empty"),
        (
            r#"{"transaction_id":"t-1","summ"#,
            "the answer is cut off or broken JSON (29 bytes)",
        ),
        ("[]", "the answer is JSON of an unknown shape"),
        (
            r#"{"transaction_id":"t-1","summary":{},"summary":{"risk_score":1}}"#,
            "the answer is JSON of an unknown shape",
        ),
        (
            r#"{"transaction_id":"t-1","summary":{"risk_score":"1"}}"#,
            "the answer's `summary.risk_score` is not a number",
        ),
    ] {
        let (place, server, done) = in_turn(20, move |_| ok(body), []);
        done.exits(3).says(&format!(
            "` gave no verdict for 3 consecutive rows\n  the last answer: {said}\n\nhint: check the base address"
        ))
        .says("3 calls got an answer without a verdict and will probably be billed");
        assert_eq!(server.calls(), 3);
        let rejects = place.text("scored.rejects.csv.partial");
        assert_eq!(rejects.matches(",bad_answer,").count(), 3, "{rejects}");
    }
}

#[test]
fn useless_answers_later_fail_only_their_rows() {
    let script = |request: &Request| {
        if request.nth > 1 {
            ok("{}")
        } else {
            good(request)
        }
    };
    let (_, server, done) = in_turn(12, script, []);
    done.exits(1);
    assert_eq!(server.calls(), 12);
}

#[test]
fn a_compressed_answer_that_was_not_asked_for_is_not_a_verdict() {
    let bomb = {
        use std::io::Write;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&vec![b' '; 32 << 20]).unwrap();
        gzip.finish().unwrap()
    };
    let script = move |request: &Request| match request.nth {
        2 => {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                bomb.len()
            );
            crate::support::server::raw([head.as_bytes(), &bomb].concat())
        }
        _ => good(request),
    };
    let (place, server, done) = in_turn(3, script, []);
    done.exits(1);
    assert_eq!(server.requests()[0].header("accept-encoding"), None);
    assert!(place.text("scored.rejects.csv").contains("\n2,bad_answer,"));
}

#[test]
fn a_silent_server_is_left_alone_when_the_first_row_is_not_answered() {
    let (place, server, done) = in_turn(
        20,
        |_| silence().then_stall(),
        ["--timeout", "300ms", "--resend-unknown", "0"],
    );
    done.exits(3);
    assert_eq!(
        (
            server.calls(),
            place.names().contains(&"scored.csv".to_owned())
        ),
        (1, false)
    );
}
