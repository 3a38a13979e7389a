//! A hostile or badly broken service: escape sequences for terminals, answers without end, and words that repeat what was
//! sent.

use std::io::Write as _;

use crate::support::process::{Done, Place, clean};
use crate::support::server::{Action, Request, Server, answer, good, good_body, ok, raw};
use crate::support::users;

/// Clears the screen, renames the window, changes colours, moves back, reverses the text, and breaks the line: by escape
/// sequences, C1 controls, bidirectional marks, and Unicode's own line ends.
const EVIL: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{9d}0;owned\u{9c}\u{8}\u{7f}\u{202e}\u{2066}\u{200f}\u{feff}\u{85}\u{2028}a\r\nb";
/// The part of it that a header may contain.
const EVIL_HEADER: &str =
    "\u{9b}31m\u{9d}0;owned\u{9c}\u{202e}\u{2066}\u{200f}\u{feff}\u{85}\u{2028}";

/// As a JSON string, with as few escapes as JSON allows, or with every character escaped.
fn json_string(text: &str, escaped: bool) -> String {
    let inner: String = text
        .chars()
        .map(|c| match c {
            c if escaped || c < ' ' => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        })
        .collect();
    format!("\"{inner}\"")
}

/// Every file and stream that a person may look at.
fn all_clean(place: &Place, done: &Done) {
    clean("standard error", &done.stderr);
    clean("standard output", &done.printed());
    for name in place.names() {
        if !name.ends_with(".ledger") {
            clean(&name, &place.text(&name));
        }
    }
}

/// The ways in which a service can say something about a row that ends only that row.
const EVIL_ROWS: &str = "message text phrase header id turned escaped page garbage";

fn evil_about_a_row(request: &Request) -> Action {
    let (plain, escaped) = (json_string(EVIL, false), json_string(EVIL, true));
    let with_id = |id: &str| {
        ok(&format!(
            r#"{{"transaction_id":{id},"summary":{{"risk_score":1}}}}"#
        ))
    };
    match request.name().as_str() {
        "message" => answer(422, &[], &format!(r#"{{"error":{{"message":{plain}}}}}"#)),
        "text" => answer(409, &[], EVIL),
        "phrase" => raw(format!("HTTP/1.1 422 {EVIL}\r\ncontent-length: 0\r\n\r\n")).then_close(),
        "header" => answer(
            413,
            &[("x-note", EVIL_HEADER), ("server", EVIL_HEADER)],
            EVIL,
        ),
        "id" => with_id(&plain),
        "turned" => with_id("\"a\u{202e}b\""),
        "escaped" => with_id(&escaped),
        "page" => ok(EVIL),
        "garbage" => raw(EVIL).then_close(),
        // A good answer, with a captured column of every type.
        name => {
            let columns = format!(
                r#""text":{plain},"escaped":{escaped},"list":[{plain}],"object":{{{plain}:{escaped}}},"#
            );
            ok(&good_body(name).replacen('{', &format!("{{{columns}"), 1))
        }
    }
}

#[test]
fn nothing_that_a_service_says_of_a_row_steers_a_terminal_or_turns_a_file_around() {
    // A good one before each: several failures in a row may rightly stop a run.
    let names = { EVIL_ROWS.split(' ') }.flat_map(|name| ["good", name]);
    let names: Vec<_> = names.collect();
    let objects = names.iter().map(|name| users::object(name) + "\n");
    let columns =
        "--column text=/text --column escaped=/escaped --column list=/list --column object=/object";
    for (input, content, output, style) in [
        ("users.csv", users::named(&names), "scored.csv", "plain"),
        ("users.jsonl", objects.collect(), "scored.jsonl", "json"),
    ] {
        let (place, server) = (Place::with(input, content), Server::start(evil_about_a_row));
        let program = place.run(&server, [input, "-o", output, "--progress", style]);
        let program = program.args("-c 1 --retries 0 --resend-unknown 0 --summary summary.json");
        let done = program.args(columns).exits(1);
        all_clean(&place, &done);
        let rejects = place.text(&output.replace('.', ".rejects."));
        for name in EVIL_ROWS.split(' ') {
            let (cell, member) = (format!(",{name},"), format!("\"{name}\""));
            let is_there = rejects.contains(&cell) || rejects.contains(&member);
            // An id is one whatever its text is.
            let has_verdict = ["id", "turned", "escaped"].contains(&name);
            assert!(is_there || has_verdict, "{name}: {rejects}");
        }
    }
}

#[test]
fn nothing_that_a_service_says_of_a_run_steers_a_terminal() {
    let (raw_evil, escaped) = (json_string(EVIL, false), json_string(EVIL, true));
    for code in [301, 401, 402, 403, 407, 429, 503, 200] {
        for body in [
            format!(r#"{{"error":{{"message":{raw_evil},"code":"insufficient_quota"}}}}"#),
            format!(r#"{{"message":{escaped},"code":"insufficient_quota"}}"#),
            format!("insufficient_quota {EVIL}"),
        ] {
            let place = Place::with("users.csv", users::csv(9));
            let server = Server::start(move |_| {
                let headers = [
                    ("location", EVIL_HEADER),
                    ("www-authenticate", EVIL_HEADER),
                    ("retry-after", "9999"),
                    ("date", EVIL_HEADER),
                ];
                answer(code, &headers, &body)
            });
            let done = place.score(&server, "-c 1 --retries 0");
            done.check(matches!(done.code(), Some(3 | 4)), "a stop");
            done.says("error: ");
            all_clean(&place, &done);
        }
    }
}

/// An answer that continues as long as it is read: a head, and then the same piece again and again, far more often than
/// fits into memory.
fn endless(way: &str) -> Option<Action> {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let piece = "x".repeat(0xffff);
    let chunk = format!("ffff\r\n{piece}\r\n").into_bytes();
    let chunked = |status: &str| CHUNKED.replace("200 OK", status);
    let (head, piece): (String, Vec<u8>) = match way {
        "body" => (chunked("200 OK"), chunk),
        "body until the end" => ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), piece.into()),
        "refusal" => (chunked("422 x"), chunk),
        "server error" => (chunked("500 x"), chunk),
        "gzip bomb" => {
            // A block of spaces, many times over: 80 GB when unpacked.
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            packed.write_all(&vec![b' '; 1 << 20]).unwrap();
            let packed = packed.finish().unwrap();
            let size = format!("{:x}\r\n", packed.len());
            let chunk = [size.as_bytes(), &packed, b"\r\n"].concat();
            (chunked("200 OK\r\ncontent-encoding: gzip"), chunk)
        }
        "header" => ("HTTP/1.1 200 OK\r\nx-long: ".to_owned(), piece.into()),
        "headers" => {
            let more = "x-more: y\r\n".repeat(6_000);
            ("HTTP/1.1 200 OK\r\n".to_owned(), more.into())
        }
        "status line" => ("HTTP/1.1 200 ".to_owned(), piece.into()),
        "chunk's head" => (format!("{CHUNKED}1;"), piece.into()),
        "trailers" => {
            let more = "x-more: y\r\n".repeat(6_000);
            (format!("{CHUNKED}0\r\n"), more.into())
        }
        "interim answers" => {
            let interim = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n";
            (String::new(), interim.repeat(1_000).into())
        }
        _ => return None,
    };
    Some(raw(head).then_flood(piece, 80_000).then_close())
}

/// The reason in the rejects for each. All but the last end by themselves; that one ends with the time limit.
const ENDLESS: [(&str, &str); 11] = [
    ("body", "bad_answer,the answer is longer than 1 MiB"),
    (
        "body until the end",
        "bad_answer,the answer is longer than 1 MiB",
    ),
    ("refusal", "refused,"),
    ("server error", "server_error,"),
    ("gzip bomb", "bad_answer,the answer is longer than 1 MiB"),
    ("header", "no_answer,the connection broke: "),
    ("headers", "no_answer,the connection broke: "),
    ("status line", "no_answer,the connection broke: "),
    ("chunk's head", "no_answer,the connection broke: "),
    ("trailers", "no_answer,the connection broke: "),
    ("interim answers", "no_answer,no complete answer in time"),
];

#[test]
fn memory_stays_flat_whatever_comes_without_end() {
    /// In KiB, for a debug build.
    const MEMORY: usize = 80 << 10;
    /// What is read before the limit is reached, plus the system's buffers.
    const SENT: usize = 32 << 20;
    // A good answer before each, and at the end a row that waits, so that the process is still there to be measured.
    let names = ENDLESS.map(|(way, _)| [format!("before {way}"), way.to_owned()]);
    let names = [&names.concat()[..], &["last".to_owned()]].concat();
    let csv = users::named(&names);
    let (server, release) = Server::start_holding_if(
        |request| request.name() == "last",
        |request| endless(&request.name()).unwrap_or_else(|| good(request)),
    );
    let place = Place::with("users.csv", &csv);
    let args = "-c 1 --retries 0 --resend-unknown 0 --timeout 5s";
    let running = place.scoring(&server).args(args).start();
    server.wait_for_calls(names.len());
    let peak = running.peak_memory();
    let flooded = server.flooded();
    drop(release);
    let done = running.exits(1);
    assert_eq!(
        server.calls(),
        names.len(),
        "each row is asked once: {done}"
    );
    // Nothing compressed was asked for.
    assert_eq!(server.requests()[0].header("accept-encoding"), None);
    let is_endless = |name: &str| ENDLESS.iter().any(|(way, _)| *way == name);
    let scored = users::scored_without(&csv, is_endless);
    assert_eq!(place.text("scored.csv"), scored);
    if let Some(peak) = peak {
        done.check(peak < MEMORY, &format!("{peak} KiB are less than {MEMORY}"));
    }
    let rejects = place.text("scored.rejects.csv");
    for (i, ((way, reason), line)) in (1..).zip(ENDLESS.iter().zip(rejects.lines().skip(1))) {
        let is_right = line.starts_with(&format!("{},{reason}", 2 * i));
        assert!(is_right && line.contains(&format!(",{way},")), "{line}");
        if *way != "interim answers" {
            let sent = flooded[&(2 * i)];
            done.check(
                sent < SENT,
                &format!("{sent} bytes of the {way} were taken"),
            );
        }
    }
}

const KEY: &str = "sk-live-0a1B2c3D4e5F";

/// Asserts that neither standard error nor a file has this, or half of it.
#[track_caller]
fn hides(place: &Place, done: &Done, form: &str) {
    let chars: Vec<_> = form.chars().collect();
    for part in chars.windows(chars.len().div_ceil(2)) {
        let part: String = part.iter().collect();
        done.silent_about(&part);
        for name in place.names().iter().filter(|name| *name != "users.csv") {
            let shown = String::from_utf8_lossy(&place.read(name)).contains(&part);
            done.check(!shown, &format!("`{name}` does not have `{part}`"));
        }
    }
}

#[test]
fn the_key_is_shown_in_no_form_in_which_a_server_repeats_it() {
    // In base64 with the scheme, and alone; in groups; in hexadecimal; escaped; in capitals; in part.
    let forms = [
        "QmVhcmVyIHNrLWxpdmUtMGExQjJjM0Q0ZTVG",
        "c2stbGl2ZS0wYTFCMmMzRDRlNUY=",
        "sk-l-ive-0a1-B2c3-D4e5-F",
        "736b2d6c6976652d30613142326333443465354",
        "%73%6b%2d%6c%69%76%65%2d%30%61%31%42%32%63%33%44%34%65%35%46",
        "\\u0073\\u006b\\u002d\\u006c\\u0069\\u0076\\u0065\\u002d\\u0030\\u0061\\u0031\\u0042",
        "SK_LIVE_0A1B2C3D4E5F",
        "sk-live-0a1B2c",
    ];
    let answers = [
        (200, false),
        (401, true),
        (422, false),
        (422, true),
        (500, false),
    ];
    for (form, (code, json)) in forms.into_iter().zip(answers.into_iter().cycle()) {
        let place = Place::with("users.csv", users::csv(1));
        let server = Server::start(move |_| {
            let words = format!("no such key: {form}");
            let object = serde_json::json!({ "error": words }).to_string();
            answer(code, &[], if json { &object } else { &words })
        });
        let program = place.scoring(&server).args("--retries 0");
        let done = program.env("RESCORE_API_KEY", KEY).done();
        done.check(done.code() != Some(0), "a failure");
        hides(&place, &done, form);
    }
}

#[test]
fn words_of_a_server_that_repeat_anything_of_a_row_are_not_shown() {
    for code in [200, 401, 422, 500] {
        let place = Place::with("users.csv", users::named(["Agnieszka Zoltowska"]));
        let words = "not for Agnieszka Zoltowska <user1@example.com> at 192.0.2.1!";
        let server = Server::start(move |_| answer(code, &[], words));
        let done = place.score(&server, "--retries 0");
        done.check(done.code() != Some(0), "a failure");
        for part in ["Agnieszka", "user1@example.com", "192.0.2.1"] {
            done.silent_about(part);
        }
        if code == 401 {
            done.says("401 Unauthorized (text, 61 bytes)");
        }
    }
    // What is not even text is named with its length.
    let utf_16 = "Jane".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let page = b"\xef\xbb\xbf<html>Jane</html>".to_vec();
    for (body, said) in [
        (utf_16, "the answer is not JSON but binary (8 bytes)"),
        (page, "the answer is not JSON but HTML (20 bytes)"),
    ] {
        let place = Place::with("users.csv", users::csv(1));
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        let whole = [head.into_bytes(), body].concat();
        let server = Server::start(move |_| raw(whole.clone()));
        place.score(&server, "").silent_about("Jane");
        let rejects = place
            .names()
            .into_iter()
            .find(|name| name.contains("rejects"));
        let rejects = place.text(&rejects.unwrap());
        assert!(
            rejects.contains(said) && !rejects.contains("Jane"),
            "{rejects}"
        );
    }
}
