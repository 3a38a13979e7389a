//! What `rescore report` refuses, and what it leaves behind then: nothing.

use crate::support::process::{Place, device};
use crate::support::server::Server;
use crate::support::users;

fn scored() -> Place {
    let place = Place::with("users.csv", users::csv(5));
    let args = ["--summary", "summary.json"];
    place.score(&Server::good(), args).exits(0);
    place
}

#[test]
fn an_input_that_is_not_there_is_named_before_an_output_that_is() {
    let place = scored();
    for command in ["report", "decide"] {
        let line = format!("{command} nowhere.csv -o scored.csv");
        let done = place.rescore(&*line).done();
        done.exits(2)
            .says("nowhere.csv")
            .silent_about("already exists");
    }
}

#[test]
fn files_that_are_not_what_was_expected_are_refused_with_a_hint() {
    let place = scored();
    place.write("other.json", "{\"rows\":1}");
    place.write("text.json", "hello");
    let six = users::scored(&users::csv(6));
    place.write("six.csv", six);
    place.write("empty.csv", "");
    let cases: [(&[&str], &str); 11] = [
        (
            &["users.csv"],
            "`users.csv` is not a scored file: it has no column `transaction_id`",
        ),
        (&["nowhere.csv"], "nowhere.csv"),
        (
            &["scored.csv", "--by", "country"],
            "no column `country` in `scored.csv`",
        ),
        (
            &["scored.csv", "--by", "/user/email"],
            "hint: did you mean `email`?",
        ),
        (
            &["scored.csv", "--against", "users.csv", "--key", "id"],
            "`users.csv` is not a scored file",
        ),
        (
            &["scored.csv", "--against", "empty.csv", "--key", "id"],
            "`empty.csv` has no rows to compare with",
        ),
        (
            &["scored.csv", "--run", "other.json"],
            "`other.json` is not the summary of a run",
        ),
        (
            &["scored.csv", "--run", "text.json"],
            "hint: `rescore run --summary FILE` writes one",
        ),
        (
            &["scored.csv", "--run", "nowhere.json"],
            "cannot read `nowhere.json`: no such file",
        ),
        (
            &["six.csv", "--run", "summary.json"],
            "`summary.json` is about 5 rows, but `six.csv` has 6",
        ),
        (
            &["scored.csv", "--approve-max", "6"],
            "`--approve-max 6` is above `--review-max 5`",
        ),
    ];
    for (args, words) in cases {
        let done = place.rescore("report -o r.html").args(args).done();
        done.exits(2).says(words);
        assert!(!place.path("r.html").exists() && !place.path("r.html.partial").exists());
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let place = scored();
    let many: Vec<_> = (0..9)
        .flat_map(|number| ["--by".to_owned(), number.to_string()])
        .collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let cases: [(&[&str], &str); 5] = [
        (&["--key", "id"], "--against"),
        (&["--against", "scored.csv"], "--key <COLUMN>"),
        (&many, "`--by` was given 9 times, and 8 are allowed"),
        (&["--against", "-"], "this must be a file and not a stream"),
        (
            &["--format", "jsonl", "--delimiter", ";"],
            "`--delimiter` has no effect",
        ),
    ];
    for (args, words) in cases {
        let done = place
            .rescore("report scored.csv -o r.html")
            .args(args)
            .done();
        done.exits(2).says(words);
    }
}

#[test]
fn nothing_that_exists_is_overwritten_unasked() {
    let place = scored();
    let scored = place.text("scored.csv");
    place.write("r.html", "mine");
    let report = |args: &[&str]| place.rescore("report scored.csv").args(args).done();
    report(&["-o", "r.html"])
        .exits(2)
        .says("hint: `--overwrite` replaces it");
    assert_eq!(place.text("r.html"), "mine");
    report(&["-o", "scored.csv", "--overwrite"])
        .exits(2)
        .says("the report `scored.csv` would overwrite the input");
    report(&["-o", "summary.json", "--overwrite", "--run", "summary.json"])
        .exits(2)
        .says("the report `summary.json` would overwrite the input");
    assert_eq!(place.text("scored.csv"), scored);
    report(&["-o", "r.html", "--overwrite"]).exits(0);
    assert!(place.text("r.html").starts_with("<!DOCTYPE html>"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_with_words_and_without_a_part_of_a_page() {
    let place = scored();
    let done = place
        .rescore("report scored.csv")
        .stdout(device("/dev/full"))
        .done();
    done.exits(3)
        .says("cannot write standard output: no space left on device");
}
