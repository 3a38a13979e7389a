//! A check of several files: together they are one run with `--output-dir`.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;

use super::agreement::{agree, command};
use crate::support::process::Place;
use crate::support::stand_in::StandIn;

/// A file of the users from this number up to that one, and a row without a name.
fn part(from: usize, to: usize, email: &str) -> String {
    let row = |user| format!("User {user},user{user}@example.com,192.0.2.1,curl/8\n");
    let rows: String = (from..=to).map(row).collect();
    format!("name,{email},ip,user_agent\n{rows},nobody@example.com,192.0.2.1,curl/8\n")
}

/// Two files that share user 4, of which the second has another header.
fn parts() -> Place {
    let place = Place::new();
    fs::create_dir(place.path("parts")).unwrap();
    place.write("parts/a.csv", part(1, 4, "email"));
    place.write("parts/b.csv", part(4, 9, "E-mail"));
    place
}

#[test]
fn the_numbers_are_those_of_a_run_over_all_of_them() {
    let place = parts();
    let stand_in_place = Place::new();
    let stand_in = StandIn::start(&stand_in_place, "");
    let run = ["--output-dir", "scored"];
    let said = agree(&place, &stand_in, &[], &["parts/*.csv"], &run);
    assert_eq!(
        (&said["calls"], &said["duplicates"]),
        (&json!(9), &json!(1))
    );
    assert_eq!(
        said["rows"],
        json!({"read": 12, "sendable": 10, "unsendable": 2, "dropped": 0})
    );
    let second = &said["files"][1];
    assert_eq!(second["input"], "parts/b.csv");
    assert_eq!(
        second["rows"],
        json!({"read": 7, "sendable": 6, "unsendable": 1, "dropped": 0})
    );
    assert_eq!(second["unsendable"]["missing_name"]["first"], json!([7]));
}

#[test]
fn each_has_a_line_and_one_that_cannot_be_used_stops_no_other() {
    let place = parts();
    place.write("parts/c.csv", "a,b\n1,2\n");
    place.write("parts/d.csv", part(1, 2, "E-mail"));
    let words = [
        "check",
        "parts/d.csv",
        "parts/b.csv",
        "parts/a.csv",
        "parts/c.csv",
        "-q",
    ];
    let done = place.rescore(words).done();
    done.exits(2)
        .says("error: no column for `name`, for `email` or `phone`");
    assert_snapshot!(done.printed(), @r"
    4 files: 15 rows
      parts/a.csv: 5 rows, 1 cannot be sent
        name ← `name`, email ← `email`, phone not sent, ip ← `ip`, user_agent ← `user_agent`
        missing_name  1  row 5; may help: `--map`
      parts/b.csv: 7 rows, 1 cannot be sent
        name ← `name`, email ← `E-mail`, phone not sent, ip ← `ip`, user_agent ← `user_agent`
        missing_name  1  row 7; may help: `--map`
      parts/c.csv: cannot be used
      parts/d.csv: 3 rows, 1 cannot be sent
        missing_name  1  row 3; may help: `--map`

    can be sent       12
    cannot be sent     3
    paid for already   0  `rescore.ledger` does not exist yet
    duplicates         3  repeat an earlier row
    calls to make      9
    ");
    let json = place.rescore(words).args(["--json"]).done().json();
    let error = &json["files"][2]["error"];
    let error = error.as_str().unwrap();
    assert!(error.starts_with("no column for `name`"), "{error}");
}

#[test]
fn what_a_run_over_several_files_refuses_a_check_refuses() {
    let place = parts();
    for (words, expected) in [
        (&["-"][..], "standard input cannot be one of several"),
        (&["none/*.csv"], "no file matches `none/*.csv`"),
        (&["parts"], "`parts` is a directory"),
    ] {
        let check = [&["check", "parts/*.csv"], words].concat();
        let done = command(&place, "https://never.example.com", &check).done();
        done.exits(2).says(expected);
        done.check(done.stdout.is_empty(), "no result");
    }
    assert_eq!(place.names(), ["parts"]);
    // A pattern for one file is that file.
    let one = ["check", "parts/a*", "--limit", "2"];
    place.rescore(one).done().exits(0);
}
