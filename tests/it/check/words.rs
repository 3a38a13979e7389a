//! What a check says to people, and what it needs for it.

use insta::assert_snapshot;

use crate::support::process::{Place, clean};
use crate::support::users;

fn sample(name: &str) -> Vec<u8> {
    let path = format!("{}/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).unwrap()
}

#[track_caller]
fn said(place: &Place, words: &[&str], code: i32) -> String {
    let done = place.rescore("check").args(words).done();
    done.exits(code);
    done.printed()
}

#[test]
fn the_sample_needs_no_setting_and_no_key() {
    let place = Place::with("users.csv", sample("users.csv"));
    assert_snapshot!(said(&place, &["users.csv"], 0), @r"
    users.csv: 200 rows
      name ← `name`, email ← `email`, phone ← `phone`, ip ← `ip`, user_agent ← `user_agent`

    can be sent       200
    cannot be sent      0
    paid for already    0  `rescore.ledger` does not exist yet
    duplicates          6  repeat an earlier row
    calls to make     194
    ");
    assert_eq!(place.names(), ["users.csv"]);
}

#[test]
fn what_is_wrong_with_rows_comes_with_what_helps() {
    let place = Place::with("messy.csv", sample("messy.csv"));
    let words = ["messy.csv", "--price", "0.004 EUR"];
    assert_snapshot!(said(&place, &words, 1), @r"
    messy.csv: 39 rows, 11 cannot be sent
      name ← `Full Name`, email ← `E-mail`, phone ← `Phone Number`, ip ← `IP Address`, user_agent ← `User Agent`
      ragged              2  rows 8, 31
      text_after_quote    1  row 26
      not_utf8            1  row 28; may help: `--encoding`
      missing_ip          1  row 10; may help: `--map`
      missing_user_agent  1  row 23; may help: `--map`, `--default`
      missing_contact     1  row 21; may help: `--map`
      invalid_ip          1  row 4
      invalid_email       2  rows 13, 16; may help: `--invalid`
      invalid_phone       1  row 18; may help: `--phone-region`, `--invalid`

    can be sent       28
    cannot be sent    11
    paid for already   0  `rescore.ledger` does not exist yet
    duplicates         0  repeat an earlier row
    calls to make     28

    cost: 0.112 EUR at 0.004 EUR a call; retries may cost more
    ");
}

#[test]
fn a_file_without_rows_is_a_check_of_no_rows() {
    let place = Place::with("users.csv", users::csv(0));
    let done = place.rescore("check users.csv").done();
    done.exits(0).says("has no rows");
    place.write("users.csv", "");
    place
        .rescore("check users.csv")
        .done()
        .exits(0)
        .says("has no rows");
}

#[test]
fn what_keeps_a_run_from_starting_keeps_a_check_from_starting() {
    let place = Place::with("users.csv", "a,b\n1,2\n");
    for (words, expected) in [
        (&["users.csv"][..], "no column for `name`"),
        (&["nowhere.csv"], "cannot read `nowhere.csv`"),
        (&["users.csv", "--price", "EUR"], "--price"),
        (&["users.csv", "--max-age", "7"], "--max-age"),
        (
            &["users.csv", "--plan", "free", "--advanced"],
            "for the paid plan only",
        ),
        (&["users.csv", "--rate", "fast"], "expected a rate"),
        (&["users.csv", "--retries", "many"], "--retries"),
        (
            &["users.csv", "-o", "x.csv", "--output-dir", "x"],
            "cannot be used with",
        ),
    ] {
        let done = place.rescore("check").args(words).done();
        done.exits(2).says(expected);
        done.check(done.stdout.is_empty(), "no result");
    }
    assert_eq!(place.names(), ["users.csv"]);
}

#[test]
fn a_number_in_jsonl_that_must_be_text_comes_with_what_helps() {
    let row = r#"{"name":"Ann","phone":4930123456,"ip":"::1","user_agent":"curl/8"}"#;
    let place = Place::with("users.jsonl", format!("{row}\n").repeat(100));
    let hint = "a number must be in quotes, and a phone number needs its `+`";
    place
        .rescore("check users.jsonl")
        .done()
        .exits(2)
        .says(hint);
    let run = "run users.jsonl --sandbox -o scored.jsonl";
    place.rescore(run).done().exits(2).says(hint);
}

#[test]
fn nothing_from_a_file_steers_the_terminal() {
    let name = "a\u{1b}[2J\u{202e}.csv";
    let place = Place::with(
        name,
        "name\u{1b}]0;x\u{7},email,ip,user_agent\nAnn,a@example.com,::1,curl/8\n",
    );
    for json in [&[][..], &["--json"]] {
        let map = ["--map", "name=name\u{1b}]0;x\u{7}"];
        let done = place.rescore(["check", name]).args(map).args(json).done();
        done.exits(0);
        clean("standard output", &done.printed());
        clean("standard error", &done.stderr);
    }
}
