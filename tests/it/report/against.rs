//! What has changed since an earlier file, or since the verdicts that rows had before.

use super::html::{has, words};
use crate::support::process::{Done, Place};

const HEADER: &str = "id,note,transaction_id,risk_score,decision\n";

/// Six users: one is gone and one new in the later file, one has two earlier verdicts, and all stand elsewhere.
const EARLIER: &str = "a,x,t,1.0,approve\nb,x,t,4.0,review\nc,x,t,8.0,block\nd,x,t,1.0,approve\n\
                       e,x,t,1.0,approve\ne,x,t,9.0,block\nf,x,,,\ngone,x,t,2,approve\n";
const LATER: &str = "f,x,t,1.0,approve\ne,x,t,1.0,approve\nd,x,t,9.0,block\nnew,x,t,3.0,review\n\
                     c,x,t,8.0,block\nb,x,t,1.5,approve\na,x,t,1.0,approve\n";

fn place() -> Place {
    let place = Place::with("scored.csv", format!("{HEADER}{LATER}"));
    place.write("earlier.csv", format!("{HEADER}{EARLIER}"));
    place
}

fn page(done: &Done) -> String {
    done.exits(0);
    done.printed()
}

#[test]
fn rows_are_found_in_an_earlier_file_wherever_they_stand() {
    let place = place();
    let args = "report scored.csv --against earlier.csv --key ID";
    let drift = words(&page(&place.rescore(args).done()), "drift");
    has(
        &drift,
        &[
            "Compared with earlier.csv: 2 of 4 decisions changed (50.0 %).",
            "Rows are paired by the column ID : 5 rows in both files, 1 only in this one, 1 only in the earlier one.",
            "1 row not compared: several rows of the earlier file match, with different verdicts",
            "approve 1 25.0 % 0 0 % 1 25.0 %",
            "review 1 25.0 % 0 0 % 0 0 %",
            "block 0 0 % 0 0 % 1 25.0 %",
            "Of 4 scores, 1 rose (riskier), 1 fell, and 2 (50.0 %) stayed",
        ],
    );
}

#[test]
fn a_key_must_be_a_column_and_pair_some_rows() {
    let place = place();
    let args = "report scored.csv --against earlier.csv";
    let refused = |key: &str, words: &str| {
        let done = place.rescore(args).args(["--key", key]).done();
        done.exits(2).says(words);
    };
    refused("nothing", "no column `nothing`");
    place.write("scored.csv", format!("{HEADER}other,x,t,1.0,approve\n"));
    refused(
        "id",
        "no row of `scored.csv` is in `earlier.csv`, by the column `id`",
    );
}

#[test]
fn formats_may_differ_when_rows_are_paired_by_a_key() {
    let place = place();
    let line = |id: &str| {
        format!(r#"{{"id":"{id}","transaction_id":"t","risk_score":9.5,"decision":"block"}}"#)
    };
    place.write("earlier.jsonl", ["a", "b"].map(line).join("\n"));
    let args = "report scored.csv --against earlier.jsonl --key id";
    let page = page(&place.rescore(args).done());
    has(
        &words(&page, "drift"),
        &["2 of 2 decisions changed (100 %)"],
    );
}
