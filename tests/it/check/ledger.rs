//! What a check finds in a ledger: whose answers, of which run, and without changing anything.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use super::agreement::{agree, check, command};
use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::stand_in::StandIn;
use crate::support::users;

/// `users.csv` scored to `scored.csv` up to so many calls.
fn stopped(place: &Place, url: &str, more: &[&str]) {
    let words = ["run", "users.csv", "-o", "scored.csv", "-c", "1"];
    let words = [&words[..], &["--max-calls", "4"], more].concat();
    command(place, url, &words).done().exits(5);
}

fn numbers(said: &Value) -> (u64, u64) {
    let number = |key: &str| said[key].as_u64().unwrap();
    (number("known"), number("calls"))
}

#[test]
fn a_failure_that_may_have_been_billed_is_a_call_only_if_it_is_retried() {
    let place = Place::with("users.csv", users::csv(10));
    let server = Server::start(|request| match request.name().as_str() {
        "User 2" | "User 3" => status(422),
        _ => good(request),
    });
    let found = |more: &[&str]| {
        let said = check(&place, &server.url(), &[&["users.csv"], more].concat());
        (numbers(&said), said["failed_before"].as_u64().unwrap())
    };
    stopped(&place, &server.url(), &[]);
    for output in [&[][..], &["-o", "scored.csv"], &["-o", "other.csv"]] {
        assert_eq!(found(output), ((2, 6), 2), "{output:?}");
    }
    let output = ["run", "users.csv", "-o", "scored.csv"];
    command(&place, &server.url(), &output).done().exits(1);
    assert_eq!(server.calls(), 4 + 6);
    assert_eq!(found(&[]), ((8, 0), 2));
    let retry = [&output[..], &["--retry-failed"]].concat();
    assert_eq!(found(&retry[2..]), ((8, 2), 0));
    command(&place, &server.url(), &retry).done().exits(1);
    assert_eq!(server.calls(), 4 + 6 + 2);
}

#[test]
fn answers_of_other_flags_and_accounts_are_not_used_and_whole_answers_have_every_field() {
    let place = Place::with("users.csv", users::csv(10));
    let server = Server::good();
    stopped(&place, &server.url(), &[]);
    let found = |more: &[&str]| {
        let words = [&["check", "users.csv", "--json"], more].concat();
        let program = command(&place, &server.url(), &words);
        let done = program.done();
        (
            done.exits(0).stderr.contains("has no answers of this"),
            numbers(&done.json()),
        )
    };
    for more in [
        &[][..],
        &["--column", "risk_level=/summary/risk_level"],
        &["--decide-by", "level=/summary/risk_level"],
    ] {
        assert_eq!(found(more), (false, (4, 6)), "{more:?}");
    }
    for more in [
        &["--vpn-check"][..],
        &["--advanced"],
        &["--fresh"],
        &["--no-ledger"],
    ] {
        assert_eq!(found(more), (false, (0, 10)), "{more:?}");
    }
    for more in [
        ["--service-id", "other"],
        ["--base-url", "https://other.example.com"],
    ] {
        assert_eq!(found(&more), (true, (0, 10)), "{more:?}");
    }
}

#[test]
fn without_an_address_the_only_account_of_the_ledger_is_used() {
    let place = Place::with("users.csv", users::csv(10));
    let server = Server::good();
    stopped(&place, &server.url(), &[]);
    let bare = |more: &[&str]| {
        let words = ["check", "users.csv", "--json"];
        place.rescore([&words[..], more].concat()).done()
    };
    assert_eq!(numbers(&super::agreement::printed(&bare(&[]))), (4, 6));
    bare(&["--service-id", "test"])
        .exits(2)
        .says("no service address")
        .says("--base-url URL");
    let other = ["--service-id", "other", "-o", "other.csv"];
    let run = [&["run", "users.csv"], &other[..]].concat();
    command(&place, &server.url(), &run).done().exits(0);
    bare(&[])
        .exits(2)
        .says("several services or service ids")
        .says(&server.url());
}

#[test]
fn a_ledger_that_the_first_run_will_make_has_no_answers() {
    let mut csv = users::csv(10);
    csv.push_str(csv.clone().lines().nth(1).unwrap());
    let place = Place::with("users.csv", csv);
    let stand_in_place = Place::new();
    let stand_in = StandIn::start(&stand_in_place, "");
    let options = ["users.csv", "--ledger", "answers"];
    let words = [&["check"], &options[..]].concat();
    let done = command(&place, &stand_in.url(), &words).done();
    done.exits(0).prints("`answers` does not exist yet");
    assert_eq!(place.names(), ["users.csv"]);
    let said = agree(&place, &stand_in, &[], &options, &["-o", "scored.csv"]);
    assert_eq!(numbers(&said), (0, 10));
    assert_eq!(said["ledger"], json!({"path": "answers", "endpoint": null}));
    // The next check finds what that run has paid for.
    let done = command(&place, &stand_in.url(), &words).done();
    done.exits(0).silent_about("does not exist");
}

#[test]
fn a_ledger_is_only_read_and_never_made() {
    let place = Place::with("users.csv", users::csv(10));
    let server = Server::good();
    let missing = |ledger: &str| {
        let words = ["check", "users.csv", "--ledger", ledger];
        command(&place, &server.url(), &words).done()
    };
    missing("nowhere/answers").exits(2).says("nowhere/answers");
    missing("users.csv/answers")
        .exits(2)
        .says("users.csv/answers");
    symlink("nowhere", place.path("link")).unwrap();
    missing("link").exits(2).says("the ledger `link`");
    fs::remove_file(place.path("link")).unwrap();
    let foreign = command(
        &place,
        &server.url(),
        &["check", "users.csv", "--ledger", "users.csv"],
    );
    foreign.done().exits(2).says("not a rescore ledger");
    assert_eq!(place.names(), ["users.csv"]);

    stopped(&place, &server.url(), &["--ledger", "answers"]);
    let (names, bytes) = (place.names(), place.read("answers"));
    let options = ["users.csv", "--ledger", "answers"];
    // Also by a service that was never asked, and beside a run.
    check(&place, "https://never.example.com", &options);
    check(&place, &server.url(), &options);
    assert_eq!(place.names(), names);
    assert_eq!(place.read("answers"), bytes);
    let mode = fs::metadata(place.path("answers"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_ledger_is_read_while_its_run_is_at_work() {
    let place = Place::with("users.csv", users::csv(10));
    let (server, release) = Server::holding(4);
    let words = [
        "run",
        "users.csv",
        "-o",
        "scored.csv",
        "--rate",
        "unlimited",
    ];
    let running = command(&place, &server.url(), &words).start();
    server.wait_for_calls(5);
    let ledger = ["users.csv", "--ledger", "rescore.ledger"];
    let known = || numbers(&check(&place, &server.url(), &ledger)).0;
    // The first answers are on their way to the disk.
    let mut seen = known();
    for _ in 0..200 {
        if seen == 4 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        seen = known();
    }
    assert_eq!(seen, 4);
    drop(release);
    running.done().exits(0);
    assert_eq!(server.calls(), 10);
}
