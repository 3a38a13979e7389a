//! The numbers of a check are those of the run that follows, on odd files of every kind and whatever is known already.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::agree;
use crate::support::process::Place;
use crate::support::stand_in::StandIn;

const HEADER: &str = "name,email,phone,ip,user_agent\n";

/// So many valid users, each of whom comes twice if his number is divisible by 3.
fn users(number: usize) -> String {
    let mut rows = HEADER.to_owned();
    for user in 1..=number {
        for _ in 0..=usize::from(user.is_multiple_of(3)) {
            writeln!(rows, "User {user},u{user}@example.com,,192.0.2.7,curl/8").unwrap();
        }
    }
    rows
}

/// What a check and a run to `out` say about a file.
#[track_caller]
fn numbers(name: &str, content: impl AsRef<[u8]>, options: &str) -> Value {
    let (place, of_stand_in) = (Place::with(name, content), Place::new());
    let stand_in = StandIn::start(&of_stand_in, "");
    let options: Vec<_> = [name]
        .into_iter()
        .chain(options.split_whitespace())
        .collect();
    agree(&place, &stand_in, &options, &["-o", "out"])
}

/// Calls, duplicates and rows that cannot be sent.
fn outline(said: &Value) -> (u64, u64, u64) {
    let number = |value: &Value| value.as_u64().unwrap();
    (
        number(&said["calls"]),
        number(&said["duplicates"]),
        number(&said["rows"]["unsendable"]),
    )
}

#[test]
fn files_of_every_kind_have_the_numbers_of_the_run() {
    let odd = concat!(
        "\u{feff}name,email,phone,ip,user_agent\r\n",
        "\r\n",
        "\"Jane \"\"JD\"\" Doe\",jd@example.com,,192.0.2.1,\"Mozilla/5.0 (X11, Linux)\"\r\n",
        "\"Two\r\nLines\",two@example.com,,192.0.2.2,curl/8\n",
        "Two Lines,two@example.com,,192.0.2.2,curl/8\r\n",
        "\r\n\r\n",
        "Short,short@example.com\r\n",
        "Long,long@example.com,,192.0.2.3,curl/8,more\r\n",
        "\"Text\"after,text@example.com,,192.0.2.4,curl/8\r\n",
        "  Jane \"\"JD\"\" Doe,jd@example.com,,192.0.2.1,curl/8\r\n",
        "Last,last@example.com,,192.0.2.5,curl/8",
    );
    let phones = format!(
        "{HEADER}{}",
        concat!(
            "Ann,ann@example.com,0151 23456789,192.0.2.1,curl/8\n",
            "Ann,ann@example.com,,192.0.2.1,curl/8\n",
            "Bo,,0151 23456789,192.0.2.1,curl/8\n",
            "Cy,,+49 151 23456789,192.0.2.1,curl/8\n",
        )
    );
    let latin = b"name,email,ip,user_agent\nJ\xf6rg,j@example.com,::1,curl/8\nB\xc3\xb6,b@example.com,::1,curl/8\n";
    let nested = [
        r#"{"name":"Ann","email":"a@example.com","device":{"ip":"192.0.2.1","ua":"curl/8"}}"#,
        r#"{"device":{"ua":"curl/8","ip":"192.0.2.1"},"email":"a@example.com","name":"\u0041nn"}"#,
        r#"{"name":"Bo","email":"a@example.com","device":{"ip":"nowhere","ua":"curl/8"}}"#,
        "",
        "[1]",
        "{\"name\":",
        r#"{"name":7,"email":"a@example.com","device":{"ip":"192.0.2.1","ua":"curl/8"}}"#,
        r#"{"name":"Cy","email":"a@example.com","device":{"ip":"2001:db8::1","ua":"curl/8"}}"#,
    ];
    let headless = "7,Ann,ann@example.com,192.0.2.1,curl/8\n8,Bo,bo@example.com,,curl/8\n";
    let by_number = "--no-header --map name=2 --map email=3 --map ip=4 --map user_agent=5";
    let zstd = zstd::encode_all(users(30).as_bytes(), 0).unwrap();
    let cases: [(&str, &[u8], &str, _); 9] = [
        ("a.csv", odd.as_bytes(), "", (4, 1, 3)),
        ("a.csv", phones.as_bytes(), "", (2, 0, 2)),
        ("a.csv", phones.as_bytes(), "--invalid drop", (2, 1, 1)),
        ("a.csv", phones.as_bytes(), "--phone-region DE", (4, 0, 0)),
        ("a.csv", latin, "", (1, 0, 1)),
        ("a.csv", latin, "--encoding windows-1252", (2, 0, 0)),
        (
            "a.jsonl",
            &nested.join("\n").into_bytes(),
            "--map ip=/device/ip --map user_agent=/device/ua",
            (2, 1, 4),
        ),
        ("a.csv", headless.as_bytes(), by_number, (1, 0, 1)),
        ("a.csv.zst", &zstd, "", (30, 10, 0)),
    ];
    for (name, content, options, expected) in cases {
        let said = numbers(name, content, options);
        assert_eq!(outline(&said), expected, "{options}: {said}");
    }
}

#[test]
fn duplicates_that_show_only_in_what_is_sent() {
    let rows = concat!(
        "Jo Doe,jo@example.com,+44 20 7946 0958,192.0.2.1,curl/8\n",
        " Jo Doe ,jo@example.com,0044 (20) 7946-0958,192.0.2.1,curl/8\n",
        "Jo Doe,jo@example.com,+44 (0)20 7946 0958,192.0.2.1,\tcurl/8\n",
        "Jo Doe,jo@example.com,,192.0.2.1,curl/8\n",
        "jo doe,jo@example.com,+442079460958,192.0.2.1,curl/8\n",
    );
    let said = numbers("users.csv", format!("{HEADER}{rows}"), "");
    assert_eq!(outline(&said), (3, 2, 0));
}

#[test]
fn the_messy_sample() {
    let messy = include_bytes!("../../../samples/messy.csv");
    let rows = json!({"read": 39, "sendable": 28, "unsendable": 11, "passed": 0, "dropped": 0, "addresses_shortened": 0, "null_words": 0});
    assert_eq!(numbers("messy.csv", messy, "")["rows"], rows);
}

#[test]
fn rows_from_a_pipe() {
    let done = Place::new().rescore("check --json").stdin(users(30)).done();
    let said = done.json();
    assert_eq!(outline(&said), (30, 10, 0));
    assert_eq!(said["files"][0]["input"], Value::Null);
}
