//! Which verdict gets which decision: by thresholds of the score, or by a level that the service gives.

use serde_json::json;

use crate::support::process::Place;
use crate::support::server::{Action, Request, Server, ok};
use crate::support::users;

/// The last cell of every row.
fn decisions(scored: &str) -> Vec<&str> {
    let rows = scored.lines().skip(1);
    rows.map(|line| line.rsplit(',').next().unwrap()).collect()
}

/// A verdict whose score is the user's name.
fn score_as_named(request: &Request) -> Action {
    let score = request.name();
    ok(&format!(
        r#"{{"summary":{{"risk_score":{score}}},"transaction_id":"t"}}"#
    ))
}

#[test]
fn thresholds_are_the_highest_scores_of_their_decision_in_every_notation() {
    let server = Server::start(score_as_named);
    for (arguments, approve, review, block) in [
        (
            "",
            &["-1", "2", "2.000", "20e-1", "0.20000000000000000000E1"][..],
            &["2.00000000000001", "5", "5.0000000000000000000"][..],
            &["5.00000000000001", "1e1"][..],
        ),
        ("--approve-max 3.5", &["3.5"], &["3.51", "5.0"], &["5.01"]),
        ("--approve-max 4 --review-max 4", &["4.0"], &[], &["4.01"]),
        (
            "--approve-max -1 --review-max 0",
            &["-1.0"],
            &["0.0"],
            &["0.1"],
        ),
    ] {
        let csv = users::named([approve, review, block].concat());
        let place = Place::with("users.csv", csv);
        place.score(&server, arguments).exits(0);
        let all = [(approve, "approve"), (review, "review"), (block, "block")];
        let expected: Vec<_> = { all.iter() }
            .flat_map(|(scores, decision)| scores.iter().map(|_| *decision))
            .collect();
        assert_eq!(
            decisions(&place.text("scored.csv")),
            expected,
            "{arguments}"
        );
    }
}

/// A verdict whose level is the user's name, as it stands in the answer.
fn level_as_named(request: &Request) -> Action {
    let (level, nth) = (request.name(), request.nth);
    let level = match &*level {
        "absent" => String::new(),
        "steers" => r#","risk_level":"\u001b[2J""#.to_owned(),
        _ if level.parse::<f64>().is_ok() || level == "null" || level == "true" => {
            format!(r#","risk_level":{level}"#)
        }
        level => format!(r#","risk_level":{}"#, json!(level)),
    };
    ok(&format!(
        r#"{{"summary":{{"risk_score":9{level}}},"transaction_id":"t-{nth}"}}"#
    ))
}

const BY_LEVEL: &str = "-c 1 --decide-by level=/summary/risk_level \
    --approve-levels 0,low --review-levels 1,Medium --block-levels 2,high,true";

#[test]
fn levels_are_decided_by_their_text_and_the_score_does_not_matter() {
    let names = ["0", "low", "LOW", "1", "medium", "2", " high ", "true"];
    let server = Server::start(level_as_named);
    let place = Place::with("users.csv", users::named(names));
    // What was paid for before anybody asked for a level has it all the same.
    place.score(&server, "").exits(0);
    let done = place.score(&server, format!("--overwrite {BY_LEVEL}").as_str());
    done.exits(0);
    assert_eq!(server.calls(), names.len());
    let scored = place.text("scored.csv");
    let expected = [
        "approve", "approve", "approve", "review", "review", "block", "block", "block",
    ];
    assert_eq!(decisions(&scored), expected);
    // The level is no column unless it is asked for.
    assert!(scored.lines().next().unwrap().ends_with("decision"));
    let run = place.run(
        &server,
        "users.csv -o level.csv --column level=/summary/risk_level",
    );
    run.args(BY_LEVEL).exits(0);
    assert!(place.text("level.csv").contains(",9,approve,LOW\n"));
}

#[test]
fn a_level_in_no_list_has_no_decision_and_is_counted_and_never_shown() {
    let names = ["0", "3", "3", "absent", "null", "0.0", "steers"];
    let server = Server::start(level_as_named);
    let place = Place::with("users.csv", users::named(names));
    let run = |more: &str| {
        let run = place.scoring(&server).args(BY_LEVEL).args(more);
        let done = run.exits(1);
        done.silent_about("[2J");
        done
    };
    run("--summary summary.json");
    let summary = place.json("summary.json");
    assert_eq!(
        summary["undecided"],
        json!({"rows": 6, "first": [2, 3, 4, 5, 6]})
    );
    assert_eq!(summary["failed"]["rows"], 0);
    let expected = ["approve", "", "", "", "", "", ""];
    assert_eq!(decisions(&place.text("scored.csv")), expected);
    assert!(!place.path("scored.rejects.csv").exists());
    run("-q --overwrite").says("warning: 6 of 7 rows have no decision: ");
    let json = run("--overwrite --progress json");
    json.says(r#""undecided":{"rows":6,"#);

    // With all levels listed, the same answers bring decisions, and a change shows only where there was one before.
    let listed = BY_LEVEL
        .replace("2,high", "3,0,0.0,\u{1b}[2J")
        .replace("0,low", "low");
    let input = place.run(&server, "scored.csv -o again.csv --changes changes.csv");
    let done = input.args(listed.as_str()).exits(1);
    done.says("block 5");
    assert_eq!(place.text("changes.csv").lines().count(), 2);
    assert_eq!(server.calls(), 7, "nobody is asked twice");

    let lines = ["0", "3"].map(|name| users::object(name) + "\n").concat();
    place.write("users.jsonl", lines);
    let run = place.run(&server, "users.jsonl -o scored.jsonl");
    run.args(BY_LEVEL).exits(1);
    let scored = place.text("scored.jsonl");
    for end in [
        r#""risk_score":9,"decision":"approve"}"#,
        r#""risk_score":9,"decision":null}"#,
    ] {
        assert!(scored.contains(end), "{scored}");
    }
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
    let by = "--decide-by level=/user/email --approve-levels 0 --summary s.json --log run.log";
    let done = place.score(&server, by);
    done.exits(1).silent_about("mail.example");
    for name in ["s.json", "run.log"] {
        assert!(!place.text(name).contains("mail.example"), "{name}");
    }
}

#[test]
fn a_run_whose_first_answers_all_lack_the_level_stops_after_a_hundred_and_keeps_them() {
    let server = Server::start(level_as_named);
    let place = Place::with("users.csv", users::csv(120));
    let run = |more: &str| {
        let wrong = BY_LEVEL.replace("/summary/risk_level", "/wrong/pointer");
        let run = place.scoring(&server).args(wrong.as_str());
        run.args(more).done()
    };
    let done = run("--summary summary.json");
    done.exits(3);
    let calls = server.calls();
    assert!((100..=102).contains(&calls), "{calls}");
    let summary = place.json("summary.json");
    assert_eq!(summary["stopped"], "no_decisions");
    assert_eq!(summary["rows"]["written"], calls);
    // The user insists: the kept answers are used, and there is only the warning.
    let left = 120 - calls;
    run("--keep-going")
        .exits(1)
        .says(&format!("warning: none of the first {left} answers has"));
    assert_eq!(server.calls(), 120);

    // With one call at a time, the one that has it is among the first.
    let mut names = ["absent"; 120];
    names[40] = "low";
    let place = Place::with("users.csv", users::named(names));
    place.score(&server, BY_LEVEL).exits(1);
    assert_eq!(server.calls(), 240);
}
