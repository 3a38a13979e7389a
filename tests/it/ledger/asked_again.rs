//! Rows that are sent again although they were answered: another request or account, an answer too old, a run that asks for
//! all again. No paid answer is lost by that.

use std::fs;

use super::resume::stopped;
use crate::support::ledger_file;
use crate::support::process::{KEY, Place};
use crate::support::server::{Server, ok, status};
use crate::support::users;

#[test]
fn a_different_request_account_or_address_is_asked_again_and_every_answer_stays() {
    let csv = users::csv(6);
    let server = Server::good();
    let (url, v2) = (server.url(), format!("{}/v2", server.url()));
    for options in [
        &["--vpn-check"][..],
        &["--advanced"],
        &["--set", "phone=+4915112345678"],
        &["--base-url", &v2],
        &["--service-id", "another"],
    ] {
        let place = Place::with("users.csv", &csv);
        let run = |options: &[&str], more: &str| {
            let program = place.rescore("run users.csv -o scored.csv --overwrite");
            let program = program.env("RESCORE_BASE_URL", &url).args(options);
            let program = program.env("RESCORE_SERVICE_ID", "test").args(more);
            let before = server.calls();
            let done = program.env("RESCORE_API_KEY", KEY).done();
            (done, server.calls() - before)
        };
        assert_eq!(run(&[], "--max-calls 4").1, 4);
        // A mistyped address or id is seen before it costs anything.
        let (done, calls) = run(options, "");
        done.exits(0).silent_about("taken from the ledger");
        let is_account = v2 == *options.last().unwrap() || options[0] == "--service-id";
        if is_account {
            done.says("has no answers of this address and service id, only of others at http://");
        }
        assert_eq!(calls, 6, "{options:?}");
        assert_eq!(run(&[], "").1, 2, "{options:?}");
        let (done, calls) = run(options, "");
        done.exits(0).silent_about("only of others");
        assert_eq!(calls, 0, "{options:?}");
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn an_address_without_an_answer_is_not_named_among_those_that_have_some() {
    let place = Place::with("users.csv", users::csv(3));
    let (refusing, first, second) = (
        Server::start(|_| status(401)),
        Server::good(),
        Server::good(),
    );
    let score = |server: &Server, output| {
        let done = place.run(server, ["users.csv", "-o", output]).done();
        done.silent_about(&refusing.url());
        done
    };
    place.run(&refusing, "users.csv -o a.csv").done().exits(4);
    score(&first, "b.csv").exits(0);
    // Only one account has answers, so that none need be named.
    let checked = place.rescore("check users.csv").done();
    checked.exits(0).silent_about(&refusing.url());
    let options = "--base-url https://other.example.com --service-id test";
    let checked = place.rescore("check users.csv").args(options).done();
    checked
        .exits(0)
        .says(&first.url())
        .silent_about(&refusing.url());
    let done = score(&second, "c.csv");
    done.exits(0).says("only of others at").says(&first.url());
}

#[test]
fn made_up_answers_have_a_ledger_of_their_own() {
    let (place, server) = (Place::with("users.csv", users::csv(9)), Server::good());
    let sandbox = || place.rescore("run users.csv -o scored.csv --sandbox --overwrite");
    sandbox().done().exits(0);
    let names = ["rescore-sandbox.ledger", "scored.csv", "users.csv"];
    assert_eq!(place.names(), names);
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(server.calls(), 9);
    sandbox().done().exits(0).says("9 rows");
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
fn a_run_that_cannot_start_changes_nothing() {
    let csv = users::csv(9);
    for file in ["--summary", "--rejects", "--changes"] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        stopped(&place, &server, 4);
        fs::create_dir(place.path("directory")).unwrap();
        for cannot in ["no/such/file.csv", "directory"] {
            let done = place.score(&server, ["--fresh", "--overwrite", file, cannot]);
            done.exits(2).says(cannot);
        }
        place.score(&server, "").exits(0);
        assert_eq!(server.calls(), 9);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    }
}

#[test]
fn answers_do_not_age_by_themselves_and_those_older_than_a_run_wants_are_asked_for_again() {
    const DAY: i64 = 86_400_000;
    let csv = users::csv(5);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let run = |more: &str| {
        place
            .score(&server, &*format!("--overwrite {more}"))
            .exits(0);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        server.calls()
    };
    let age = |days| ledger_file::age(&place.path("rescore.ledger"), &server, days * DAY);
    assert_eq!((run("--max-age 1d"), run("--max-age 1d")), (5, 5));
    assert_eq!(age(2), 5);
    let [wide, narrow, again] = ["--max-age 3d", "--max-age 1d", "--max-age 1d"].map(run);
    assert_eq!((wide, narrow, again), (5, 10, 10));
    // A year later they are used all the same, and how old they are is said.
    age(365);
    assert_eq!(run("--summary s.json"), 10);
    assert_eq!(place.json("s.json")["ledger_answers_aged"], 5);
    // A clock that was a year ahead has dated them: what is to be asked again is asked once.
    age(-2 * 365);
    assert_eq!(run(""), 10);
    assert_eq!(run("--fresh"), 15);
    assert_eq!(run(""), 15);
}

#[test]
fn a_stopped_run_keeps_the_age_that_it_started_with() {
    const HOUR: i64 = 3_600_000;
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let run = |more: &str| place.score(&server, &*format!("--max-age 2h {more}"));
    run("--max-calls 4").exits(5);
    // Three hours later the same command continues, and its own answers are what they were.
    ledger_file::age(&place.path("rescore.ledger"), &server, 3 * HOUR);
    run("").exits(0);
    assert_eq!(server.calls(), 9);
    // The next run with these words is a new one.
    run("--overwrite").exits(0);
    assert_eq!(server.calls(), 9 + 4);
}
