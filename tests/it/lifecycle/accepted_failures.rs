//! A run in which few rows fail ends with 0 (`--accept-failures`), and nothing but its exit code changes.

use serde_json::Value;

use crate::support::process::{Done, Place};
use crate::support::server::{Server, good, ok, status};
use crate::support::users;

const ROWS: usize = 20;

/// Rejects two of the twenty users, the first times that they are sent.
fn rejecting_two(times: usize) -> Server {
    Server::start(move |request| match request.name().as_str() {
        "User 3" | "User 5" if request.attempt <= times => status(422),
        _ => good(request),
    })
}

fn scored(place: &Place, server: &Server, accepted: &str, more: &[&str]) -> Done {
    let accept = ["--accept-failures", accepted, "--summary", "summary.json"];
    let program = place.scoring(server);
    program.args(accept).args(more).done()
}

#[test]
fn as_many_failures_as_are_accepted_end_with_0_and_one_more_with_1() {
    let server = rejecting_two(9);
    for (accepted, code) in [("2", 0), ("1", 1), ("0", 1), ("10%", 0), ("9.99%", 1)] {
        let place = Place::with("users.csv", users::csv(ROWS));
        let done = scored(&place, &server, accepted, &[]);
        let words = format!("accepted by `--accept-failures {accepted}`: the exit code is 0");
        done.exits(code)
            .says("failed 2: refused 2; see scored.rejects.csv");
        done.check(
            done.stderr.contains(&words) == (code == 0),
            "what is accepted",
        );
        let summary = place.json("summary.json");
        assert_eq!(summary["exit_code"], code);
        assert_eq!(summary["failed"]["rows"], 2);
        assert_eq!(summary["failures_accepted"], code == 0);
        assert_eq!(summary["stopped"], Value::Null);
    }
}

#[test]
fn rejects_of_accepted_failures_stay_for_the_retry() {
    let place = Place::with("users.csv", users::csv(ROWS));
    let server = rejecting_two(1);
    scored(&place, &server, "5", &[]).exits(0);
    assert_eq!(
        place.names(),
        [
            "rescore.ledger",
            "scored.csv",
            "scored.rejects.csv",
            "summary.json",
            "users.csv"
        ]
    );
    // The same command is a new run, as after exit code 1.
    scored(&place, &server, "5", &[])
        .exits(2)
        .says("`scored.csv` already exists")
        .says("`--retry-failed`");
    assert_eq!(server.calls(), ROWS);
    scored(&place, &server, "5", &["--retry-failed"]).exits(0);
    assert_eq!(server.calls(), ROWS + 2);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(ROWS)));
    assert!(!place.path("scored.rejects.csv").exists());
}

#[test]
fn the_next_night_pays_for_no_row_again_not_even_for_one_that_failed() {
    let place = Place::with("users.csv", users::csv(ROWS));
    let server = rejecting_two(2);
    for _ in 0..2 {
        scored(&place, &server, "5", &["--overwrite"]).exits(0);
        assert_eq!(place.json("summary.json")["failed"]["rows"], 2);
    }
    assert_eq!(server.calls(), ROWS);
}

#[test]
fn neither_a_stopped_run_nor_rows_without_a_decision_are_accepted() {
    let server = rejecting_two(9);
    let place = Place::with("users.csv", users::csv(ROWS));
    let done = scored(&place, &server, "100%", &["--max-calls", "9", "-c", "1"]);
    done.exits(5).silent_about("--accept-failures");
    assert_eq!(place.json("summary.json")["failures_accepted"], false);

    let levels = Server::start(|request| match request.name().as_str() {
        "User 3" => status(422),
        "User 5" => ok(r#"{"summary":{"risk_score":1,"level":9},"transaction_id":"u5"}"#),
        name => ok(&format!(
            r#"{{"summary":{{"risk_score":1,"level":0}},"transaction_id":"{name}"}}"#
        )),
    });
    let place = Place::with("users.csv", users::csv(ROWS));
    let decide = [
        "--decide-by",
        "level=/summary/level",
        "--approve-levels",
        "0",
    ];
    let done = scored(&place, &levels, "5", &decide);
    done.exits(1).silent_about("accepted by");
    assert_eq!(place.json("summary.json")["failures_accepted"], false);
    let done = scored(
        &place,
        &levels,
        "5",
        &[&decide[..], &["--overwrite", "-q"]].concat(),
    );
    done.exits(1);
    assert_eq!(
        done.stderr,
        "warning: 1 of 20 rows failed: refused 1; see scored.rejects.csv; 1 of 20 rows have no decision: the level at `/summary/level` is in no list in row 5 (finished with exit code 1)\n"
    );
}

#[test]
fn a_file_without_a_single_good_row_is_finished_if_all_failures_are_accepted() {
    let server = Server::good();
    let csv = users::csv(150).replace("@example.com", "");
    let place = Place::with("users.csv", csv);
    scored(&place, &server, "99%", &[])
        .exits(2)
        .says("first 100 rows");
    scored(&place, &server, "100%", &[])
        .exits(0)
        .says("invalid_email 150");
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_quiet_run_says_that_failures_were_accepted() {
    let place = Place::with("users.csv", users::csv(ROWS));
    let done = scored(&place, &rejecting_two(9), "10%", &["-q"]);
    done.exits(0);
    assert_eq!(
        done.stderr,
        "warning: 2 of 20 rows failed: refused 2; see scored.rejects.csv (finished with exit code 0, as `--accept-failures 10%` allows)\n"
    );
}
