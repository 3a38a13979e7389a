//! Rows of JSONL: three members are added before the last brace, and nothing else changes.

use std::io::Write as _;

use serde_json::Value;

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users::{NULLS, Verdict, object};

/// Scores the lines; output and rejects, which are empty where there are none.
fn score(lines: impl AsRef<[u8]>, server: &Server, code: i32) -> (Vec<u8>, Vec<u8>) {
    let place = Place::with("users.jsonl", lines);
    let run = place.run(server, "users.jsonl -o scored.jsonl");
    run.exits(code);
    let rejects = std::fs::read(place.path("scored.rejects.jsonl"));
    (place.read("scored.jsonl"), rejects.unwrap_or_default())
}

/// An object without its last brace.
fn open(object: &str) -> &str {
    object.strip_suffix('}').unwrap()
}

#[test]
fn dropping_our_members_gives_back_the_input_byte_for_byte() {
    let server = Server::good();
    let sent = r#""name":"A","email":"a@x.org","ip":"::1","user_agent":"u""#;
    for line in [
        format!("  {{ {sent} }}  \r\n"),
        format!("\t{{{sent}\t}}"),
        format!("\n\r\n{{{sent}}}\r\n\n"),
        format!("{{{sent}}}\r"),
        format!("\u{feff}{{{sent}}}\n"),
        format!(
            r#"{{"n":9007199254740993.10,"e":1e400, "z":-0,{sent},"s":"\u00e9\/ \"}}" , "o":{{"}}":[ ]}} }}"#
        ),
        format!(r#"{{"x":1,"x":2,{sent},"":null}}"#),
    ] {
        let (output, rejects) = score(&line, &server, 0);
        let output = String::from_utf8(output).unwrap();
        let members = Verdict::of("A").members();
        assert!(output.contains(&members), "{output}");
        assert_eq!(output.replacen(&members, "", 1), line);
        assert!(rejects.is_empty());
    }
}

#[test]
fn a_line_that_is_not_an_object_passes_through_and_is_in_the_rejects() {
    let server = Server::good();
    let good = object("A");
    let deep = format!("{{\"name\":{}", "[".repeat(100_000));
    let closed = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bad = [
        ("{\"name\":", "not_json"),
        ("[1,2]", "not_an_object"),
        ("7", "not_an_object"),
        ("null", "not_an_object"),
        ("{} {}", "not_json"),
        ("nonsense", "not_json"),
        (&deep, "not_json"),
        (&closed, "not_json"),
    ];
    let lines = bad.map(|(line, _)| line).join("\n");
    let (output, rejects) = score(format!("{good}\n{lines}\n{good}\n"), &server, 1);
    let scored = format!("{}{}}}", open(&good), Verdict::of("A").members());
    assert!(output == format!("{scored}\n{lines}\n{scored}\n").into_bytes());
    let rejects = String::from_utf8(rejects).unwrap();
    assert_eq!(rejects.lines().count(), bad.len());
    for (row, (reject, (line, reason))) in (2..).zip(rejects.lines().zip(bad)) {
        let reject: Value = serde_json::from_str(reject).unwrap();
        assert_eq!(reject["reject_row"], row);
        assert!(reject["reject_line"] == line);
        let told = reject["reject_reason"].as_str().unwrap();
        assert!(told == reason || line.len() > 1_000, "{told} of {line}");
    }
    assert_eq!(server.calls(), 1, "the two objects are equal");
}

#[test]
fn an_invalid_object_gets_nulls_and_is_in_the_rejects_as_it_was() {
    let server = Server::good();
    let rest = r#""email":"a@x.org","ip":"::1","user_agent":"u"}"#;
    let cases = [
        (
            format!(r#"{{"name":"A","name":"B",{rest}"#),
            "duplicate_key",
        ),
        (format!(r#"{{"name":7,{rest}"#), "wrong_type"),
        (format!(r#"{{"name":{{}},{rest}"#), "wrong_type"),
        (format!(r#"{{"name":"\ud800",{rest}"#), "wrong_type"),
        (format!(r#"{{"name":"A\u0000",{rest}"#), "nul_byte"),
        (
            format!(r#"{{"name":"A",{rest}"#).replace("\"a@x.org\"", "null"),
            "missing_contact",
        ),
        (
            format!(r#"{{"name":"A",{rest}"#).replace("::1", "1.2"),
            "invalid_ip",
        ),
    ];
    let lines: String = cases.iter().map(|(line, _)| format!("{line}\n")).collect();
    // An empty object gets its members without a comma.
    let (output, rejects) = score(format!("{lines}{{}}\n"), &server, 1);
    let nulled = { cases.iter() }.map(|(line, _)| format!("{}{NULLS}}}\n", open(line)));
    let expected = format!("{}{{{}}}\n", nulled.collect::<String>(), &NULLS[1..]);
    assert_eq!(String::from_utf8(output).unwrap(), expected);
    let rejects = String::from_utf8(rejects).unwrap();
    for (number, (reject, (line, reason))) in (1..).zip(rejects.lines().zip(cases)) {
        let reason = format!(r#""reject_row":{number},"reject_reason":"{reason}""#);
        assert!(
            reject.starts_with(&format!("{},{reason},", open(&line))),
            "{reject}"
        );
    }
    assert!(rejects.contains("\n{\"reject_row\":8,\"reject_reason\":\"missing_name\","));
    assert_eq!(server.calls(), 0);
}

#[test]
fn bytes_that_are_not_utf_8_fail_a_row_only_where_they_would_be_sent() {
    let server = Server::good();
    let good = object("A");
    let start = open(&good).as_bytes();
    // The byte order mark says that the file is UTF-8.
    let rows = b",\"note\":\"caf\xe9\"}\n{\"name\":\"\xff\"}\n";
    let lines = [b"\xef\xbb\xbf", start, rows].concat();
    let (output, rejects) = score(lines, &server, 1);
    let members = Verdict::of("A").members();
    let expected = [
        b"\xef\xbb\xbf",
        start,
        b",\"note\":\"caf\xe9\"",
        members.as_bytes(),
        b"}\n{\"name\":\"\xff\"",
        NULLS.as_bytes(),
        b"}\n",
    ];
    assert_eq!(output, expected.concat());
    let expected = b"{\"name\":\"\xff\",\"reject_row\":2,\"reject_reason\":\"not_utf8\",";
    assert!(rejects.starts_with(expected));
    assert_eq!(server.calls(), 1);
}

#[test]
fn the_second_row_of_a_pipe_may_have_what_the_first_has_not() {
    let server = Server::good();
    let (reader, mut producer) = std::io::pipe().unwrap();
    let place = Place::new();
    let run = place.run(&server, "-o scored.jsonl --format jsonl");
    let running = run.stdin_from(reader).start();
    writeln!(producer, r#"{{"name":"B","ip":"::1","user_agent":"u"}}"#).unwrap();
    running.wait_for_file("scored.jsonl.partial", |partial| !partial.is_empty());
    producer.write_all(object("A").as_bytes()).unwrap();
    drop(producer);
    running.exits(1);
    assert_eq!(server.only_request().name(), "A");
}

#[test]
fn escapes_are_sent_as_the_characters_that_they_mean() {
    let server = Server::good();
    let line = r#"{"n\u0061me":"J\u00e9 \"\ud83d\ude42\"","email":"a@x.org","ip":"::1","user_agent":"\/"}"#;
    let (output, _) = score(line, &server, 0);
    let sent = server.only_request().json();
    assert_eq!([&sent["name"], &sent["user_agent"]], ["Jé \"🙂\"", "/"]);
    let members = Verdict::of("Jé \"🙂\"").members();
    let expected = format!("{}{members}}}", open(line));
    assert_eq!(String::from_utf8(output).unwrap(), expected);
}
