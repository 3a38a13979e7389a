//! `--what-if`: what other thresholds would do, from one pass.

use serde_json::{Value, json};

use crate::support::process::Place;
use crate::support::users;

fn pairs(place: &Place, arguments: &[&str]) -> Value {
    let done = place
        .rescore("decide scored.csv --what-if --json")
        .args(arguments)
        .done();
    done.exits(0)
        .check(done.stderr.is_empty(), "all is on standard output");
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
        place.rescore(decide).args(arguments).done().exits(0);
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
    let scores = [
        "0.5",
        "2",
        "2.00000000000001",
        "5",
        "5.01",
        "11",
        "-1",
        "9.9",
    ];
    let rows: String = scores.iter().map(|score| format!("t,{score},\n")).collect();
    let place = Place::with(
        "scored.csv",
        format!("transaction_id,risk_score,decision\n{rows}"),
    );
    let done = place.rescore("decide scored.csv --what-if").done();
    done.exits(0)
        .check(done.stderr.is_empty(), "all is on standard output");
    let text = done.printed();
    insta::assert_snapshot!(text, @r"
    scored.csv: 8 rows, 8 with a score
    today, with --approve-max 2 and --review-max 5:
      approve 3 (37.5 %), review 2 (25.0 %), block 3 (37.5 %)

    threshold   as --approve-max   as --review-max
                would approve      would block
            0   1   12.5 %         7   87.5 %
          0.5   2   25.0 %         6   75.0 %
            1   2   25.0 %         6   75.0 %
          1.5   2   25.0 %         6   75.0 %
            2   3   37.5 %         5   62.5 %  < --approve-max today
          2.5   4   50.0 %         4   50.0 %
            3   4   50.0 %         4   50.0 %
          3.5   4   50.0 %         4   50.0 %
            4   4   50.0 %         4   50.0 %
          4.5   4   50.0 %         4   50.0 %
            5   5   62.5 %         3   37.5 %  < --review-max today
          5.5   6   75.0 %         2   25.0 %
            6   6   75.0 %         2   25.0 %
          6.5   6   75.0 %         2   25.0 %
            7   6   75.0 %         2   25.0 %
          7.5   6   75.0 %         2   25.0 %
            8   6   75.0 %         2   25.0 %
          8.5   6   75.0 %         2   25.0 %
            9   6   75.0 %         2   25.0 %
          9.5   6   75.0 %         2   25.0 %
           10   7   87.5 %         1   12.5 %
    what neither threshold takes is left for review; `--json` has every pair
    ");
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    assert_eq!(place.names(), ["scored.csv"]);
}

#[test]
fn what_cannot_be_read_is_not_counted_and_no_rows_are_no_table() {
    let text = "transaction_id,risk_score,decision\nt,1,approve\nt\n";
    let done = Place::new().rescore("decide --what-if").stdin(text).done();
    done.exits(1);
    let printed = done.printed();
    assert!(
        printed.starts_with(
            "standard input: 2 rows, 1 with a score\nunreadable 1, not counted: ragged 1; row 2\n"
        ),
        "{printed}"
    );
    let done = Place::new()
        .rescore("decide --what-if")
        .stdin("transaction_id,risk_score,decision\n")
        .done();
    done.exits(0);
    assert_eq!(done.printed().lines().count(), 3);
}
