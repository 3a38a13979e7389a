//! What becomes of rows: all bytes stay but those of decisions that change, by thresholds or by levels in a column.

use serde_json::json;

use crate::support::process::Place;
use crate::support::server::{Server, ok, status};
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
        .exits(0);
    done.says("approve 2, review 1, block 2\n         no score and so no decision: 1 row\n")
        .says("approve → review 1, review → approve 1\n")
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
        .exits(0);
    again.check(again.stderr.is_empty(), "nothing to say");
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
        .exits(1);
    let calls = server.calls();
    place
        .rescore("decide scored.csv -o decided.csv")
        .args(other)
        .exits(0);
    assert_eq!(place.text("decided.csv"), place.text("by-run.csv"));
    assert_ne!(place.text("decided.csv"), place.text("scored.csv"));
    // And back again.
    place.rescore("decide decided.csv -o back.csv").exits(0);
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
    place.rescore(decide).args(other).exits(0);
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
        .exits(0);
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
        .exits(1);
    done
        .says("unreadable 3, left as they are: ragged 1, text_after_quote 1, existing_columns 1; rows 4, 8, 9\n");
    let decided = text.replace("t,1,review", "t,1,approve");
    assert_eq!(place.text("out.csv"), decided);
    let summary = place.json("summary.json");
    assert_eq!(summary["unreadable"]["first"], json!([4, 8, 9]));
    assert_eq!(summary["exit_code"], 1);
    let done = place.rescore("decide scored.csv -q").exits(1);
    done.says("warning: unreadable 3, left as they are: ragged 1, ");
}

const LISTS: &str = "--approve-levels 0,Low --review-levels 1 --block-levels 2,high";

#[test]
fn levels_in_a_column_decide_and_one_in_no_list_empties_the_decision() {
    let scored = "transaction_id,risk_score,decision,risk_level\n\
        t,9,block,low\nt,9,block,\" LOW\"\nt,1,,1\nt,1,approve,3\nt,1,approve,\n,,,\nt,1,review,HIGH\n";
    let place = Place::with("scored.csv", scored);
    let decide = place.rescore("decide scored.csv -o out.csv --decide-by level=risk_level");
    decide.args(LISTS).exits(1);
    let expected = "transaction_id,risk_score,decision,risk_level\n\
        t,9,approve,low\nt,9,approve,\" LOW\"\nt,1,review,1\nt,1,,3\nt,1,,\n,,,\nt,1,block,HIGH\n";
    assert_eq!(place.text("out.csv"), expected);
}

#[test]
fn a_level_may_be_a_member_a_pointer_or_a_column_number() {
    let scored =
        r#"{"transaction_id":"t","risk_score":9,"decision":"block","a":{"b":0},"c":"High"}"#;
    let place = Place::with("scored.jsonl", scored);
    place.write("scored.csv", "1,Ann,t,9,block\n");
    for (args, decided) in [
        (
            "scored.jsonl --decide-by level=/a/b",
            "\"decision\":\"approve\",",
        ),
        (
            "scored.jsonl --decide-by level=c",
            "\"decision\":\"block\",",
        ),
        (
            "scored.csv --no-header --decide-by level=1",
            "1,Ann,t,9,review\n",
        ),
    ] {
        let done = place.rescore("decide").args(args).args(LISTS).exits(0);
        done.prints(decided);
    }
}

#[test]
fn a_level_that_a_run_wrote_with_a_quote_before_it_is_read_as_the_service_gave_it() {
    let server = Server::start(|request| {
        let level = json!(request.name());
        ok(&format!(
            r#"{{"summary":{{"risk_score":1}},"transaction_id":"t","level":{level}}}"#
        ))
    });
    let levels = ["-1", "+low", "=x", "'quoted", "1"];
    let place = Place::with("users.csv", users::named(levels));
    place.score(&server, "--column level=/level").exits(0);
    let scored = place.text("scored.csv");
    for quoted in [",approve,'-1\n", ",approve,'=x\n"] {
        assert!(scored.contains(quoted), "{scored}");
    }
    // Once as the service gave them, and once as they stand in the file.
    for lists in [
        "--block-levels=-1,+low,1 --approve-levels='quoted",
        "--block-levels='-1,'+low,1 --approve-levels='quoted",
    ] {
        let decide = place.rescore("decide scored.csv --decide-by level=level");
        let done = decide.args(lists).exits(1);
        done.says("undecided 1: the level at `");
    }
}
