//! Progress and summary of several files.

use serde_json::{Value, json};

use super::{csv, parts, run};
use crate::support::server::{Server, good, good_body, ok};

#[test]
fn the_summary_has_an_object_for_each_file() {
    let place = parts([
        ("1.csv", &csv(1, 3)),
        ("2.csv", "a\n1\n"),
        ("3.csv", &csv(4, 4)),
    ]);
    let server = Server::good();
    run(&place, &server, ["--max-calls", "3", "--summary", "s.json"])
        .done()
        .exits(5);
    let summary = place.json("s.json");
    let files = summary["files"].as_array().unwrap();
    let states: Vec<_> = files
        .iter()
        .map(|file| file["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["finished", "failed", "left"]);
    assert_eq!(files[0]["output"], "scored/1.csv");
    assert_eq!(files[0]["resolved"], 3);
    assert_eq!(files[1]["output"], json!(null));
    let error = files[1]["error"].as_str().unwrap();
    assert!(error.contains("no column for"), "{error}");
    assert_eq!(summary["output"]["path"], "scored");
    assert_eq!(summary["exit_code"], 5);
}

#[test]
fn a_summary_of_one_file_has_no_files() {
    let place = parts([("1.csv", &csv(1, 1))]);
    let server = Server::good();
    let args = "parts/1.csv -o scored.csv --summary s.json";
    place.run(&server, args).done().exits(0);
    let summary = place.json("s.json");
    assert_eq!(summary["files"], json!(null));
}

#[test]
fn progress_says_which_file_it_is() {
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", &csv(4, 9))]);
    for (style, words) in [
        ("plain", "file 2 of 2, "),
        ("json", r#""file":2,"files":2,"#),
    ] {
        let (server, release) = Server::holding(5);
        let args = ["--progress", style, "--overwrite"];
        let running = run(&place, &server, args).start();
        running.wait_for_words(words);
        drop(release);
        running.done().exits(0);
    }
}

#[test]
fn columns_are_shown_where_they_change_and_not_for_an_empty_file() {
    let other = "id,Full Name,email,ip,user_agent\n4,User 4,user4@example.com,192.0.2.1,curl/8\n";
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", ""), ("3.csv", other)]);
    let server = Server::good();
    run(&place, &server, [])
        .done()
        .exits(0)
        .says("from parts/3.csv on:\n         name ← `Full Name`")
        .silent_about("parts/2.csv on:");
}

#[test]
fn a_repeated_transaction_id_is_named_with_both_files() {
    let place = parts([("1.csv", &csv(1, 2)), ("2.csv", &csv(3, 4))]);
    let server = Server::start(|request| {
        if request.name() == "User 4" {
            return ok(&good_body("User 1"));
        }
        good(request)
    });
    run(&place, &server, ["-q"])
        .done()
        .exits(0)
        .says("in row 1 of `parts/1.csv` and row 2 of `parts/2.csv`: a cache or proxy");
}

#[test]
fn the_log_says_of_which_file_its_rows_are() {
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", &csv(4, 2))]);
    let server = Server::good();
    run(&place, &server, ["--log", "run.log"]).done().exits(0);
    let log = place.text("run.log");
    let lines: Vec<Value> = { log.lines() }
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let inputs = lines[0]["data"]["inputs"].as_array().unwrap();
    let paths: Vec<_> = inputs.iter().map(|input| &input["path"]).collect();
    assert_eq!(paths, ["parts/1.csv", "parts/2.csv"]);
    let started = { lines.iter() }.filter(|line| line["event"] == "file_started");
    let numbers: Vec<_> = started.map(|line| &line["data"]["file"]).collect();
    assert_eq!(numbers, [1, 2]);
}
