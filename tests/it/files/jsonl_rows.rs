//! Rows of JSONL: three members are added before the last brace, and nothing else changes.

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users::{NULLS, Verdict, object};

/// Scores the lines; output and rejects.
fn score(lines: &str, server: &Server, code: i32) -> (String, Option<String>) {
    let place = Place::with("users.jsonl", lines);
    place
        .run(server, "users.jsonl -o scored.jsonl")
        .done()
        .exits(code);
    let rejects = "scored.rejects.jsonl";
    let rejects = place
        .names()
        .iter()
        .any(|name| name == rejects)
        .then(|| place.text(rejects));
    (place.text("scored.jsonl"), rejects)
}

#[test]
fn dropping_our_members_gives_back_the_input_byte_for_byte() {
    let server = Server::good();
    let sent = r#""name":"A","email":"a@x.org","ip":"::1","user_agent":"u""#;
    for line in [
        format!("{{{sent}}}\n"),
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
        assert_eq!(output.replacen(&Verdict::of("A").members(), "", 1), line);
        assert_ne!(output, line);
        assert_eq!(rejects, None);
        let object: serde_json::Value = serde_json::from_str(
            output.trim_start_matches('\u{feff}').trim(),
        )
        .unwrap_or_else(|e| {
            assert!(line.contains("1e400"), "{e}: {output}");
            serde_json::Value::Null
        });
        if object.is_object() {
            assert_eq!(object["transaction_id"], Verdict::of("A").id);
        }
    }
}

#[test]
fn a_line_that_is_not_an_object_passes_through_and_is_in_the_rejects() {
    let server = Server::good();
    let good = object("A");
    let deep = format!("{{\"name\":{}", "[".repeat(100_000));
    let bad = [
        "{\"name\":",
        "[1,2]",
        "7",
        "\"text\"",
        "null",
        "{} {}",
        "nonsense",
        &deep,
    ];
    let lines = format!("{good}\n{}\n{good}\n", bad.join("\n"));
    let (output, rejects) = score(&lines, &server, 1);
    let scored = format!(
        "{}{}}}",
        good.strip_suffix('}').unwrap(),
        Verdict::of("A").members()
    );
    assert!(output == format!("{scored}\n{}\n{scored}\n", bad.join("\n")));
    let rejects: Vec<serde_json::Value> = rejects
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_default())
        .collect();
    assert_eq!(rejects.len(), bad.len());
    let expected = [
        "not_json",
        "not_an_object",
        "not_an_object",
        "not_an_object",
        "not_an_object",
    ];
    for (i, reason) in expected.iter().enumerate() {
        assert_eq!(rejects[i]["reject_row"], i + 2);
        assert_eq!(rejects[i]["reject_reason"], *reason, "{}", bad[i]);
        assert_eq!(rejects[i]["reject_line"], bad[i]);
    }
    assert!(
        rejects[0]["reject_message"]
            .as_str()
            .unwrap()
            .contains("line 2")
    );
    assert_eq!(server.calls(), 1, "the two objects are equal");
}

#[test]
fn an_invalid_object_gets_nulls_and_is_in_the_rejects_as_it_was() {
    let server = Server::good();
    let cases = [
        (
            r#"{"name":"A","name":"B","email":"a@x.org","ip":"::1","user_agent":"u"}"#,
            "duplicate_key",
        ),
        (
            r#"{"name":7,"email":"a@x.org","ip":"::1","user_agent":"u"}"#,
            "wrong_type",
        ),
        (
            r#"{"name":1e400,"email":"a@x.org","ip":"::1","user_agent":"u"}"#,
            "wrong_type",
        ),
        (
            r#"{"name":{},"email":"a@x.org","ip":"::1","user_agent":"u"}"#,
            "wrong_type",
        ),
        (
            r#"{"name":"\ud800","email":"a@x.org","ip":"::1","user_agent":"u"}"#,
            "wrong_type",
        ),
        (
            r#"{"name":"A","email":null,"ip":"::1","user_agent":"u"}"#,
            "missing_contact",
        ),
        (
            r#"{"name":"A\u0000","email":"a@x.org","ip":"::1","user_agent":"u"}"#,
            "nul_byte",
        ),
        (
            r#"{"name":"A","email":"a@x.org","ip":"1.2","user_agent":"u"}"#,
            "invalid_ip",
        ),
    ];
    let lines: String = cases.iter().map(|(line, _)| format!("{line}\n")).collect();
    let (output, rejects) = score(&lines, &server, 1);
    let nulled: String = cases
        .iter()
        .map(|(line, _)| format!("{}{NULLS}}}\n", line.strip_suffix('}').unwrap()))
        .collect();
    assert_eq!(output, nulled);
    for (number, (reject, (line, reason))) in (1..).zip(rejects.unwrap().lines().zip(cases)) {
        let head = format!(
            r#"{},"reject_row":{number},"reject_reason":"{reason}","reject_message":"#,
            line.strip_suffix('}').unwrap()
        );
        assert!(
            reject.starts_with(&head) && reject.ends_with("\"}"),
            "{reject}\n{head}"
        );
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn an_empty_object_gets_its_members_without_a_comma() {
    let server = Server::good();
    let (output, rejects) = score(&format!("{}\n{{}}\n{{ }}\n", object("A")), &server, 1);
    let nulls = NULLS.strip_prefix(',').unwrap();
    assert!(
        output.ends_with(&format!("\n{{{nulls}}}\n{{ {nulls}}}\n")),
        "{output}"
    );
    assert!(
        rejects
            .unwrap()
            .starts_with(r#"{"reject_row":2,"reject_reason":"missing_name","#)
    );
}

#[test]
fn bytes_that_are_not_utf_8_fail_a_row_only_where_they_would_be_sent() {
    let server = Server::good();
    let good = object("A");
    let start = good.strip_suffix('}').unwrap().as_bytes();
    // The byte order mark says that the file is UTF-8.
    let rows = b",\"note\":\"caf\xe9\"}\n{\"name\":\"\xff\"}\n";
    let place = Place::with("users.jsonl", [b"\xef\xbb\xbf", start, rows].concat());
    let run = place.run(&server, "users.jsonl -o scored.jsonl");
    run.done().exits(1);
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
    assert_eq!(place.read("scored.jsonl"), expected.concat());
    let rejects = place.read("scored.rejects.jsonl");
    let expected = b"{\"name\":\"\xff\",\"reject_row\":2,\"reject_reason\":\"not_utf8\",";
    assert!(rejects.starts_with(expected));
    assert_eq!(server.calls(), 1);
}

#[test]
fn a_line_that_is_nested_too_deeply_fails_and_stays_as_it_is() {
    let server = Server::good();
    let good = object("A");
    let start = good.strip_suffix('}').unwrap().as_bytes();
    let deep = "[".repeat(200_000);
    let closed = format!("{deep}{}", "]".repeat(200_000));
    let deep = format!("{{\"a\":{deep}\n{deep}\n{closed}\n");
    let bad = deep.as_bytes();
    let whole = [start, b"}\n", bad].concat();
    let place = Place::with("users.jsonl", whole);
    let run = place.run(&server, "users.jsonl -o scored.jsonl");
    run.done().exits(1);
    let members = Verdict::of("A").members();
    let expected = [start, members.as_bytes(), b"}\n", bad].concat();
    assert!(place.read("scored.jsonl") == expected);
    let rejects = place.read("scored.rejects.jsonl");
    assert_eq!(rejects.split(|byte| *byte == b'\n').count(), 4);
    assert_eq!(server.calls(), 1);
}

#[test]
fn an_invalid_object_never_keeps_last_nights_verdict() {
    let server = Server::good();
    let good = object("A");
    let start = good.strip_suffix('}').unwrap();
    let old = r#""transaction_id":"t-old","risk_score":0.1,"decision":"approve""#;
    let new = r#""transaction_id":null,"risk_score":null,"decision":null"#;
    let before = format!("{old},\"decision\":\"block\"");
    let (output, rejects) = score(&format!("{start},{before}}}\n"), &server, 1);
    assert_eq!(output, format!("{start},{new},\"decision\":null}}\n"));
    assert!(rejects.is_some());
    assert_eq!(server.calls(), 0);
}

#[test]
fn the_second_row_of_a_pipe_may_have_what_the_first_has_not() {
    let server = Server::good();
    let first = r#"{"name":"B","ip":"::1","user_agent":"u"}"#;
    let (reader, mut producer) = std::io::pipe().unwrap();
    let place = Place::new();
    let running = place
        .run(&server, "-o scored.jsonl --format jsonl")
        .stdin_from(reader)
        .start();
    std::io::Write::write_all(&mut producer, format!("{first}\n").as_bytes()).unwrap();
    running.wait_for_file("scored.jsonl.partial", |partial| !partial.is_empty());
    std::io::Write::write_all(&mut producer, object("A").as_bytes()).unwrap();
    drop(producer);
    running.done().exits(1);
    assert_eq!(server.only_request().name(), "A");
}

#[test]
fn a_mapped_member_that_no_object_has_is_refused_before_anything_is_paid() {
    let server = Server::good();
    let place = Place::with("users.jsonl", format!("{}\n", object("A")));
    let program = place.run(&server, "users.jsonl -o x.jsonl --map email=emial");
    program
        .done()
        .exits(2)
        .says("no member `emial` for `--map email=…` in `users.jsonl`")
        .says("hint: did you mean `--map email=email`?");
    assert_eq!(server.calls(), 0);
}

#[test]
fn escapes_are_sent_as_the_characters_that_they_mean() {
    let server = Server::good();
    let line = r#"{"n\u0061me":"J\u00e9 \"\ud83d\ude42\"","email":"a@x.org","ip":"::1","user_agent":"\/"}"#;
    let (output, _) = score(line, &server, 0);
    let sent = server.only_request().json();
    assert_eq!(
        (sent["name"].as_str(), sent["user_agent"].as_str()),
        (Some("Jé \"🙂\""), Some("/"))
    );
    let members = Verdict::of("Jé \"🙂\"").members();
    assert_eq!(
        output,
        format!("{}{members}}}", line.strip_suffix('}').unwrap())
    );
}
