//! What a user gets for each class of answers that src/service/classify.rs tells apart.

use std::io::Write as _;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::support::process::Place;
use crate::support::server::{
    Action, Request, Server, answer, good, good_body, ok, raw, silence, status, user,
};
use crate::support::users::{self, Verdict};

/// What a row gets at first, how its line in the rejects begins, and how many calls it costs.
type Case = (fn() -> Action, &'static str, usize);

/// The classes A to E; the rows of class A get their verdict.
const CASES: [Case; 15] = [
    (|| answer(429, &[("retry-after", "0")], ""), "", 2),
    (|| answer(425, &[("retry-after", "0")], ""), "", 2),
    (|| answer(503, &[("retry-after", "0")], ""), "", 2),
    (
        || {
            let headers = [("x-ratelimit-remaining", "0"), ("retry-after", "0")];
            answer(403, &headers, "")
        },
        "",
        2,
    ),
    (|| silence().then_close(), "no_answer,", 1),
    (|| status(100).then_close(), "no_answer,", 1),
    (|| status(101).then_close(), "no_answer,", 1),
    (|| status(408), "server_error,", 1),
    (|| status(503), "server_error,", 1),
    (|| answer(204, &[], ""), "bad_answer,", 1),
    (|| answer(206, &[], "{}"), "bad_answer,", 1),
    (|| ok("{}"), "bad_answer,", 1),
    (|| status(403), "forbidden,", 1),
    (|| status(413), "refused,", 1),
    (
        || status(422),
        "refused,422 Unprocessable Entity: `the server's own words`,",
        1,
    ),
];

#[test]
fn each_answer_that_ends_a_row_ends_only_that_row_and_says_what_it_may_have_cost() {
    // Good answers between any two: if half of the answers are bad, the service counts as down.
    let names = (0..CASES.len())
        .flat_map(|case| ["good", "fine", "case"].map(|word| format!("{word} {case}")));
    let csv = users::named(names);
    let case = |name: &str| -> Option<usize> { name.strip_prefix("case ")?.parse().ok() };
    let server = Server::start(move |request| match case(&request.name()) {
        Some(case) if request.attempt == 1 => CASES[case].0(),
        _ => good(request),
    });
    let place = Place::with("users.csv", &csv);
    let done = place.score(&server, "-c 1 --retries 0 --resend-unknown 0");
    done.exits(1)
        .says("3 calls got an answer without a verdict and will probably be billed\n")
        .says("3 calls may have been billed without an answer\n")
        .says("the service throttled 5 calls");
    let fails = |name: &str| case(name).is_some_and(|case| !CASES[case].1.is_empty());
    assert_eq!(
        place.text("scored.csv"),
        users::scored_without(&csv, fails),
        "{done}"
    );
    let rejects = place.text("scored.rejects.csv");
    let mut rejects = rejects.lines().skip(1);
    for (number, (_, reason, calls)) in CASES.iter().enumerate() {
        let asked = server.requests();
        let asked = asked.iter().filter(|it| case(&it.name()) == Some(number));
        assert_eq!(asked.count(), *calls, "case {number}: {done}");
        if !reason.is_empty() {
            let (row, line) = (3 * (number + 1), rejects.next().unwrap());
            assert!(line.starts_with(&format!("{row},{reason}")), "{line}");
        }
    }
    assert_eq!(rejects.next(), None);
}

#[test]
fn answers_without_a_verdict_are_paid_once_and_never_read_as_a_score() {
    let deep = format!(
        r#"{{"transaction_id":"t-1","summary":{}}}"#,
        "[".repeat(100_000)
    );
    let long = format!(
        r#"{{"transaction_id":"{}","summary":{{"risk_score":1}}}}"#,
        "x".repeat(1_000_000)
    );
    // Each reason is a case of the tests in src/service/answer.rs.
    let bodies = [
        "",
        "<html>Log in</html>",
        "[]",
        &deep,
        &long,
        r#"{"transaction_id":"t-1","summary":{"risk_score":"1.5"}}"#,
        r#"{"transaction_id":"t-1","summary":{"risk_score":1e400}}"#,
        r#"{"transaction_id":"t-1","summary":{"risk_score":01}}"#,
        r#"{"transaction_id":"t-1","summary":null}"#,
        r#"{"transaction_id":null,"summary":{"risk_score":1}}"#,
        r#"{"status":false,"transaction_id":"t-1","summary":{"risk_score":1}}"#,
        r#"{"transaction_id":"t-1","summary":{"risk_score":1}"#,
        r#"{"transaction_id":"t-1","summary":{"risk_score":1}} x"#,
    ]
    .map(str::to_owned);
    let rows = bodies.len() + 1;
    let script = move |request: &Request| match request.nth {
        1 => good(request),
        nth => ok(&bodies[nth - 2]),
    };
    let csv = users::csv(rows);
    let (place, server) = (Place::with("users.csv", &csv), Server::start(script));
    let done = place.score(&server, "-c 1 --keep-going");
    done.exits(1).silent_about("\u{1b}");
    assert_eq!(server.calls(), rows, "{done}");
    let scored = users::scored_without(&csv, |name| name != "User 1");
    assert_eq!(place.text("scored.csv"), scored);
    let rejects = place.text("scored.rejects.csv");
    assert_eq!(rejects.matches(",bad_answer,").count(), rows - 1);
    assert!(!rejects.contains('\u{1b}'));
}

#[test]
fn an_answer_is_kept_whatever_its_id_looks_like() {
    const ROWS: usize = 64;
    let long = "x".repeat(3_000);
    // As the service sends it, and as a cell has it.
    let ids = [
        ("-abc_1", "-abc_1"),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("@x", "'@x"),
        ("-1+cmd|' /C calc'!A0", "'-1+cmd|' /C calc'!A0"),
        ("\ta\tb", " a b"),
        ("a\u{1b}[2J\u{202e}\nb", "a [2J  b"),
        (&long, &long),
    ];
    let sent: Vec<_> = ids.iter().map(|(id, _)| (*id).to_owned()).collect();
    let server = Server::start(move |request| match sent.get(user(request)) {
        Some(id) => ok(&json!({"transaction_id": id, "summary": {"risk_score": 1}}).to_string()),
        None => good(request),
    });
    let names: Vec<_> = (0..ROWS).map(|row| format!("User {row}")).collect();
    let objects: String = { names.iter() }
        .map(|name| users::object(name) + "\n")
        .collect();
    let place = Place::with("users.csv", users::named(&names));
    place.write("users.jsonl", objects);
    for format in ["csv", "jsonl"] {
        let calls_before = server.calls();
        let run = |from: &str, to: &str, args: &str| {
            let args = format!("{from}.{format} -o {to}.{format} {args}");
            let done = place.run(&server, args.as_str()).exits(0);
            done.silent_about("\u{1b}");
            place.text(&format!("{to}.{format}"))
        };
        let scored = run("users", "scored", "--ledger l");
        assert!(!scored.contains(['\u{1b}', '\u{202e}', '\t']), "{scored}");
        for (row, line) in scored
            .lines()
            .skip(usize::from(format == "csv"))
            .enumerate()
        {
            let of_service = Verdict::of(&names[row]).id;
            if format == "csv" {
                let cell = ids.get(row).map_or(&*of_service, |(_, cell)| cell);
                assert!(line.contains(&format!(",{cell},")), "{line}");
            } else {
                let id = ids.get(row).map_or(&*of_service, |(id, _)| id);
                let object: Value = serde_json::from_str(line).unwrap();
                assert_eq!(object["transaction_id"], id);
            }
        }
        // The same command, and the scored file as an input.
        assert_eq!(run("users", "scored", "--ledger l --overwrite"), scored);
        assert_eq!(run("scored", "again", "--ledger l"), scored);
        let decide = format!("decide scored.{format} -o decided.{format}");
        place.rescore(decide.as_str()).exits(0);
        assert_eq!(place.text(&format!("decided.{format}")), scored);
        assert_eq!(server.calls() - calls_before, ROWS);
    }
}

#[test]
fn a_row_that_waits_holds_back_none_of_thousands() {
    const ROWS: usize = 4_500;
    let csv = users::csv(ROWS);
    let (server, release) = Server::holding_if(|request| request.name() == "User 2");
    let place = Place::with("users.csv", &csv);
    let running = place.scoring(&server).args("-c 64").start();
    server.wait_for_calls(ROWS);
    drop(release);
    running.exits(0);
    assert!(place.text("scored.csv") == users::scored(&csv));
}

#[test]
fn an_answer_that_comes_twice_spoils_the_one_after_it_and_then_the_connection_is_replaced() {
    const ROWS: usize = 400;
    let place = Place::with("users.csv", users::csv(ROWS));
    // The connection on which the fifth answer comes twice, and whose answer is the next one there.
    let shifted = Mutex::new((0, String::new()));
    let server = Server::start(move |request: &Request| {
        let mut shifted = shifted.lock().unwrap();
        if request.nth == 5 {
            *shifted = (request.connection, request.name());
        }
        if request.connection != shifted.0 {
            return good(request);
        }
        let name = std::mem::replace(&mut shifted.1, request.name());
        ok(&good_body(&name))
    });
    let done = place.score(&server, "-c 1");
    done.exits(0).says("1 answer had the transaction id");
    let (scored, expected) = (place.text("scored.csv"), users::scored(&users::csv(ROWS)));
    let lines = scored.lines().zip(expected.lines());
    let wrong = lines.filter(|(got, wanted)| got != wanted).count();
    assert_eq!(wrong, 1);
}

/// An answer in gzip, in these bytes.
fn packed(text: &[u8], change: impl Fn(&mut Vec<u8>)) -> Action {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(text).unwrap();
    let mut packed = packed.finish().unwrap();
    change(&mut packed);
    let length = packed.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n");
    raw([head.into_bytes(), packed].concat())
}

#[test]
fn an_answer_in_gzip_is_read_although_nobody_asked_for_it() {
    let server = Server::start(|request| {
        let body = good_body(&request.name());
        match request.name().as_str() {
            "two" => packed(body.as_bytes(), |packed| packed.extend(packed.clone())),
            "cut" => packed(body.as_bytes(), |packed| packed.truncate(30)),
            "bomb" => packed(&vec![b' '; 2 << 20], |_| {}),
            _ => packed(body.as_bytes(), |_| {}),
        }
    });
    let names = ["a", "two", "b", "cut", "c", "bomb"];
    let place = Place::with("users.csv", users::named(names));
    let done = place.score(&server, "-c 1");
    done.exits(1);
    assert_eq!(server.calls(), names.len());
    let fails = |name: &str| ["two", "cut", "bomb"].contains(&name);
    let scored = users::scored_without(&users::named(names), fails);
    assert_eq!(place.text("scored.csv"), scored);
    let rejects = place.text("scored.rejects.csv");
    for why in [
        "broken JSON",
        "not JSON but binary (30 bytes)",
        "longer than 1 MiB",
    ] {
        assert!(rejects.contains(why), "{why}: {rejects}");
    }
}
