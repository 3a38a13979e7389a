//! What a run over several files writes, pays and reports for each of them.

use serde_json::{Value, json};

use super::{asked, csv, names, parts, run};
use crate::support::server::{Server, good, good_body, ok, status};
use crate::support::users;

#[test]
fn each_part_keeps_its_name_format_and_compression_and_the_same_user_is_paid_for_once() {
    let place = parts([("b.csv", &csv(3, 6))]);
    place.write("parts/a.csv.gz", users::gzip(csv(1, 3)));
    place.write("parts/c.jsonl", users::object("User 7") + "\n");
    let server = Server::good();
    run(&place, &server, ["-c", "1"]).exits(0);
    // In the order of their names.
    let expected: Vec<_> = (1..=7).map(|user| format!("User {user}")).collect();
    assert_eq!(asked(&server), expected);
    assert_eq!(names(&place, "scored"), ["a.csv.gz", "b.csv", "c.jsonl"]);
    let packed = place.read("scored/a.csv.gz");
    let text = std::io::read_to_string(flate2::read::GzDecoder::new(&packed[..]));
    assert_eq!(text.unwrap(), users::scored(&csv(1, 3)));
    assert_eq!(place.text("scored/b.csv"), users::scored(&csv(3, 6)));
    let row = place.text("scored/c.jsonl");
    assert!(row.contains(&users::Verdict::of("User 7").id), "{row}");
    assert_eq!(place.names(), ["parts", "rescore.ledger", "scored"]);
}

#[test]
fn rows_without_a_verdict_go_beside_their_output_and_are_retried_in_their_file() {
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", &csv(4, 6))]);
    let server = Server::start(|request| {
        if request.name() == "User 5" && request.attempt == 1 {
            return status(422);
        }
        good(request)
    });
    let done = run(&place, &server, []).exits(1);
    done.says("2.csv: 3 rows").says("see scored/2.rejects.csv");
    assert_eq!(names(&place, "scored"), ["1.csv", "2.csv", "2.rejects.csv"]);
    // The same command finds nothing to do, and still says that a row has no verdict.
    run(&place, &server, []).exits(1).says("skipped 2");
    assert_eq!(server.calls(), 6);
    run(&place, &server, ["--retry-failed"]).exits(0);
    assert_eq!(server.calls(), 7);
    assert_eq!(names(&place, "scored"), ["1.csv", "2.csv"]);
    assert_eq!(place.text("scored/2.csv"), users::scored(&csv(4, 6)));
    assert_eq!(place.names(), ["parts", "rescore.ledger", "scored"]);
}

#[test]
fn a_budget_is_for_all_parts() {
    let place = parts([
        ("1.csv", &csv(1, 3)),
        ("2.csv", &csv(4, 6)),
        ("3.csv", &csv(7, 9)),
    ]);
    let server = Server::good();
    // Also for all starts together.
    for words in [
        "partial 1, left 1, finished 1",
        "partial 1, left 1, skipped 1",
    ] {
        run(&place, &server, ["--max-calls", "4"])
            .exits(5)
            .says(words);
        assert_eq!(server.calls(), 4);
    }
    run(&place, &server, []).exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored/2.csv"), users::scored(&csv(4, 6)));
}

#[test]
fn a_run_over_other_parts_keeps_what_a_stopped_one_and_a_retry_need() {
    let all = [
        ("1.csv", csv(1, 5)),
        ("2.csv", csv(6, 20)),
        ("3.csv", csv(21, 40)),
    ];
    let place = parts(all.each_ref().map(|(name, csv)| (*name, csv.as_str())));
    let server = Server::start(|request| match request.name().as_str() {
        "User 2" if request.attempt == 1 => status(422),
        _ => good(request),
    });
    let run = |args: &str| place.run(&server, "--output-dir scored").args(args).done();
    run("parts/* --max-calls 12").exits(5);
    run("parts/1.csv").exits(1);
    run("parts/3.csv").exits(0);
    run("parts/*").exits(1);
    assert_eq!(server.calls(), 40);
    run("parts/* --retry-failed").exits(0);
    assert_eq!(server.calls(), 41);
    for (name, csv) in &all {
        assert_eq!(place.text(&format!("scored/{name}")), users::scored(csv));
    }
    assert_eq!(names(&place, "scored"), ["1.csv", "2.csv", "3.csv"]);
}

#[test]
fn the_same_command_again_does_not_accept_what_the_first_one_left() {
    let place = parts([("1.csv", &csv(1, 9))]);
    let server = Server::start(|request| match request.name().as_str() {
        "User 2" | "User 3" => status(422),
        _ => good(request),
    });
    for words in ["2 of 9 rows failed", "without a verdict"] {
        let done = run(&place, &server, ["--accept-failures", "1", "-q"]).exits(1);
        done.says(words);
    }
    assert_eq!(server.calls(), 9);
}

#[test]
fn the_summary_has_an_object_for_each_of_several_files() {
    let place = parts([
        ("1.csv", &csv(1, 3)),
        ("2.csv", "a\n1\n"),
        ("3.csv", &csv(4, 4)),
    ]);
    let server = Server::good();
    run(&place, &server, ["--max-calls", "3", "--summary", "s.json"]).exits(5);
    let summary = place.json("s.json");
    let files = &summary["files"];
    let states = [0, 1, 2].map(|file| files[file]["state"].as_str().unwrap());
    assert_eq!(states, ["finished", "failed", "left"]);
    assert_eq!(files[0]["output"], "scored/1.csv");
    assert_eq!(files[0]["resolved"], 3);
    assert_eq!(files[1]["output"], json!(null));
    let error = files[1]["error"].as_str().unwrap();
    assert!(error.contains("no column for"), "{error}");
    assert_eq!(summary["output"]["path"], "scored");
    let one = "parts/1.csv -o scored.csv --summary s.json";
    place.run(&server, one).exits(0);
    assert_eq!(place.json("s.json")["files"], json!(null));
}

#[test]
fn progress_and_log_say_which_file_it_is_and_columns_are_shown_where_they_change() {
    let other = csv(4, 9).replace("name", "Full Name");
    let place = parts([("1.csv", &csv(1, 3)), ("2.csv", &other), ("3.csv", "")]);
    let (server, release) = Server::holding(5);
    let args = ["--progress", "plain", "--log", "run.log"];
    let running = run(&place, &server, args).start();
    running.wait_for_words("file 2 of 3, ");
    drop(release);
    running
        .exits(0)
        .says("from parts/2.csv on:\n         name ← `Full Name`")
        .silent_about("parts/3.csv on:");
    let log = place.text("run.log");
    let lines: Vec<Value> = { log.lines() }
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["data"]["inputs"][1]["path"], "parts/2.csv");
    let started = { lines.iter() }.filter(|line| line["event"] == "file_started");
    let numbers: Vec<_> = started.map(|line| &line["data"]["file"]).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn a_repeated_transaction_id_is_named_with_both_files() {
    let place = parts([("1.csv", &csv(1, 2)), ("2.csv", &csv(3, 4))]);
    let server = Server::start(|request| match request.name().as_str() {
        "User 4" => ok(&good_body("User 1")),
        _ => good(request),
    });
    let done = run(&place, &server, ["-q"]).exits(0);
    done.says("in row 1 of `parts/1.csv` and row 2 of `parts/2.csv`: ");
}
