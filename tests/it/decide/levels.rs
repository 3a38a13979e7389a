//! Deciding again by a level that the run wrote as a column.

use crate::support::process::Place;

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
        .rescore([
            "decide",
            "scored.csv",
            "-o",
            "out.csv",
            "--decide-by",
            "level=risk_level",
        ])
        .args(LISTS)
        .done();
    done.exits(1)
        .says(
            "approve 2, review 1, block 1\n         undecided 2: no level 1, unknown level `3` 1\n",
        )
        .says("3 of 3 decisions changed");
    let expected = "transaction_id,risk_score,decision,risk_level\n\
        t,9,approve,low\nt,9,approve,\" LOW\"\nt,1,review,1\nt,1,,3\nt,1,,\n,,,\nt,1,block,HIGH\n";
    assert_eq!(place.text("out.csv"), expected);
    let done = place
        .rescore([
            "decide",
            "scored.csv",
            "-q",
            "--decide-by",
            "level=risk_level",
        ])
        .args(LISTS)
        .done();
    done.exits(1)
        .says("warning: 2 of 7 rows have no decision: no level 1, unknown level `3` 1\n");
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
        let out = String::from_utf8(done.stdout).unwrap();
        for (line, decision) in out.lines().zip(codes) {
            assert!(
                line.contains(&format!("\"decision\":{decision},")),
                "{place}: {line}"
            );
        }
    }
    let place = Place::with("scored.csv", "1,Ann,t,9,block\n");
    let done = place
        .rescore([
            "decide",
            "scored.csv",
            "--no-header",
            "--decide-by",
            "level=1",
        ])
        .args(LISTS)
        .done();
    done.exits(0);
    assert_eq!(done.stdout, b"1,Ann,t,9,review\n");
}
