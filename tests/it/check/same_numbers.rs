//! The numbers of a check are those of the run that follows, on odd files of every kind.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::agreement::{agree, check, command};
use crate::support::ledger_file;
use crate::support::process::Place;
use crate::support::server::Server;
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

/// A file with this name and content, and a run to `out`.
#[track_caller]
fn numbers(name: &str, content: impl AsRef<[u8]>, options: &[&str]) -> Value {
    let place = Place::with(name, content);
    let stand_in_place = Place::new();
    let stand_in = StandIn::start(&stand_in_place, "");
    let both = [&[name], options].concat();
    agree(&place, &stand_in, &[], &both, &["-o", "out"])
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
fn quotes_line_ends_and_ragged_rows() {
    let odd = concat!(
        "name,email,phone,ip,user_agent\r\n",
        "\"Jane \"\"JD\"\" Doe\",jd@example.com,,192.0.2.1,\"Mozilla/5.0 (X11, Linux)\"\r\n",
        "\"Two\r\nLines\",two@example.com,,192.0.2.2,curl/8\n",
        "TwoLines,two@example.com,,192.0.2.2,curl/8\r\n",
        "Short,short@example.com\r\n",
        "Long,long@example.com,,192.0.2.3,curl/8,more\r\n",
        "\"Text\"after,text@example.com,,192.0.2.4,curl/8\r\n",
        "  Jane \"\"JD\"\" Doe,jd@example.com,,192.0.2.1,curl/8\r\n",
        "Last,last@example.com,,192.0.2.5,curl/8",
    );
    let said = numbers("users.csv", odd, &[]);
    // A line break within quotes is a control character, and not sent.
    assert_eq!(outline(&said), (4, 1, 3));
    assert_eq!(
        said["files"][0]["unsendable"]["ragged"]["first"],
        json!([4, 5])
    );
}

#[test]
fn duplicates_that_show_only_in_what_is_sent() {
    let file = format!(
        "{HEADER}{}",
        [
            "Jo Doe,jo@example.com,+44 20 7946 0958,192.0.2.1,curl/8",
            " Jo Doe ,jo@example.com,0044 (20) 7946-0958,192.0.2.1,curl/8",
            "Jo Doe,jo@example.com,+44 (0)20 7946 0958,192.0.2.1,\tcurl/8",
            "Jo Doe,jo@example.com,,192.0.2.1,curl/8",
            "jo doe,jo@example.com,+442079460958,192.0.2.1,curl/8",
        ]
        .join("\n")
    );
    assert_eq!(outline(&numbers("users.csv", file, &[])), (3, 2, 0));
}

#[test]
fn jsonl_with_nested_members_and_lines_that_cannot_be_sent() {
    let user = |name: &str, ip: &str| {
        format!(
            r#"{{"name":"{name}","email":"a@example.com","device":{{"ip":"{ip}","ua":"curl/8"}}}}"#
        )
    };
    let lines = [
        user("Ann", "192.0.2.1"),
        r#"{"device":{"ua":"curl/8","ip":"192.0.2.1"},"email":"a@example.com","name":"Ann"}"#
            .to_owned(),
        user("Bo", "not an address"),
        String::new(),
        "[1]".to_owned(),
        "{\"name\":".to_owned(),
        r#"{"name":7,"email":"a@example.com","device":{"ip":"192.0.2.1","ua":"curl/8"}}"#
            .to_owned(),
        user("\\u0041nn", "192.0.2.1"),
        user("Cy", "2001:db8::1"),
    ];
    let options = ["--map", "ip=/device/ip", "--map", "user_agent=/device/ua"];
    let said = numbers("users.jsonl", lines.join("\n"), &options);
    assert_eq!(outline(&said), (2, 2, 4));
    assert_eq!(
        said["files"][0]["unsendable"]["not_json"]["first"],
        json!([5])
    );
}

#[test]
fn an_encoding_helps_csv_and_not_jsonl() {
    let csv = b"name,email,ip,user_agent\nJ\xf6rg,j@example.com,::1,curl/8\nAnn,a@example.com,::1,curl/8\nB\xc3\xb6,b@example.com,::1,curl/8\n\xc3\x89lo,e@example.com,::1,curl/8\n";
    let said = numbers("users.csv", csv, &[]);
    assert_eq!(outline(&said), (3, 0, 1));
    let said = numbers("users.csv", csv, &["--encoding", "windows-1252"]);
    assert_eq!(outline(&said), (4, 0, 0));
    let line = |name: &[u8]| {
        let rest = br#"","email":"a@example.com","ip":"::1","user_agent":"curl/8"}"#;
        [br#"{"name":""#, name, rest, b"\n"].concat()
    };
    let lines = [&b"J\xf6rg"[..], b"B\xc3\xb6", b"\xc3\x89lo"]
        .map(line)
        .concat();
    let said = numbers("users.jsonl", lines, &[]);
    assert_eq!(outline(&said), (2, 0, 1));
}

#[test]
fn a_byte_order_mark_blank_lines_and_semicolons() {
    let file = concat!(
        "\u{feff}name;email;ip;user_agent\r\n",
        "\r\n",
        "Ann;ann@example.com;192.0.2.1;curl/8\r\n",
        "\r\n\r\n",
        "Ann;ann@example.com;192.0.2.1;curl/8\r\n",
        "Bo;;192.0.2.1;curl/8\r\n",
        "\r\n",
    );
    assert_eq!(outline(&numbers("users.csv", file, &[])), (1, 1, 1));
}

#[test]
fn national_numbers_rejected_and_dropped() {
    let file = format!(
        "{HEADER}{}",
        [
            "Ann,ann@example.com,0151 23456789,192.0.2.1,curl/8",
            "Ann,ann@example.com,,192.0.2.1,curl/8",
            "Bo,,0151 23456789,192.0.2.1,curl/8",
            "Cy,,+49 151 23456789,192.0.2.1,curl/8",
        ]
        .join("\n")
    );
    let said = numbers("users.csv", &file, &[]);
    assert_eq!(outline(&said), (2, 0, 2));
    let said = numbers("users.csv", &file, &["--invalid", "drop"]);
    assert_eq!(outline(&said), (2, 1, 1));
    // Read as numbers of a region, none is invalid.
    let said = numbers("users.csv", &file, &["--phone-region", "DE"]);
    assert_eq!(outline(&said), (4, 0, 0));
}

#[test]
fn a_file_without_a_header_and_compressed_ones() {
    let file = "7,Ann,ann@example.com,192.0.2.1,curl/8\n8,Bo,bo@example.com,,curl/8\n";
    let map = ["name=2", "email=3", "ip=4", "user_agent=5"];
    let map = map.map(|map| ["--map", map]).concat();
    let said = numbers("users.csv", file, &[&["--no-header"], &map[..]].concat());
    assert_eq!(outline(&said), (1, 0, 1));

    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(users(30).as_bytes()).unwrap();
    let zstd = zstd::encode_all(users(30).as_bytes(), 0).unwrap();
    for (name, packed) in [
        ("users.csv.gz", gzip.finish().unwrap()),
        ("users.csv.zst", zstd),
    ] {
        assert_eq!(outline(&numbers(name, packed, &[])), (30, 10, 0));
    }
}

#[test]
fn the_messy_sample() {
    let messy = include_bytes!("../../../samples/messy.csv");
    let said = numbers("messy.csv", messy, &[]);
    assert_eq!(
        said["rows"],
        json!({"read": 39, "sendable": 28, "unsendable": 11, "dropped": 0})
    );
}

#[test]
fn an_earlier_output_as_the_input() {
    let place = Place::with("users.csv", users(12));
    let stand_in_place = Place::new();
    let stand_in = StandIn::start(&stand_in_place, "");
    agree(
        &place,
        &stand_in,
        &[],
        &["users.csv"],
        &["-o", "scored.csv"],
    );
    let both = ["scored.csv"];
    let said = agree(&place, &stand_in, &[], &both, &["-o", "again.csv"]);
    // All are paid for.
    assert_eq!((outline(&said), &said["known"]), ((0, 0, 0), &json!(16)));
    // A value that is not ours in one of the columns, behind what is looked at first.
    let note = "x".repeat(10_000);
    let mut other = "name,email,ip,user_agent,note,transaction_id,risk_score,decision\n".to_owned();
    for user in 1..=150 {
        let last = if user == 150 { "perhaps" } else { "" };
        writeln!(
            other,
            "User {user},u@example.com,::1,curl/8,{note},,,{last}"
        )
        .unwrap();
    }
    place.write("other.csv", other);
    let run_only = ["-o", "third.csv"];
    let said = agree(&place, &stand_in, &[], &["other.csv"], &run_only);
    assert_eq!(outline(&said), (149, 0, 1));
}

#[test]
fn a_sample_has_the_rows_of_the_run() {
    let mut rows = users(60);
    rows += "Jo,jo@example.com,,192.0.2.7,\nUser 7,u7@example.com,,not an address,curl/8\n";
    for options in [
        &["--sample", "37%"][..],
        &["--sample", "60%", "--limit", "20"],
    ] {
        numbers("users.csv", &rows, options);
    }
}

#[test]
fn a_ledger_that_knows_some_of_the_answers() {
    let stand_in_place = Place::new();
    let stand_in = StandIn::start(&stand_in_place, "");
    let place = Place::with("users.csv", users(30));
    let words = "run users.csv -o first.csv -c 1 --max-calls 11";
    let words: Vec<_> = words.split(' ').collect();
    command(&place, &stand_in.url(), &words).done().exits(5);
    let both = ["users.csv"];
    let said = agree(&place, &stand_in, &[], &both, &["-o", "out.csv"]);
    // Users 3, 6 and 9 come twice.
    assert_eq!((&said["known"], &said["calls"]), (&json!(14), &json!(19)));
    let said = agree(&place, &stand_in, &[], &both, &["-o", "again.csv"]);
    assert_eq!((&said["known"], &said["calls"]), (&json!(40), &json!(0)));
}

#[test]
fn answers_that_are_too_old_are_paid_for_again() {
    let (place, server) = (Place::with("users.csv", users(30)), Server::good());
    let run = |more: &[&str]| {
        let words = [&["run", "users.csv"], more].concat();
        command(&place, &server.url(), &words).done()
    };
    run(&["-o", "first.csv", "-c", "1", "--max-calls", "10"]).exits(5);
    let ledger = place.path("rescore.ledger");
    assert_eq!(ledger_file::age(&ledger, &server, 7_200_000), 10);
    for (age, output, calls) in [("3h", "a.csv", 20), ("1h", "b.csv", 10)] {
        let both = ["-o", output, "--max-age", age];
        let said = check(&place, &server.url(), &[&["users.csv"], &both[..]].concat());
        let before = server.calls();
        run(&both).exits(0);
        let made = server.calls() - before;
        assert_eq!((&said["calls"], made), (&json!(calls), calls), "{age}");
    }
}

#[test]
fn rows_from_a_pipe() {
    let place = Place::new();
    let check = place.rescore("check --json").stdin(users(30)).done();
    let said = super::agreement::printed(&check);
    assert_eq!(outline(&said), (30, 10, 0));
    assert_eq!(said["files"][0]["input"], Value::Null);
}

#[test]
fn every_number_is_that_of_the_run_whatever_is_known_equal_invalid_or_dropped() {
    let rows = users(40) + "Jo,jo@example.com,,192.0.2.7,\nBo,b@example.com,,nowhere,curl/8\n";
    let stand_in_place = Place::new();
    let stand_in = StandIn::start(&stand_in_place, "");
    let place = Place::with("users.csv", &rows);
    place.write("more.csv", &rows);
    // Each knows what those before have paid for.
    for (options, run_only) in [
        (&["users.csv", "--limit", "9"][..], ["-o", "a.csv"]),
        (&["users.csv", "--sample", "50%"], ["-o", "b.csv"]),
        (&["users.csv", "--max-invalid", "2"], ["-o", "c.csv"]),
        (&["users.csv", "--vpn-check"], ["-o", "d.csv"]),
        (&["users.csv", "--no-ledger"], ["-o", "e.csv"]),
        (
            &["users.csv", "more.csv", "--advanced"],
            ["--output-dir", "f"],
        ),
    ] {
        agree(&place, &stand_in, &[], options, &run_only);
    }
}
