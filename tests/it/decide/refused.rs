//! What is refused before anything is written.

use crate::support::process::Place;

const SCORED: &str = "transaction_id,risk_score,decision\nt,1,approve\n";

#[test]
fn the_first_row_of_a_scored_file_without_a_header_is_never_printed() {
    for (row, words) in [
        (
            "1,Ann Lee,ann@example.com,+4930123001,t,1,approve",
            "7 columns (not shown: ",
        ),
        ("Ann Lee,Berlin,t,1,approve", "5 columns (not shown: "),
    ] {
        let place = Place::with("scored.csv", format!("{row}\n"));
        place.write("header.csv", SCORED);
        for arguments in [
            "decide scored.csv --what-if",
            "decide scored.csv -o out.csv",
            "report scored.csv -o out.html",
            "report header.csv --against scored.csv --key decision -o out.html",
        ] {
            let done = place.rescore(arguments).done();
            done.exits(2)
                .says(words)
                .says("hint: if there is no header, add `--no-header`");
            for value in ["Ann", "example", "Berlin"] {
                done.silent_about(value);
            }
        }
        let done = place.rescore("decide scored.csv --what-if --no-header");
        done.done().exits(0);
    }
}

#[test]
fn what_cannot_be_decided_or_would_replace_something_is_refused_and_leaves_nothing() {
    const LEVEL: &str = "--decide-by level=risk_level --approve-levels 0";
    let place = Place::with("scored.csv", SCORED);
    place.write("users.csv", "name,ip\nAnn,::1\n");
    let foreign = "transaction_id,risk_score,decision\nt,1,accepted\n";
    place.write("foreign.csv", foreign);
    // As a spreadsheet saves it where a comma is the decimal sign.
    let comma = "transaction_id;risk_score;decision\nt;2,5;review\n";
    place.write("comma.csv", comma);
    place.write("mine.csv", "mine");
    // The partial file of a run may have rows that were paid for.
    place.write("paid.csv.partial", "rows");
    let names = place.names();
    for (arguments, words) in [
        ("users.csv -o out.csv", "it has no column `transaction_id`"),
        (
            "foreign.csv -o out.csv",
            "row 1 has a value in `decision` that rescore never writes",
        ),
        (
            "comma.csv",
            "decimal comma: rescore writes `2.5`, not `2,5`",
        ),
        ("nothere.csv", "cannot read `nothere.csv`"),
        ("scored.csv --prefix x_", "no column `x_transaction_id`"),
        (
            &format!("scored.csv {LEVEL}"),
            "no column `risk_level` in `scored.csv`",
        ),
        (
            &format!("scored.csv --what-if {LEVEL}"),
            "`--what-if` compares thresholds",
        ),
        ("scored.csv --block-levels 2", "levels have no effect"),
        (
            "scored.csv --approve-max 6",
            "`--approve-max 6` is above `--review-max 5`",
        ),
        (
            "scored.csv -o scored.csv --overwrite",
            "would overwrite the input",
        ),
        (
            "scored.csv --changes ./scored.csv --overwrite",
            "would overwrite the input",
        ),
        (
            "scored.csv -o o.csv --changes o.csv",
            "would be the same file",
        ),
        (
            "scored.csv -o out.jsonl",
            "cannot write CSV to `--output out.jsonl`",
        ),
        ("scored.csv -o mine.csv", "`mine.csv` already exists"),
        (
            "scored.csv -o new.csv --changes mine.csv",
            "`mine.csv` already exists",
        ),
        (
            "scored.csv -o paid.csv",
            "from an unfinished run is in the way",
        ),
        ("scored.csv --json", "--what-if"),
        ("scored.csv --what-if -o x.csv", "cannot be used with"),
        (
            "scored.csv --what-if --changes x.csv",
            "cannot be used with",
        ),
        ("scored.csv --what-if --overwrite", "cannot be used with"),
    ] {
        let done = place.rescore("decide").args(arguments).done();
        done.exits(2).says("error:").says(words);
        done.check(done.stdout.is_empty(), "nothing on standard output");
        assert_eq!(place.names(), names);
    }
    assert_eq!(place.text("mine.csv"), "mine");
    let decide = place.rescore("decide scored.csv -o mine.csv --overwrite");
    decide.done().exits(0);
    assert_eq!(place.text("mine.csv"), SCORED);
}
