//! `--decide-by level`: decisions by a level that the service gives.

use serde_json::{Value, json};

use crate::support::command_line::CommandLine;
use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, ok};
use crate::support::users;

/// A verdict whose level is the user's name, as it stands in the answer.
fn level_as_named(request: &Request) -> Action {
    let level = request.name();
    let level = match &*level {
        "absent" => String::new(),
        "steers" => r#","risk_level":"\u001b[2J""#.to_owned(),
        _ if level.parse::<f64>().is_ok() || level == "null" || level == "true" => {
            format!(r#","risk_level":{level}"#)
        }
        level => format!(r#","risk_level":{}"#, json!(level)),
    };
    // No two of more than a few answers may have one id.
    let id = if request.nth < 10 {
        "t".to_owned()
    } else {
        format!("t-{}", request.nth)
    };
    ok(&format!(
        r#"{{"summary":{{"risk_score":9{level}}},"transaction_id":"{id}"}}"#
    ))
}

const BY_LEVEL: [&str; 8] = [
    "--decide-by",
    "level=/summary/risk_level",
    "--approve-levels",
    "0,low",
    "--review-levels",
    "1, Medium ",
    "--block-levels",
    "2,high,true",
];

#[test]
fn levels_are_decided_by_their_text_and_the_score_does_not_matter() {
    let expected = [
        ("0", "approve"),
        ("low", "approve"),
        ("LOW", "approve"),
        ("1", "review"),
        ("medium", "review"),
        ("2", "block"),
        (" high ", "block"),
        ("true", "block"),
    ];
    let server = Server::start(level_as_named);
    let place = Place::with(
        "users.csv",
        users::named(expected.iter().map(|(name, _)| name)),
    );
    let done = place.score(&server, BY_LEVEL);
    done.exits(0).says("approve 3, review 2, block 3\n");
    let scored = place.text("scored.csv");
    for (line, (name, decision)) in scored.lines().skip(1).zip(expected) {
        assert!(
            line.ends_with(&format!(",t,9,{decision}")),
            "{name}: {line}"
        );
    }
    // The level is no column unless it is asked for.
    assert!(scored.lines().next().unwrap().ends_with("decision"));
    let column = "--overwrite --column level=/summary/risk_level";
    place
        .scoring(&server)
        .args(BY_LEVEL)
        .args(column)
        .done()
        .exits(0);
    assert!(place.text("scored.csv").contains(",t,9,approve,LOW\n"));
}

#[test]
fn a_level_in_no_list_has_no_decision_and_is_counted_and_never_shown() {
    let names = ["0", "3", "3", "absent", "null", "0.0", "steers"];
    let server = Server::start(level_as_named);
    let place = Place::with("users.csv", users::named(names));
    let done = place
        .scoring(&server)
        .args(BY_LEVEL)
        .args("--summary summary.json")
        .done();
    done.exits(1)
        .says("approve 1\n         undecided 6: the level at `/summary/risk_level` is in no list in rows 2, 3, 4, 5, 6 and 1 more\n")
        .silent_about("[2J")
        .says(
            "`--retry-failed` with all levels listed, or another pointer, decides without a call",
        );
    let summary = place.json("summary.json");
    assert_eq!(
        summary["decisions"],
        json!({"approve": 1, "review": 0, "block": 0})
    );
    assert_eq!(
        summary["undecided"],
        json!({"rows": 6, "first": [2, 3, 4, 5, 6]})
    );
    assert_eq!(
        (&summary["failed"]["rows"], &summary["exit_code"]),
        (&json!(0), &json!(1))
    );
    let scored = place.text("scored.csv");
    assert_eq!(scored.matches(",t,9,\n").count(), 6, "{scored}");
    assert!(!place.names().contains(&"scored.rejects.csv".to_owned()));

    // With all levels listed, the same answers bring decisions: nothing is paid for twice.
    let calls = server.calls();
    let mut listed: Vec<&str> = BY_LEVEL.to_vec();
    listed[7] = "2,3,0.0,\u{1b}[2J";
    let done = place
        .run(&server, "users.csv -o scored.csv --retry-failed")
        .args(listed)
        .done();
    done.exits(1)
        .says("block 4")
        .says("undecided 2: the level at `/summary/risk_level` is in no list in rows 4, 5\n");
    assert_eq!(server.calls(), calls);
}

#[test]
fn a_pointer_that_leads_to_personal_data_shows_none() {
    let server = Server::start(|request| {
        ok(&format!(
            r#"{{"transaction_id":"t-{0}","summary":{{"risk_score":1}},"user":{{"email":"{0}@mail.example"}}}}"#,
            request.name()
        ))
    });
    let place = Place::with("users.csv", users::named(["ann", "bob"]));
    let done = place
        .scoring(&server)
        .args("--decide-by level=/user/email --approve-levels 0")
        .args("--summary summary.json --log run.log")
        .done();
    done.exits(1)
        .says("undecided 2: the level at `/user/email` is in no list in rows 1, 2\n")
        .silent_about("mail.example");
    for name in ["summary.json", "run.log"] {
        assert!(!place.text(name).contains("mail.example"), "{name}");
    }
}

#[test]
fn quiet_runs_and_progress_lines_say_which_rows_have_no_decision() {
    let server = Server::start(level_as_named);
    let place = Place::with("users.csv", users::named(["0", "3", "7"]));
    let run = || {
        place
            .run(&server, "users.csv -o scored.csv --overwrite")
            .args(BY_LEVEL)
    };
    let done = run().arg("-q").done();
    done.exits(1)
        .says("warning: 2 of 3 rows have no decision: the level at `/summary/risk_level` is in no list in rows 2, 3 (finished with exit code 1)\n");
    let done = run().args("--progress json").done();
    let last: Value = serde_json::from_str(done.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(last["undecided"]["rows"], 2);
}

#[test]
fn jsonl_has_null_where_there_is_no_decision() {
    let server = Server::start(level_as_named);
    let lines = ["0", "3"].map(|name| users::object(name) + "\n").concat();
    let place = Place::with("users.jsonl", lines);
    let done = place
        .run(&server, "users.jsonl -o scored.jsonl")
        .args(BY_LEVEL)
        .done();
    done.exits(1);
    let scored = place.text("scored.jsonl");
    assert!(
        scored.contains(r#""risk_score":9,"decision":"approve"}"#),
        "{scored}"
    );
    assert!(
        scored.contains(r#""risk_score":9,"decision":null}"#),
        "{scored}"
    );
}

#[test]
fn a_level_that_nobody_asked_for_before_costs_no_call() {
    let server = Server::start(level_as_named);
    let place = Place::with("users.csv", users::named(["0", "1", "2"]));
    let run = |output| place.run(&server, ["users.csv", "--ledger", "a.ledger", "-o", output]);
    run("1.csv").done().exits(0);
    assert_eq!(server.calls(), 3);
    run("2.csv")
        .args(BY_LEVEL)
        .done()
        .exits(0)
        .says("3 rows already paid for");
    assert_eq!(server.calls(), 3);
    assert!(place.text("2.csv").contains(",t,9,review\n"));
}

#[test]
fn a_change_of_decision_shows_and_a_row_without_one_is_not_compared() {
    let server = Server::start(level_as_named);
    let input = users::scored(&users::named(["0", "1", "3"]));
    let input = input
        .replace(",review\n", ",block\n")
        .replace(",approve\n", ",block\n");
    let place = Place::with("users.csv", input);
    let done = place
        .run(&server, "users.csv -o scored.csv --changes changes.csv")
        .args(BY_LEVEL)
        .done();
    done.exits(1)
        .says("2 of 2 decisions changed; see changes.csv");
    assert_eq!(place.text("changes.csv").lines().count(), 3);
}

#[test]
fn levels_and_thresholds_are_not_mixed_and_a_level_is_in_one_list_only() {
    let line = CommandLine::new();
    let level = ["--decide-by", "level=/summary/risk_level"];
    let refuses = |arguments: &[&str], words: &[&str]| {
        line.refuses_typed([&level[..], arguments].concat(), words);
    };
    refuses(
        &[],
        &["`--decide-by level` needs the levels", "--approve-levels"],
    );
    refuses(
        &["--approve-levels", "0,low,LOW"],
        &["`--approve-levels` has the level `LOW`, which is listed before"],
    );
    refuses(
        &["--approve-levels", "0", "--block-levels", "2, 0"],
        &["`--block-levels` has the level `0`, which is listed before"],
    );
    refuses(
        &["--review-levels", "1,,2"],
        &["`--review-levels` has an empty level"],
    );
    line.refuses_typed(
        "--review-levels 1",
        &[
            "levels have no effect when decisions are made by the score",
            "--decide-by level",
        ],
    );
    for bad in ["level", "level=", "scores", "risk=/a"] {
        line.refuses_typed(["--decide-by", bad], &["--decide-by", "expected `score`"]);
    }
    line.refuses_typed(
        "--decide-by level=risk_level --approve-levels 0",
        &["`--decide-by level`: `risk_level` is not a JSON pointer"],
    );
}

#[test]
fn a_run_whose_answers_all_lack_the_level_stops_after_a_hundred_and_keeps_them() {
    let server = Server::start(level_as_named);
    let place = Place::with("users.csv", users::csv(300));
    let run = |pointer: &str| {
        let mut by = BY_LEVEL.to_vec();
        by[1] = pointer;
        let run = place.run(&server, "users.csv -o scored.csv -c 4");
        run.args(by.into_iter().map(str::to_owned))
    };
    let done = run("level=/wrong/pointer")
        .args("--summary summary.json")
        .done();
    done.exits(3)
        .says("no row can be decided: none of the first 100 answers has `/wrong/pointer`")
        .says("check the pointer of `--decide-by`; `--keep-going` continues anyway")
        .silent_about("warning: none of");
    let calls = server.calls();
    assert!((100..110).contains(&calls), "{calls}");
    let summary = place.json("summary.json");
    assert_eq!(summary["stopped"], "no_decisions");
    assert_eq!(summary["rows"]["written"], calls);

    // The user insists: the kept answers are used, and there is only the warning.
    let done = run("level=/wrong/pointer").args("--keep-going").done();
    done.exits(1)
        .says("warning: none of the first 100 answers has `/wrong/pointer`");
    assert_eq!(server.calls(), 300);
}

#[test]
fn a_level_that_one_of_the_first_answers_has_does_not_stop_the_run() {
    let server = Server::start(level_as_named);
    let mut names = ["absent"; 150];
    names[40] = "low";
    let place = Place::with("users.csv", users::named(names));
    let done = place.run(&server, "users.csv -o scored.csv");
    done.args(BY_LEVEL).done().exits(1);
    assert_eq!(server.calls(), 150);
}
