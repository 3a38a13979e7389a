//! `--what-if`: what other thresholds would do, from one pass.

use serde_json::{Value, json};

use crate::support::process::Place;
use crate::support::users;

fn pairs(place: &Place, arguments: &[&str]) -> Value {
    let done = place
        .rescore("decide scored.csv --what-if --json")
        .args(arguments)
        .exits(0);
    done.check(done.stderr.is_empty(), "all is on standard output");
    done.json()
}

#[test]
fn every_pair_has_the_numbers_that_deciding_by_it_brings() {
    let place = Place::with(
        "scored.csv",
        users::scored_without(&users::csv(300), |name| name == "User 9"),
    );
    let all = pairs(&place, &["--approve-max", "2.25"]);
    assert_eq!(
        (&all["rows"], &all["scores"], &all["without_verdict"]),
        (&json!(300), &json!(299), &json!(1))
    );
    let list = all["pairs"].as_array().unwrap();
    assert_eq!(list.len(), 22 * 23 / 2);
    let today: Vec<_> = list.iter().filter(|pair| pair["today"] == true).collect();
    assert_eq!(today, [&all["today"]]);
    assert_eq!(
        (&today[0]["approve_max"], &today[0]["review_max"]),
        (&json!("2.25"), &json!("5"))
    );
    for pair in list.iter().step_by(17).chain(today) {
        let arguments = [
            "--approve-max",
            pair["approve_max"].as_str().unwrap(),
            "--review-max",
            pair["review_max"].as_str().unwrap(),
        ];
        let decide = "decide scored.csv -o out.csv --overwrite --summary summary.json";
        place.rescore(decide).args(arguments).exits(0);
        let summary = place.json("summary.json");
        for decision in ["approve", "review", "block"] {
            assert_eq!(
                pair[decision], summary["decisions"][decision],
                "{arguments:?}"
            );
        }
    }
}

#[test]
fn a_table_of_at_most_80_columns_marks_the_thresholds_of_today() {
    let scores = "0.5 2 2.00000000000001 5 5.01 11 -1 9.9";
    let rows = scores.split(' ').map(|score| format!("t,{score},\n"));
    let csv = format!(
        "transaction_id,risk_score,decision\n{}t\n",
        rows.collect::<String>()
    );
    let place = Place::with("scored.csv", csv);
    let done = place.rescore("decide scored.csv --what-if").exits(1);
    done.prints("scored.csv: 9 rows, 8 with a score\nunreadable 1, not counted: ragged 1; row 9\n")
        .prints("\n  approve 3 (37.5%), review 2 (25.0%), block 3 (37.5%)\n")
        .prints(
            "\n threshold  would approve    would block\n         0      1 (12.5%)      7 (87.5%)\n",
        )
        .prints("\n   today 2      3 (37.5%)      5 (62.5%)\n")
        .prints("\n   today 5      5 (62.5%)      3 (37.5%)\n");
    let text = done.printed();
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert_eq!(place.names(), ["scored.csv"]);
}
