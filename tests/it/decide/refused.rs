//! What is refused before anything is written.

use crate::support::process::Place;

const SCORED: &str = "transaction_id,risk_score,decision\nt,1,approve\n";

/// Ends with exit code 2 and these words, and leaves no file.
#[track_caller]
fn refuses(place: &Place, arguments: &[&str], words: &[&str]) {
    let before = place.names();
    let done = place.rescore("decide").args(arguments).done();
    done.exits(2).says("error:");
    for words in words {
        done.says(words);
    }
    done.check(done.stdout.is_empty(), "nothing on standard output");
    assert_eq!(place.names(), before);
}

#[test]
fn the_first_row_of_a_scored_file_without_a_header_is_never_printed() {
    let looks = "row 1 of `scored.csv` does not look like a header";
    let not_shown = "5 columns (not shown: ";
    for (row, words) in [
        ("1,Ann Lee,ann@example.com,+4930123001,t,1,approve", looks),
        ("Ann Lee,Berlin,t,1,approve", not_shown),
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
                .says("hint: if there is no header, add `--no-header`")
                .silent_about("Ann")
                .silent_about("example")
                .silent_about("Berlin");
        }
        let done = place.rescore("decide scored.csv --what-if --no-header");
        done.done().exits(0);
    }
}

#[test]
fn what_is_not_a_scored_file_is_refused_and_leaves_nothing() {
    let place = Place::with("users.csv", "name,ip\nAnn,::1\n");
    refuses(
        &place,
        &["users.csv", "-o", "out.csv"],
        &[
            "is not a scored file: it has no column `transaction_id`",
            "columns: name, ip",
        ],
    );
    place.write(
        "foreign.csv",
        "transaction_id,risk_score,decision\nt,1,accepted\n",
    );
    refuses(
        &place,
        &["foreign.csv", "-o", "out.csv", "--changes", "c.csv"],
        &["row 1 has a value in `decision` that rescore never writes"],
    );
    // As a spreadsheet saves it where a comma is the decimal sign.
    place.write(
        "comma.csv",
        "transaction_id;risk_score;decision\nt;2,5;review\n",
    );
    refuses(
        &place,
        &["comma.csv"],
        &[
            "row 1 has a value in `risk_score` that rescore never writes",
            "decimal comma: rescore writes `2.5`, not `2,5`",
        ],
    );
    refuses(&place, &["nothere.csv"], &["cannot read `nothere.csv`"]);
    place.write("scored.csv", SCORED);
    refuses(
        &place,
        &["scored.csv", "--prefix", "x_"],
        &["no column `x_transaction_id`", "--prefix"],
    );
    let level = ["--decide-by", "level=risk_level", "--approve-levels", "0"];
    refuses(
        &place,
        &[&["scored.csv"], &level[..]].concat(),
        &["no column `risk_level` in `scored.csv`"],
    );
    refuses(
        &place,
        &[&["scored.csv", "--what-if"], &level[..]].concat(),
        &["`--what-if` compares thresholds"],
    );
}

#[test]
fn the_input_and_files_that_exist_are_not_replaced() {
    let place = Place::with("scored.csv", SCORED);
    refuses(
        &place,
        &["scored.csv", "-o", "scored.csv", "--overwrite"],
        &["the output `scored.csv` would overwrite the input"],
    );
    refuses(
        &place,
        &["scored.csv", "--changes", "./scored.csv", "--overwrite"],
        &["the changes `./scored.csv` would overwrite the input"],
    );
    refuses(
        &place,
        &["scored.csv", "-o", "o.csv", "--changes", "o.csv"],
        &["would be the same file"],
    );
    refuses(
        &place,
        &["scored.csv", "-o", "out.jsonl"],
        &["cannot write CSV to `--output out.jsonl`"],
    );
    place.write("out.csv", "mine");
    refuses(
        &place,
        &["scored.csv", "-o", "out.csv"],
        &["`out.csv` already exists", "--overwrite"],
    );
    refuses(
        &place,
        &["scored.csv", "-o", "new.csv", "--changes", "out.csv"],
        &["`out.csv` already exists"],
    );
    assert_eq!(place.text("out.csv"), "mine");
    // The partial file of a run may have rows that were paid for.
    place.write("paid.csv.partial", "rows");
    refuses(
        &place,
        &["scored.csv", "-o", "paid.csv"],
        &["from an unfinished run is in the way"],
    );
    place
        .rescore("decide scored.csv -o out.csv --overwrite")
        .done()
        .exits(0);
    assert_eq!(place.text("out.csv"), SCORED);
}

#[test]
fn options_that_would_have_no_effect_are_refused() {
    let place = Place::with("scored.csv", SCORED);
    refuses(&place, &["scored.csv", "--json"], &["--what-if"]);
    let with_rows = ["scored.csv", "--json", "-o", "out.csv"];
    refuses(&place, &with_rows, &["--json", "--output"]);
    for option in [
        &["-o", "x.csv"][..],
        &["--changes", "x.csv"],
        &["--summary", "x.json"],
        &["--overwrite"],
    ] {
        refuses(
            &place,
            &[&["scored.csv", "--what-if"], option].concat(),
            &["--what-if", "cannot be used with"],
        );
    }
    refuses(
        &place,
        &["scored.csv", "--approve-max", "6"],
        &["`--approve-max 6` is above `--review-max 5`"],
    );
    refuses(
        &place,
        &["scored.csv", "--block-levels", "2"],
        &["levels have no effect", "`--decide-by level=COLUMN`"],
    );
}
