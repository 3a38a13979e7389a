//! Deciding again by a level that the run wrote as a column.

use crate::support::process::Place;
use crate::support::server::{Server, ok};
use crate::support::users;

const LISTS: [&str; 6] = [
    "--approve-levels",
    "0,Low",
    "--review-levels",
    "1",
    "--block-levels",
    "2,high",
];

#[test]
fn levels_in_a_column_decide_and_one_in_no_list_empties_the_decision() {
    let scored = "transaction_id,risk_score,decision,risk_level\n\
        t,9,block,low\nt,9,block,\" LOW\"\nt,1,,1\nt,1,approve,3\nt,1,approve,\n,,,\nt,1,review,HIGH\n";
    let place = Place::with("scored.csv", scored);
    let done = place
        .rescore("decide scored.csv -o out.csv --decide-by level=risk_level")
        .args(LISTS)
        .done();
    done.exits(1)
        .says(
            "approve 2, review 1, block 1\n         undecided 2: the level at `risk_level` is in no list in rows 4, 5\n",
        )
        .says("3 of 3 decisions changed");
    let expected = "transaction_id,risk_score,decision,risk_level\n\
        t,9,approve,low\nt,9,approve,\" LOW\"\nt,1,review,1\nt,1,,3\nt,1,,\n,,,\nt,1,block,HIGH\n";
    assert_eq!(place.text("out.csv"), expected);
    let done = place
        .rescore("decide scored.csv -q --decide-by level=risk_level")
        .args(LISTS)
        .done();
    done.exits(1)
        .says("warning: 2 of 7 rows have no decision: the level at `risk_level` is in no list in rows 4, 5\n");
}

#[test]
fn a_level_may_be_a_member_a_pointer_or_a_column_number() {
    let lines = "{\"transaction_id\":\"t\",\"risk_score\":9,\"decision\":\"block\",\"a\":{\"b\":0},\"c\":\"High\"}\n\
        {\"transaction_id\":\"t\",\"risk_score\":9,\"decision\":\"block\",\"a\":{\"b\":7}}\n";
    for (place, codes) in [
        ("level=/a/b", ["\"approve\"", "null"]),
        ("level=c", ["\"block\"", "null"]),
    ] {
        let directory = Place::with("scored.jsonl", lines);
        let done = directory
            .rescore(["decide", "scored.jsonl", "--decide-by", place])
            .args(LISTS)
            .done();
        done.exits(1);
        let out = done.printed();
        for (line, decision) in out.lines().zip(codes) {
            assert!(
                line.contains(&format!("\"decision\":{decision},")),
                "{place}: {line}"
            );
        }
    }
    let place = Place::with("scored.csv", "1,Ann,t,9,block\n");
    let done = place
        .rescore("decide scored.csv --no-header --decide-by level=1")
        .args(LISTS)
        .done();
    done.exits(0);
    assert_eq!(done.stdout, b"1,Ann,t,9,review\n");
}

#[test]
fn a_level_that_a_run_wrote_with_a_quote_before_it_is_read_as_the_service_gave_it() {
    let levels = ["-1", "+low", "=x", "'quoted", "1"];
    let server = Server::start(|request| {
        ok(&format!(
            r#"{{"summary":{{"risk_score":1}},"transaction_id":"t","level":{}}}"#,
            serde_json::json!(request.name())
        ))
    });
    let place = Place::with("users.csv", users::named(levels));
    let done = place.score(&server, "--column level=/level");
    done.exits(0);
    let scored = place.text("scored.csv");
    assert!(scored.contains(",approve,'-1\n"), "{scored}");
    assert!(scored.contains(",approve,'=x\n"), "{scored}");
    // Once as the service gave them, and once as they stand in the file.
    for lists in [["-1,+low,1", "'quoted"], ["'-1,'+low,1", "'quoted"]] {
        let done = place
            .rescore("decide scored.csv --decide-by level=level")
            .args([
                format!("--block-levels={}", lists[0]),
                format!("--approve-levels={}", lists[1]),
            ])
            .done();
        done.exits(1)
            .says("approve 1, block 3")
            .says("undecided 1: the level at `");
    }
}
