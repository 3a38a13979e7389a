//! A hostile or badly broken service: escape sequences for terminals, and answers without end.

use std::io::Write as _;
use std::time::Duration;

use crate::support::process::{Done, Place, Program, clean};
use crate::support::server::{Action, Request, Server, answer, good, good_body, ok, raw, silence};
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

/// Everything that a service can say about a row that ends only that row.
fn evil_about_a_row(request: &Request) -> Action {
    let (raw_evil, escaped) = (json_string(EVIL, false), json_string(EVIL, true));
    let head = |status: &str, header: &str| {
        format!("HTTP/1.1 {status}\r\nx-note: {header}\r\nserver: {header}\r\n")
    };
    let whole = |head: String, body: &str| {
        raw(format!(
            "{head}content-length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    match request.name().as_str() {
        "message" => answer(
            422,
            &[],
            &format!(r#"{{"error":{{"message":{raw_evil}}}}}"#),
        ),
        "escaped message" => answer(400, &[], &format!(r#"{{"detail":{escaped}}}"#)),
        "text" => answer(409, &[], EVIL),
        "phrase" => raw(format!(
            "HTTP/1.1 422 {EVIL_HEADER}\r\ncontent-length: 0\r\n\r\n"
        )),
        "evil phrase" => {
            raw(format!("HTTP/1.1 422 {EVIL}\r\ncontent-length: 0\r\n\r\n")).then_close()
        }
        "header" => whole(head("413 x", EVIL_HEADER), EVIL),
        "evil header" => whole(head("200 OK", EVIL), &good_body("x")).and(silence().then_close()),
        "id" => ok(&format!(
            r#"{{"transaction_id":{raw_evil},"summary":{{"risk_score":1}}}}"#
        )),
        "escaped id" => ok(&format!(
            r#"{{"transaction_id":{escaped},"summary":{{"risk_score":1}}}}"#
        )),
        "turned id" => ok("{\"transaction_id\":\"a\u{202e}b\",\"summary\":{\"risk_score\":1}}"),
        "line in id" => ok(r#"{"transaction_id":"a\u2028b","summary":{"risk_score":1}}"#),
        "no json" => ok(EVIL),
        "garbage" => raw(EVIL).then_close(),
        // A good answer, with a captured column of every type.
        name => {
            let columns = format!(
                r#""text":{raw_evil},"escaped":{escaped},"list":[{raw_evil},{escaped}],"object":{{{raw_evil}:{escaped}}},"#
            );
            ok(&good_body(name).replacen('{', &format!("{{{columns}"), 1))
        }
    }
}

const EVIL_ROWS: [&str; 13] = [
    "message",
    "escaped message",
    "text",
    "phrase",
    "evil phrase",
    "header",
    "evil header",
    "id",
    "escaped id",
    "turned id",
    "line in id",
    "no json",
    "garbage",
];

fn with_columns(program: Program<'_>) -> Program<'_> {
    ["text", "escaped", "list", "object"]
        .iter()
        .fold(program, |program, name| {
            program.arg("--column").arg(format!("{name}=/{name}"))
        })
}

#[test]
fn nothing_that_a_service_says_of_a_row_steers_a_terminal_or_turns_a_file_around() {
    // A good one before each: several failures in a row may rightly stop a run.
    let names: Vec<_> = EVIL_ROWS
        .iter()
        .flat_map(|name| [format!("before {name}"), (*name).to_owned()])
        .collect();
    let objects: String = names
        .iter()
        .map(|name| users::object(name) + "\n")
        .collect();
    for (input, content, output, style) in [
        ("users.csv", users::named(&names), "scored.csv", "plain"),
        ("users.jsonl", objects, "scored.jsonl", "json"),
    ] {
        let (place, server) = (Place::with(input, content), Server::start(evil_about_a_row));
        let program = place.run(&server, [input, "-o", output, "-c", "1", "--retries", "0"]);
        let program = with_columns(program).args("--resend-unknown 0");
        let program = program.args(["--summary", "summary.json", "--progress", style]);
        let done = program.done();
        done.exits(1);
        done.check(server.calls() == names.len(), "each row is asked once");
        all_clean(&place, &done);
        let rejects = place.text(&output.replace('.', ".rejects."));
        let failed = EVIL_ROWS.iter().filter(|name| {
            let needle = if style == "json" {
                format!("\"{name}\"")
            } else {
                format!(",{name},")
            };
            rejects.lines().any(|line| line.contains(&needle))
        });
        assert_eq!(failed.count(), EVIL_ROWS.len(), "{rejects}");
    }
}

#[test]
fn nothing_that_a_service_says_of_a_run_steers_a_terminal() {
    let (raw_evil, escaped) = (json_string(EVIL, false), json_string(EVIL, true));
    for code in [301, 401, 402, 403, 404, 405, 407, 410, 429, 503, 511, 200] {
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
                    ("retry-after", "99999"),
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

/// Far more than fits into memory.
const PIECES: usize = 80_000;

/// An answer that continues as long as it is read: a head, and then the same piece again and again.
fn endless(way: &str) -> Option<Action> {
    const CHUNKED: &str = "transfer-encoding: chunked\r\n\r\n";
    let piece = "x".repeat(0xffff);
    let chunk = format!("ffff\r\n{piece}\r\n");
    let (head, piece): (String, Vec<u8>) = match way {
        "body" => (format!("HTTP/1.1 200 OK\r\n{CHUNKED}"), chunk.into()),
        "body of known length" => (
            "HTTP/1.1 200 OK\r\ncontent-length: 5242800000\r\n\r\n".to_owned(),
            piece.into(),
        ),
        "body until the end" => ("HTTP/1.1 200 OK\r\n\r\n".to_owned(), piece.into()),
        "refusal" => (format!("HTTP/1.1 422 x\r\n{CHUNKED}"), chunk.into()),
        "server error" => (format!("HTTP/1.1 500 x\r\n{CHUNKED}"), chunk.into()),
        "gzip bomb" => {
            // A block of spaces, many times over: 5 GB when unpacked, and some MB packed.
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            packed.write_all(&vec![b' '; 64 << 20]).unwrap();
            let packed = packed.finish().unwrap();
            let chunk = [
                format!("{:x}\r\n", packed.len()).as_bytes(),
                &packed,
                b"\r\n",
            ]
            .concat();
            (
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n{CHUNKED}"
                ),
                chunk,
            )
        }
        "header" => ("HTTP/1.1 200 OK\r\nx-long: ".to_owned(), piece.into()),
        "headers" => (
            "HTTP/1.1 200 OK\r\n".to_owned(),
            "x-more: y\r\n".repeat(6_000).into(),
        ),
        "status line" => ("HTTP/1.1 200 ".to_owned(), piece.into()),
        "chunk's head" => (format!("HTTP/1.1 200 OK\r\n{CHUNKED}1;"), piece.into()),
        "trailers" => (
            format!("HTTP/1.1 200 OK\r\n{CHUNKED}0\r\n"),
            "x-more: y\r\n".repeat(6_000).into(),
        ),
        "interim answers" => (
            String::new(),
            "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
                .repeat(1_000)
                .into(),
        ),
        _ => return None,
    };
    Some(raw(head).then_flood(piece, PIECES).then_close())
}

/// Those that end by themselves, and the message in the rejects for each.
const ENDLESS: [(&str, &str); 11] = [
    ("body", "bad_answer,the answer is longer than 1 MiB"),
    (
        "body of known length",
        "bad_answer,the answer is longer than 1 MiB",
    ),
    (
        "body until the end",
        "bad_answer,the answer is longer than 1 MiB",
    ),
    (
        "refusal",
        "refused,\"422 Unprocessable Entity (text, more than 1 MiB)\"",
    ),
    (
        "server error",
        "server_error,\"500 Internal Server Error (text, more than 1 MiB)\"",
    ),
    ("gzip bomb", "bad_answer,the answer is longer than 1 MiB"),
    (
        "header",
        "no_answer,the connection broke: message head is too large",
    ),
    (
        "headers",
        "no_answer,the connection broke: message head is too large",
    ),
    (
        "status line",
        "no_answer,the connection broke: message head is too large",
    ),
    (
        "chunk's head",
        "no_answer,the connection broke: chunk extensions over limit",
    ),
    (
        "trailers",
        "no_answer,the connection broke: chunk trailers count overflow",
    ),
];

/// Scores a user for each of these ways, with a good one before each. Returns the run, how many bytes of each answer could
/// be sent, and the peak memory of the run in KiB.
fn flooded(ways: &[&str], timeout: &str) -> (Place, Done, Vec<usize>, Option<usize>) {
    let names = ways
        .iter()
        .flat_map(|way| [format!("before {way}"), (*way).to_owned()]);
    let csv = users::named(names.chain(["last".to_owned()]));
    // The last one waits, so that the process is still there to measure its memory.
    let (server, release) = Server::start_holding_if(
        |request| request.name() == "last",
        |request| endless(&request.name()).unwrap_or_else(|| good(request)),
    );
    let place = Place::with("users.csv", &csv);
    let args = "users.csv -o scored.csv -c 1 --retries 0";
    let program = place.run(&server, args).args("--resend-unknown 0");
    let running = program.arg("--timeout").arg(timeout).start();
    server.wait_for_calls(2 * ways.len() + 1);
    let peak = running.peak_memory();
    let mut flooded: Vec<_> = server.flooded().into_iter().collect();
    drop(release);
    let done = running.done();
    done.exits(1);
    done.check(
        server.calls() == 2 * ways.len() + 1,
        "each row is asked once",
    );
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, |name| ways.contains(&name))
    );
    flooded.sort_unstable();
    let flooded = flooded.into_iter().map(|(_, bytes)| bytes).collect();
    (place, done, flooded, peak)
}

/// The memory that a run may use, in KiB, for a debug build.
const MEMORY: usize = 80 << 10;

fn is_flat(done: &Done, peak: Option<usize>) {
    match peak {
        Some(peak) => done.check(peak < MEMORY, &format!("{peak} KiB are less than {MEMORY}")),
        None => println!("skipped: how much memory it took is not to be known here"),
    }
}

#[test]
fn memory_stays_flat_whatever_comes_without_end() {
    /// What is read before the limit is reached, plus the system's buffers.
    const SENT: usize = 32 << 20;
    let ways = ENDLESS.map(|(way, _)| way);
    let (place, done, flooded, peak) = flooded(&ways, "30s");
    is_flat(&done, peak);
    assert_eq!(flooded.len(), ENDLESS.len(), "{flooded:?}");
    for ((way, _), sent) in ENDLESS.iter().zip(flooded) {
        done.check(
            sent < SENT,
            &format!("{sent} bytes of the {way} are a small part"),
        );
    }
    let rejects = place.text("scored.rejects.csv");
    for (i, ((way, said), line)) in (1..).zip(ENDLESS.iter().zip(rejects.lines().skip(1))) {
        let row = 2 * i;
        assert!(
            line.starts_with(&format!("{row},{said},{row},{way},")),
            "{line}"
        );
    }
}

#[test]
fn endless_interim_answers_are_not_an_answer() {
    let (place, done, _, peak) = flooded(&["interim answers"], "1s");
    is_flat(&done, peak);
    done.says("1 call may have been billed without an answer");
    let rejects = place.text("scored.rejects.csv");
    assert!(
        rejects.contains("\n2,no_answer,no complete answer in time,"),
        "{rejects}"
    );
}

#[test]
fn an_answer_that_comes_twice_shifts_those_after_it_until_the_connection_is_replaced() {
    const ROWS: usize = 400;
    let place = Place::with("users.csv", users::csv(ROWS));
    let wait = Duration::from_millis(5);
    // The copy arrives when the next request is on its way on the same connection, and the answer to that when the one
    // after it is.
    let server = Server::start(move |request: &Request| {
        let answer = good(request).after(wait);
        match request.nth {
            5 => answer.then_wait(wait).and(good(request)),
            _ => answer,
        }
    });
    let done = place.score(&server, "-c 1");
    done.exits(0)
        .says("1 answer had the transaction id of a different user");
    let expected = users::scored(&users::csv(ROWS));
    let scored = place.text("scored.csv");
    let wrong = scored.lines().zip(expected.lines());
    let wrong = wrong.filter(|(got, wanted)| got != wanted).count();
    assert!((1..100).contains(&wrong), "{wrong}");
}
