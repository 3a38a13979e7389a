//! What becomes of rows: all bytes stay but those of decisions that change.

use serde_json::json;

use crate::support::process::Place;
use crate::support::server::{Server, status};
use crate::support::users::{self, Verdict};

/// A scored file with everything that must stay as it is, and what `--approve-max 3` makes of it.
const ODD: &str = "\u{feff}id;\"decision\";x;transaction_id;risk_score\r\n\
    1;\"approve\";\"a;b\";t-1;3.00000000000001\r\n\
    \r\n\
    2;;y;;\r\n\
    3;\"review\";\"z\r\nz\";t-3;30e-1\r\n\
    4;block;w;t-4;9\r\n\
    5;\"block\";w;t-5;9.00\r\n\
    6;;w;t-6;0.5\r\n\
    \r\n";
const DECIDED: &str = "\u{feff}id;\"decision\";x;transaction_id;risk_score\r\n\
    1;review;\"a;b\";t-1;3.00000000000001\r\n\
    \r\n\
    2;;y;;\r\n\
    3;approve;\"z\r\nz\";t-3;30e-1\r\n\
    4;block;w;t-4;9\r\n\
    5;\"block\";w;t-5;9.00\r\n\
    6;approve;w;t-6;0.5\r\n\
    \r\n";

#[test]
fn every_byte_stays_but_those_of_decisions_that_change() {
    let place = Place::with("scored.csv", ODD);
    let decide = "decide scored.csv --approve-max 3";
    let done = place
        .rescore(decide)
        .args("-o out.csv --changes changes.csv --summary summary.json")
        .done();
    done.exits(0)
        .says("6 rows decided in ")
        .says("approve 2, review 1, block 2\n         no score and so no decision: 1 row\n")
        .says("approve → review 1, review → approve 1\n")
        .says("2 of 4 decisions changed; see changes.csv\n")
        .says("wrote out.csv");
    assert_eq!(place.text("out.csv"), DECIDED);
    assert_eq!(
        place.text("changes.csv"),
        "\u{feff}change_row;old_decision;old_score;new_decision;new_score;id;\"decision\";x;transaction_id;risk_score\r\n\
         1;approve;3.00000000000001;review;3.00000000000001;1;\"approve\";\"a;b\";t-1;3.00000000000001\r\n\
         3;review;30e-1;approve;30e-1;3;\"review\";\"z\r\nz\";t-3;30e-1\r\n"
    );
    let summary = place.json("summary.json");
    assert_eq!(
        (&summary["type"], &summary["rows"]),
        (&json!("decide"), &json!(6))
    );
    assert_eq!(
        summary["decisions"],
        json!({"approve": 2, "review": 1, "block": 2})
    );
    assert_eq!(
        (&summary["without_verdict"], &summary["exit_code"]),
        (&json!(1), &json!(0))
    );
    let drift = json!({"compared": 4, "changed": 2, "approve": {"approve": 0, "review": 1, "block": 0},
        "review": {"approve": 1, "review": 0, "block": 0}, "block": {"approve": 0, "review": 0, "block": 2}});
    assert_eq!(summary["drift"], drift);
    // As a stream, and what was decided stays decided.
    let streamed = place.rescore(decide).done();
    assert_eq!(streamed.stdout, DECIDED.as_bytes());
    let again = place
        .rescore("decide - --approve-max 3 -q")
        .stdin(DECIDED)
        .done();
    again
        .exits(0)
        .check(again.stderr.is_empty(), "nothing to say");
    assert_eq!(again.stdout, DECIDED.as_bytes());
}

#[test]
fn a_run_and_a_decision_by_other_thresholds_make_the_same_file() {
    let server = Server::start(|request| match &*request.name() {
        "User 7" => status(400),
        _ => crate::support::server::good(request),
    });
    let place = Place::with("users.csv", users::csv(60));
    let other = ["--approve-max", "0.9", "--review-max", "7.25"];
    place.score(&server, "").exits(1);
    place
        .run(&server, "users.csv -o by-run.csv")
        .args(other)
        .done()
        .exits(1);
    let calls = server.calls();
    place
        .rescore("decide scored.csv -o decided.csv")
        .args(other)
        .done()
        .exits(0);
    assert_eq!(place.text("decided.csv"), place.text("by-run.csv"));
    assert_ne!(place.text("decided.csv"), place.text("scored.csv"));
    // And back again.
    place
        .rescore("decide decided.csv -o back.csv")
        .done()
        .exits(0);
    assert_eq!(place.text("back.csv"), place.text("scored.csv"));
    assert_eq!(server.calls(), calls);
    // The same holds for JSONL, for other names and compressed.
    let lines: String = (0..20)
        .map(|n| users::object(&format!("User {n}")) + "\n")
        .collect();
    place.write("users.jsonl", lines);
    let run = |out: &'static str| place.run(&server, ["users.jsonl", "--prefix", "x_", "-o", out]);
    run("scored.jsonl.gz").done().exits_with_one_of(&[0, 1]);
    run("by-run.jsonl")
        .args(other)
        .done()
        .exits_with_one_of(&[0, 1]);
    let decide = "decide scored.jsonl.gz --prefix x_ -o decided.jsonl";
    place.rescore(decide).args(other).done().exits(0);
    assert_eq!(place.text("decided.jsonl"), place.text("by-run.jsonl"));
    let Verdict { id, .. } = Verdict::of("User 3");
    assert!(place.text("decided.jsonl").contains(&id));
}

#[test]
fn json_objects_keep_their_form_and_have_null_where_there_is_no_decision() {
    let lines = "{ \"decision\" : \"approve\" ,\"risk_score\":6.00, \"transaction_id\":\"t\"}\r\n\
        {\"transaction_id\":null,\"risk_score\":null,\"decision\":null}\n\
        {\"transaction_id\":\"t\",\"risk_score\":1,\"decision\":null}";
    let place = Place::with("scored.jsonl", lines);
    let done = place
        .rescore("decide scored.jsonl --changes changes.jsonl")
        .done();
    done.exits(0);
    let expected = lines.replace("\"approve\"", "\"block\"").replace(
        "\"risk_score\":1,\"decision\":null",
        "\"risk_score\":1,\"decision\":\"approve\"",
    );
    assert_eq!(done.printed(), expected);
    let changes = place.text("changes.jsonl");
    assert!(changes.contains("\"change_row\":1,\"old_decision\":\"approve\",\"old_score\":6.00,\"new_decision\":\"block\""), "{changes}");
    assert_eq!(changes.lines().count(), 1);
}

#[test]
fn rows_that_cannot_be_read_stay_as_they_are_and_are_counted() {
    let good = "1,t,1,review\n".repeat(3);
    let text = format!(
        "id,transaction_id,risk_score,decision\n{good}4,t\n{good}8,\"t\"x,1,review\n9,,,block\n"
    );
    let place = Place::with("scored.csv", &text);
    let done = place
        .rescore("decide scored.csv -o out.csv --summary summary.json")
        .done();
    done.exits(1).says(
        "unreadable 3, left as they are: ragged 1, text_after_quote 1, existing_columns 1; rows 4, 8, 9\n",
    );
    assert_eq!(
        place.text("out.csv"),
        text.replace("t,1,review", "t,1,approve")
    );
    let unreadable = json!({"rows": 3, "reasons": {"ragged": 1, "text_after_quote": 1, "existing_columns": 1}, "first": [4, 8, 9]});
    assert_eq!(place.json("summary.json")["unreadable"], unreadable);
    assert_eq!(place.json("summary.json")["exit_code"], 1);
    let done = place.rescore("decide scored.csv -q").done();
    done.exits(1)
        .says("warning: 3 of 9 rows are left as they are: ragged 1, ");
    // More than five are not all named.
    let many = format!("{text}{}", "x\n".repeat(20));
    let done = place.rescore("decide - -q").stdin(many).done();
    done.exits(1)
        .says("ragged 21")
        .says("; rows 4, 8, 9, 10, 11 and 18 more\n");
}

#[test]
fn a_foreign_value_far_into_the_file_stays_as_well() {
    let row = "1,t,1,approve\n";
    let text = format!(
        "id,transaction_id,risk_score,decision\n{}1,t,9,maybe\n{row}",
        row.repeat(200_000)
    );
    let place = Place::with("scored.csv", &text);
    let done = place.rescore("decide scored.csv --approve-max 0.5").done();
    done.exits(1)
        .says("unreadable 1, left as they are: existing_columns 1; row 200,001\n");
    assert_eq!(done.printed(), text.replace("t,1,approve", "t,1,review"));
}
