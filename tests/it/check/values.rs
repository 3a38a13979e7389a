//! What a check says of a file's rows before anything is paid: odd values, which it only counts, and rows that were cut.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};

use crate::support::process::Place;
use crate::support::users;

const HEADER: &str = "name,email,ip,user_agent\n";

/// What is found in the values of a file: kind, rows and first row.
fn found(place: &Place, file: &str) -> Value {
    let done = place.rescore("check --json").args(file).done();
    done.exits_with_one_of(&[0, 1]);
    let said = done.json();
    said["files"][0]["quality"].clone()
}

#[test]
fn the_samples_are_good_enough() {
    for name in ["users.csv", "users.jsonl", "last-month.csv", "messy.csv"] {
        let sample = format!("{}/samples/{name}", env!("CARGO_MANIFEST_DIR"));
        let place = Place::with(name, std::fs::read(sample).unwrap());
        let done = place.rescore(["check", name]).done();
        done.exits_with_one_of(&[0, 1]).silent_about("warning");
        assert_eq!(found(&place, name), json!([]), "{name}");
    }
}

#[test]
fn odd_values_are_counted_and_refuse_nothing() {
    let mut rows = HEADER.to_owned();
    for row in 1..=2000 {
        let name = match row {
            7 => "#REF!".to_owned(),
            8 => "S\u{fffd}bastien L".to_owned(),
            9 => "J\u{c3}\u{bc}rgen M".to_owned(),
            row => format!("User {row}"),
        };
        let ip = match row % 4 {
            0 => format!("198.51.100.{}", row % 250),
            _ => "10.0.0.7".to_owned(),
        };
        let agent = if row > 1900 { "-" } else { "Mozilla/5.0 (X11)" };
        writeln!(rows, "{name},u{row}@example.com,{ip},{agent}").unwrap();
    }
    let place = Place::with("users.csv", &rows);
    let found_in = |options: &str| found(&place, &format!("users.csv {options}"));
    let all = json!([
        {"kind": "null_word", "rows": 101, "first_row": 7},
        {"kind": "lost_character", "rows": 1, "first_row": 8},
        {"kind": "encoded_twice", "rows": 1, "first_row": 9},
        {"kind": "private_address", "rows": 1500, "first_row": 1},
        {"kind": "frequent_user_agent", "rows": 1900, "first_row": 1},
    ]);
    assert_eq!(found_in(""), all);
    // All rows tell more of a file than a sample. Rows that are not sent tell nothing.
    assert_eq!(found_in("--sample 1%"), all);
    let one = json!([{"kind": "lost_character", "rows": 1, "first_row": 8}]);
    assert_eq!(found_in("--only email=u8@example.com"), one);
    assert_eq!(found_in("--limit 7 --null #REF!"), json!([]));
}

/// Files that end early, and what is said of them, or none for one that is complete.
fn endings() -> Vec<(&'static str, String, Option<&'static str>)> {
    let csv = users::csv(3);
    let lines = |last: &str| format!("{csv}{last}");
    let object = users::object("A");
    let objects = |last: &str| format!("{object}\n{object}\n{last}");
    let (half, _) = object.split_at(object.len() / 2);
    let cut = "the last line of `FILE` is cut off: ";
    vec![
        ("a.csv", lines("9,Jo"), Some(cut)),
        ("a.csv", lines("9"), Some(cut)),
        ("a.csv", lines("9,\"Jo\"\"\r\nDoe\""), Some(cut)),
        ("a.csv", lines("9,\"Jo"), Some("is never closed")),
        ("a.csv", csv.clone(), None),
        ("a.csv", csv.trim_end().to_owned(), None),
        ("a.csv", lines("9,Jo\n"), None),
        ("a.csv", lines("9,Jo,jo@x.org,::1,u,more"), None),
        ("a.csv", lines("9,Jo\n10,Bo,b@x.org,::1,u"), None),
        ("a.csv", csv.lines().next().unwrap().to_owned(), None),
        ("a.csv", lines("\u{1a}"), None),
        ("a.jsonl", objects(half), Some(cut)),
        ("a.jsonl", objects("{"), Some(cut)),
        ("a.jsonl", objects(&object), None),
        ("a.jsonl", objects(&format!("{half}\n")), None),
        ("a.jsonl", objects("[1]"), None),
        ("a.jsonl", objects("no json"), None),
    ]
}

#[test]
fn a_file_that_was_cut_or_still_grows_is_refused_unless_the_run_is_to_keep_going() {
    for (name, content, expected) in endings() {
        let place = Place::with(name, &content);
        // It is never an accepted failure, nor missing in a sample.
        let options = "--accept-failures 100% --sample 1%";
        let done = place.rescore(["check", name]).args(options).done();
        match expected {
            Some(words) => done.exits(2).says(&words.replace("FILE", name)),
            None => done.exits_with_one_of(&[0, 1]).silent_about("error"),
        };
        done.silent_about("Jo");
        if expected.is_some_and(|words| !words.contains("closed")) {
            place.rescore(["check", name, "--keep-going"]).exits(1);
            // What is read from a pipe is paid for by then, and the row fails.
            let done = Place::new().rescore("check").stdin(content).exits(1);
            done.silent_about("is cut");
        }
    }
}

#[test]
fn a_compressed_file_that_was_cut_before_it_was_compressed_is_refused() {
    for (last, code) in [("9,Jo", 2), ("9,Jo,j@x.org,::1,u", 0)] {
        let text = users::csv(3) + last;
        let mut gz = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        let zst = zstd::encode_all(text.as_bytes(), 0).unwrap();
        for (name, bytes) in [("a.csv.gz", gz.finish().unwrap()), ("a.csv.zst", zst)] {
            let place = Place::with(name, bytes);
            place.rescore(["check", name]).exits(code);
        }
    }
}
