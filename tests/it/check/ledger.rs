//! What a check finds in a ledger and among the files of a run with the same command line: whose answers, of which run, and
//! without changing anything.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use super::{agree, check, command};
use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::stand_in::StandIn;
use crate::support::users;

/// `users.csv` scored to `scored.csv` up to 4 calls.
fn stopped(place: &Place, url: &str, more: &[&str]) {
    let words = ["run", "users.csv", "-o", "scored.csv", "-c", "1"];
    let words = [&words[..], &["--max-calls", "4"], more].concat();
    command(place, url, &words).exits(5);
}

/// How many answers are known, and how many calls are to be made.
fn numbers(said: &Value) -> (u64, u64) {
    let number = |key: &str| said[key].as_u64().unwrap();
    (number("known"), number("calls"))
}

#[test]
fn a_stopped_or_finished_run_is_found_by_its_output_and_continues_as_the_check_says() {
    let place = Place::with("users.csv", users::csv(10) + "11,,,,,\n");
    symlink("real.csv", place.path("link.csv")).unwrap();
    let of_stand_in = Place::new();
    let stand_in = StandIn::start(&of_stand_in, "");
    let to = |line: &str| agree(&place, &stand_in, &line.split(' ').collect::<Vec<_>>(), &[]);
    stopped(&place, &stand_in.url(), &[]);
    let unsettled = "--retries 2 --timeout 5s --progress off --approve-max 3 --report r.html";
    let said = to(&format!("users.csv -o scored.csv {unsettled}"));
    assert_eq!(numbers(&said), (4, 6));
    for (more, calls) in [
        ("--retry-failed", 0),
        ("--overwrite", 0),
        ("--overwrite --fresh", 10),
        ("--overwrite --no-ledger", 10),
    ] {
        let said = to(&format!("users.csv -o scored.csv {more}"));
        assert_eq!(said["calls"], calls, "{more}");
    }
    // Also a run that asks for all again, which only its output knows.
    for output in ["-o new.csv", "-o link.csv", "--output-dir dir"] {
        let line = format!("run users.csv {output} --fresh --max-calls 4");
        let words: Vec<_> = line.split(' ').collect();
        command(&place, &stand_in.url(), &words).exits(5);
        let another = ["users.csv", "-o", "other.csv"];
        assert_eq!(check(&place, &stand_in.url(), &another)["calls"], 0);
        let said = to(&format!("users.csv {output} --fresh"));
        assert_eq!(numbers(&said), (4, 6), "{output}");
    }
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
    command(&place, &server.url(), &output).exits(1);
    assert_eq!(server.calls(), 4 + 6);
    assert_eq!(found(&[]), ((8, 0), 2));
    let retry = [&output[..], &["--retry-failed"]].concat();
    assert_eq!(found(&retry[2..]), ((8, 2), 0));
    command(&place, &server.url(), &retry).exits(1);
    assert_eq!(server.calls(), 4 + 6 + 2);
}

#[test]
fn answers_of_other_flags_and_accounts_are_not_used_and_whole_answers_have_every_field() {
    let place = Place::with("users.csv", users::csv(10));
    let server = Server::good();
    stopped(&place, &server.url(), &[]);
    for (more, is_other, expected) in [
        (&[][..], false, (4, 6)),
        (&["--column", "level=/summary/risk_level"], false, (4, 6)),
        (&["--vpn-check"], false, (0, 10)),
        (&["--fresh"], false, (0, 10)),
        (&["--no-ledger"], false, (0, 10)),
        (&["--service-id", "other"], true, (0, 10)),
        (&["--base-url", "https://other.example.com"], true, (0, 10)),
    ] {
        let words = [&["check", "users.csv", "--json"], more].concat();
        let done = command(&place, &server.url(), &words).done();
        let says = done.exits(0).stderr.contains("has no answers of this");
        assert_eq!(
            (says, numbers(&done.json())),
            (is_other, expected),
            "{more:?}"
        );
    }
    // Without an address the only account of the ledger is used.
    let bare = || place.rescore("check users.csv --json").done();
    assert_eq!(numbers(&bare().json()), (4, 6));
    let other = ["--service-id", "other", "-o", "other.csv"];
    let run = [&["run", "users.csv"], &other[..]].concat();
    command(&place, &server.url(), &run).exits(0);
    bare()
        .exits(2)
        .says("several services or service ids")
        .says(&server.url());
}

#[test]
fn a_ledger_is_only_read_and_never_made() {
    let place = Place::with("users.csv", users::csv(10));
    let server = Server::good();
    symlink("nowhere", place.path("link")).unwrap();
    for ledger in ["nowhere/answers", "users.csv/answers", "link", "users.csv"] {
        let words = ["check", "users.csv", "--ledger", ledger];
        let done = command(&place, &server.url(), &words).exits(2);
        done.says(ledger);
    }
    let options = ["users.csv", "--ledger", "answers"];
    let said = check(&place, &server.url(), &options);
    assert_eq!(said["ledger"], json!({"path": "answers", "endpoint": null}));
    assert_eq!(place.names(), ["link", "users.csv"]);

    stopped(&place, &server.url(), &["--ledger", "answers"]);
    let (names, bytes) = (place.names(), place.read("answers"));
    // Also by a service that was never asked.
    check(&place, "https://never.example.com", &options);
    assert_eq!(numbers(&check(&place, &server.url(), &options)), (4, 6));
    assert_eq!(place.names(), names);
    assert_eq!(place.read("answers"), bytes);
    let mode = fs::metadata(place.path("answers")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[test]
fn a_ledger_is_read_while_its_run_is_at_work() {
    let place = Place::with("users.csv", users::csv(10));
    let (server, release) = Server::holding(4);
    let running = place.scoring(&server).start();
    server.wait_for_calls(5);
    // The first answers are on their way to the disk.
    running.wait_until("4 answers", || {
        numbers(&check(&place, &server.url(), &["users.csv"])).0 == 4
    });
    drop(release);
    running.exits(0);
    assert_eq!(server.calls(), 10);
}

#[test]
fn finished_files_of_a_directory_are_skipped_unless_they_are_older_than_their_input() {
    let place = Place::with("a.csv", users::csv(5));
    place.write("b.csv", users::csv(8) + "9,,,,\n");
    let of_stand_in = Place::new();
    let stand_in = StandIn::start(&of_stand_in, "");
    let options = ["?.csv", "--output-dir", "scored"];
    // The first file is finished, and one of the second's three further rows is paid for.
    let stop = ["-c", "1", "--max-calls", "6"];
    let run = [&["run"], &options[..], &stop].concat();
    command(&place, &stand_in.url(), &run).exits(5);
    let said = agree(&place, &stand_in, &options, &[]);
    assert_eq!(numbers(&said), (6, 2));
    let finished = [0, 1].map(|file| said["files"][file]["finished"] == true);
    assert_eq!(finished, [true, false]);
    for (more, calls) in [
        (&[][..], 0),
        (&["--retry-failed"], 0),
        (&["--overwrite"], 0),
        (&["--overwrite", "--fresh"], 8),
    ] {
        let said = agree(&place, &stand_in, &[&options[..], more].concat(), &[]);
        assert_eq!(said["calls"], calls, "{more:?}");
    }
    // Both commands refuse an input that was modified since, until its output and rejects are removed.
    place.write("b.csv", users::csv(9) + "10,,,,\n");
    let refused = |words: &str| {
        for verb in ["check", "run"] {
            let line = [&[verb], &options[..]].concat();
            let done = command(&place, &stand_in.url(), &line).exits(2);
            done.says(words);
        }
    };
    refused("`scored/b.csv` is older than its input, which was modified since: `b.csv`\n");
    fs::remove_file(place.path("scored/b.csv")).unwrap();
    fs::remove_file(place.path("scored/b.rejects.csv")).unwrap();
    assert_eq!(agree(&place, &stand_in, &options, &[])["calls"], 1);
}
