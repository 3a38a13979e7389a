//! A paid answer is not paid for again, whatever a run asks next, unless the request or the account is another one or an option
//! says so. Only somebody who has the request can read its answer.

use serde_json::Value;

use crate::support::ledger_file;
use crate::support::process::{KEY, Place};
use crate::support::server::{Request, Server, good, good_body, ok, status};
use crate::support::users;

pub(super) fn rows(csv: &str) -> Vec<&str> {
    csv.lines().skip(1).collect()
}

pub(super) fn file<'a>(rows: impl IntoIterator<Item = &'a str>) -> String {
    let header = "id,name,email,ip,user_agent\n".to_owned();
    rows.into_iter().fold(header, |file, row| file + row + "\n")
}

#[test]
fn whatever_is_asked_next_of_rows_that_are_paid_for_costs_no_call() {
    let csv = users::csv(40);
    let part = file(rows(&csv).into_iter().skip(10).take(20));
    let place = Place::with("users.csv", &csv);
    place.write("part.csv", &part);
    let server = Server::good();
    place.score(&server, "").exits(0);
    std::fs::copy(place.path("rescore.ledger"), place.path("copy.ledger")).unwrap();
    let shared = "--overwrite --output-dir dir --ledger copy.ledger";
    for (line, code) in [
        ("users.csv -o scored.csv", 2),
        // A file for one country, a sample, and back.
        ("part.csv -o part-scored.csv", 0),
        ("users.csv -o scored.csv --overwrite --limit 5", 0),
        ("users.csv -o scored.csv --overwrite --sample 20%", 0),
        ("users.csv -o scored.csv --overwrite", 0),
        ("users.csv -o scored.csv --overwrite --retry-failed", 0),
        ("users.csv -o scored.csv --overwrite --max-age 1d", 0),
        // Another field, guessed twice, the whole answer, and other decisions.
        ("users.csv -o 1.csv --column level=/risk_level", 0),
        ("users.csv -o 2.csv --column level=/summary/risk_level", 0),
        ("users.csv -o 3.csv --column answer=", 0),
        (
            "users.csv -o 4.csv --decide-by level=/summary/risk_level --block-levels 0",
            0,
        ),
        ("users.csv -o 5.csv --approve-max 10 --review-max 10", 0),
        // To a stream, and with the ledger as it was copied.
        ("users.csv", 0),
        (&format!("users.csv part.csv {shared}"), 0),
        ("users.csv -o scored.csv.gz --ledger copy.ledger", 0),
    ] {
        let done = place.run(&server, line).exits(code);
        assert_eq!(server.calls(), 40, "{line}\n{done}");
        if line == "users.csv" {
            assert_eq!(done.stdout, users::scored(&csv).into_bytes());
        }
    }
    for name in ["scored.csv", "dir/users.csv"] {
        assert_eq!(place.text(name), users::scored(&csv));
    }
    for name in ["part-scored.csv", "dir/part.csv"] {
        assert_eq!(place.text(name), users::scored(&part));
    }
    for (name, end) in [("2.csv", ",0"), ("4.csv", ",block"), ("5.csv", ",approve")] {
        let text = place.text(name);
        assert!(rows(&text).iter().all(|row| row.ends_with(end)), "{text}");
    }
}

#[test]
fn the_whole_answer_is_kept_and_appended_on_one_line() {
    let place = Place::with("users.csv", users::csv(3));
    let server = Server::start(|request: &Request| {
        ok(&good_body(&request.name())
            .replace(',', ",\r\n\t")
            .replace(":[]", ": [\n1.50, \"\\n\" ]"))
    });
    place.score(&server, "").exits(0);
    let done = place.score(&server, "--column answer= --overwrite");
    done.exits(0);
    assert_eq!(server.calls(), 3);
    let scored = place.text("scored.csv");
    assert_eq!(scored.lines().count(), 4, "{scored}");
    let mut reader = csv::Reader::from_reader(scored.as_bytes());
    for (user, row) in (1..).zip(reader.records()) {
        let row = row.unwrap();
        let whole: Value = serde_json::from_str(&row[row.len() - 1]).unwrap();
        let body = good_body(&format!("User {user}")).replace(":[]", ":[1.50,\"\\n\"]");
        assert_eq!(whole, serde_json::from_str::<Value>(&body).unwrap());
    }
}

#[test]
fn a_different_request_account_or_address_is_asked_again_and_every_answer_stays() {
    let csv = users::csv(6);
    let server = Server::good();
    let (url, v2) = (server.url(), format!("{}/v2", server.url()));
    for options in [
        &["--vpn-check"][..],
        &["--set", "phone=+4915112345678"],
        &["--base-url", &v2],
        &["--service-id", "another"],
    ] {
        let place = Place::with("users.csv", &csv);
        let run = |options: &[&str], more: &str| {
            let program = place.rescore("run users.csv -o scored.csv --overwrite");
            let program = program.env("RESCORE_BASE_URL", &url).args(options);
            let program = program.env("RESCORE_SERVICE_ID", "test").args(more);
            let program = program.env("RESCORE_API_KEY", KEY).args("--rate unlimited");
            let before = server.calls();
            (program.done(), server.calls() - before)
        };
        assert_eq!(run(&[], "--max-calls 4").1, 4);
        let (done, calls) = run(options, "");
        done.exits(0);
        assert_eq!(calls, 6, "{options:?}");
        assert_eq!(run(&[], "").1, 2, "{options:?}");
        assert_eq!(run(options, "").1, 0, "{options:?}");
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn a_new_ledger_is_named_and_made_up_answers_have_one_of_their_own() {
    let (place, server) = (Place::with("users.csv", users::csv(9)), Server::good());
    let sandbox = || place.rescore("run users.csv -o scored.csv --sandbox --overwrite");
    sandbox().exits(0);
    let names = ["sandbox.ledger", "scored.csv", "users.csv"];
    assert_eq!(place.names(), names);
    let done = place.score(&server, "--overwrite");
    done.exits(0);
    assert_eq!(server.calls(), 9);
    sandbox().exits(0);
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(9)));
}

#[test]
fn fresh_asks_all_and_its_answers_are_the_ones_that_later_runs_use() {
    let place = Place::with("users.csv", users::csv(5));
    let server = Server::start(|request| {
        let nth = request.nth;
        let body = format!(r#"{{"transaction_id":"t-{nth}","summary":{{"risk_score":1}}}}"#);
        ok(&body)
    });
    let run = |more: &str| {
        let args = format!("-c 1 --overwrite {more}");
        place.score(&server, &*args).exits(0);
        let scored = place.text("scored.csv");
        let last = scored.lines().last().unwrap();
        let last = last.split(',').nth(5).unwrap().to_owned();
        (server.calls(), last)
    };
    for (more, last) in [
        ("", 5),
        ("--fresh", 10),
        ("", 10),
        ("--fresh", 15),
        ("--fresh", 20),
        ("", 20),
    ] {
        assert_eq!(run(more), (last, format!("t-{last}")));
    }
}

#[test]
fn answers_do_not_age_by_themselves_and_those_older_than_a_run_wants_are_asked_for_again() {
    const DAY: i64 = 86_400_000;
    let csv = users::csv(5);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let run = |more: &str| {
        let args = format!("--overwrite {more}");
        place.score(&server, &*args).exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        server.calls()
    };
    let age = |days| ledger_file::age(&place.path("rescore.ledger"), &server, days * DAY);
    assert_eq!((run("--max-age 1d"), run("--max-age 1d")), (5, 5));
    assert_eq!(age(2), 5);
    let [wide, narrow, again] = ["--max-age 3d", "--max-age 1d", "--max-age 1d"].map(run);
    assert_eq!((wide, narrow, again), (5, 10, 10));
    // A year later the run still uses them, and counts them as aged.
    age(365);
    assert_eq!(run("--summary s.json"), 10);
    assert_eq!(place.json("s.json")["ledger_answers_aged"], 5);
    // They have the date of a clock that was a year ahead: `--fresh` asks for each once.
    age(-2 * 365);
    assert_eq!(run(""), 10);
    assert_eq!(run("--fresh"), 15);
    assert_eq!(run(""), 15);
}

#[test]
fn answers_of_one_night_are_asked_for_again_each_once_over_the_nights_of_a_range() {
    const HOUR: i64 = 3_600_000;
    const ROWS: usize = 150;
    let csv = users::csv(ROWS);
    // Failures that were billed age as answers do.
    let server = Server::start(|request| match request.name().strip_prefix("User 14") {
        Some("7" | "8" | "9") => status(422),
        _ => good(request),
    });
    let place = Place::with("users.csv", &csv);
    let run = |more: &str, code| {
        let before = server.calls();
        place.score(&server, more).exits(code);
        server.calls() - before
    };
    let nights = "--overwrite --max-age 24d..30d";
    assert_eq!(run(nights, 1), ROWS);
    let night = |hours: i64| {
        ledger_file::age(&place.path("rescore.ledger"), &server, hours * HOUR);
        // A run that is stopped asks for the same rows as one that is not, and what has failed is not asked again.
        let checked = place.rescore(&*format!("check users.csv -o scored.csv {nights} --json"));
        let checked = checked.env("RESCORE_BASE_URL", server.url());
        let expected = checked.env("RESCORE_SERVICE_ID", "test").done().json()["calls"].clone();
        let stopped = match expected.as_u64() {
            Some(0 | 1) => 0,
            _ => run(&format!("{nights} --max-calls 1"), 5),
        };
        let calls = stopped + run(nights, 1);
        assert_eq!(calls, expected);
        calls
    };
    assert_eq!(night(24 * 24 - 1), 0);
    let calls = [24, 24, 24, 24, 24, 26].map(night);
    assert_eq!(calls.iter().sum::<usize>(), ROWS, "{calls:?}");
    assert!(
        calls.iter().all(|calls| (3..60).contains(calls)),
        "{calls:?}"
    );
    // Those of the first of these nights are 23 days old.
    assert_eq!(night(18 * 24), 0);
}

#[test]
fn a_retry_after_a_range_of_ages_asks_for_what_had_failed_and_for_nothing_else() {
    let csv = users::csv(60);
    let server = Server::start(|request| match request.attempt {
        2 => status(422),
        _ => good(request),
    });
    let place = Place::with("users.csv", &csv);
    let run = |more: &str, code| {
        place.score(&server, more).exits(code);
        server.calls()
    };
    run("", 0);
    ledger_file::age(&place.path("rescore.ledger"), &server, 3 * 3_600_000);
    let asked = run("--overwrite --max-age 2h..4h", 1) - 60;
    assert!((5..55).contains(&asked), "{asked}");
    let stopped = run("--retry-failed --max-calls 2", 5);
    assert_eq!(stopped, 60 + asked + 2);
    assert_eq!(run("--retry-failed", 0), 60 + 2 * asked);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn nothing_about_people_nor_a_word_of_the_service_can_be_read_in_a_ledger() {
    let (server, release) = Server::start_holding_if(
        |request| request.name() == "User 30" && request.attempt == 1,
        |request| match &*request.name() {
            "User 7" => status(422),
            _ => good(request),
        },
    );
    let place = Place::with("users.csv", users::csv(30));
    let run = || {
        let program = place.rescore("run users.csv -o scored.csv --service-id hush-hush");
        let program = program.args(["--base-url", &server.url()]);
        program.env("RESCORE_API_KEY", KEY)
    };
    let clear = [
        "User ",
        "user1@",
        "example.com",
        "192.0.2",
        "Mozilla",
        "Legit",
        "risk_",
        "transaction",
        "server's own",
        "refused",
        "hush",
        "test-key",
        "users.csv",
        "scored",
    ];
    let look = |file: &str| {
        let bytes = place.read(file);
        for words in clear {
            let found = bytes.windows(words.len()).any(|it| it == words.as_bytes());
            assert!(!found, "{file}: {words}");
        }
    };
    let running = run().start();
    server.wait_for_calls(30);
    running.wait_for_file("scored.csv.partial", |rows| {
        rows.split(|it| *it == b'\n').count() > 29
    });
    running.kill_when(|| true);
    drop(release);
    look("rescore.ledger");
    look("rescore.ledger-wal");
    run().exits(1);
    look("rescore.ledger");
}
