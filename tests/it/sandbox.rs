//! The stand-in: what it makes of the samples, what it asks of a client, and that its bill adds up after a rehearsal.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{Done, KEY, Place, Program, Running};
use crate::users::{self, COLUMNS};

/// The path of a file that everybody gets with the program.
fn sample(name: &str) -> String {
    format!("{}/samples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Scores a sample with the built-in stand-in.
fn score(place: &Place, name: &str, output: &str) -> Done {
    place
        .rescore(["run", &sample(name), "-o", output, "--sandbox"])
        .done()
}

/// Takes everything out of `text` that begins with `begin` and ends before one of `ends`: what is left, what was taken.
fn cut<'a>(text: &'a str, begin: &str, ends: &[char]) -> (String, Vec<&'a str>) {
    let mut pieces = text.split(begin);
    let mut left = pieces.next().unwrap().to_owned();
    let mut taken = Vec::new();
    for piece in pieces {
        let (ours, theirs) = piece.split_at(piece.find(ends).unwrap_or(piece.len()));
        left.push_str(theirs);
        taken.push(ours);
    }
    (left, taken)
}

/// The file that was scored, and of each row what follows its transaction id.
fn taken_apart(scored: &str) -> (String, Vec<String>) {
    let (left, taken) = if scored.starts_with('{') {
        cut(scored, ",\"transaction_id\":\"sandbox-", &['}'])
    } else {
        let (left, taken) = cut(scored, ",sandbox-", &['\r', '\n']);
        assert_eq!(left.matches(COLUMNS).count(), 1);
        (left.replacen(COLUMNS, "", 1), taken)
    };
    let verdicts = taken.iter().map(|ours| {
        let (id, verdict) = ours.split_once(',').unwrap();
        assert_eq!(
            id.trim_end_matches('"').len(),
            "00000001-00000000".len(),
            "{ours}"
        );
        verdict.to_owned()
    });
    (left, verdicts.collect())
}

#[test]
fn the_samples_get_all_decisions_and_come_back_unchanged_but_for_them() {
    for name in ["users.csv", "users.jsonl"] {
        let place = Place::new();
        let done = score(&place, name, name);
        done.exits(0)
            .says("sandbox")
            .says("200 rows")
            .says("6 equal to another row")
            .says("194 billed by the stand-in");
        assert_eq!(place.names(), [name], "no partial file and no rejects");
        let scored = place.text(name);
        let (left, verdicts) = taken_apart(&scored);
        assert_eq!(left, fs::read_to_string(sample(name)).unwrap());
        assert_eq!(verdicts.len(), 200);
        for decision in ["approve", "review", "block"] {
            let rows = verdicts
                .iter()
                .filter(|verdict| verdict.contains(decision))
                .count();
            assert!(rows >= 10, "{rows} rows have `{decision}`");
        }

        score(&place, name, "again").exits(0);
        let again = place.text("again");
        let (left, same) = taken_apart(&again);
        assert_eq!(left, fs::read_to_string(sample(name)).unwrap());
        assert_eq!(same, verdicts, "the same users get the same scores");
    }
}

#[test]
fn the_messy_sample_shows_what_can_be_wrong_with_a_row() {
    let place = Place::new();
    let done = score(&place, "messy.csv", "scored.csv");
    done.exits(1)
        .says("failed 11")
        .says("see scored.rejects.csv")
        .says("sandbox");
    assert_eq!(
        place.names(),
        ["scored.csv", "scored.csv.ledger", "scored.rejects.csv"]
    );
    let rejects = place.read("scored.rejects.csv");
    let mut reasons = BTreeMap::new();
    for line in String::from_utf8_lossy(&rejects).lines() {
        let cells: Vec<_> = line.splitn(4, ',').collect();
        // Rows have line breaks in them: only what begins with our three cells begins a row.
        if let [_, reason, message, _] = cells[..]
            && message.starts_with("line ")
        {
            *reasons.entry(reason.to_owned()).or_insert(0) += 1;
        }
    }
    let expected = [
        ("invalid_ip", 1),
        ("ragged", 2),
        ("missing_ip", 1),
        ("invalid_email", 2),
        ("invalid_phone", 1),
        ("missing_contact", 1),
        ("missing_user_agent", 1),
        ("text_after_quote", 1),
        ("not_utf8", 1),
    ];
    let expected: BTreeMap<_, _> = expected
        .map(|(reason, rows)| (reason.to_owned(), rows))
        .into();
    assert_eq!(reasons, expected);
    let scored = place.read("scored.csv");
    let verdicts = String::from_utf8_lossy(&scored)
        .matches(",sandbox-")
        .count();
    assert_eq!(verdicts, 39 - 11);
}

/// `rescore sandbox` as a process of its own.
pub(crate) struct StandIn<'a> {
    address: String,
    /// Until it was stopped.
    running: Option<Running<'a>>,
}

/// An answer as it came over the wire.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: Value,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let (_, value) = lines.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value)
    }
}

/// The headers that the interface asks for.
const HEADERS: &str =
    "Authorization: Bearer any\r\nX-Service-ID: test\r\nContent-Type: application/json\r\n";

impl<'a> StandIn<'a> {
    pub(crate) fn start(place: &'a Place, arguments: &[&str]) -> Self {
        Self::start_at(place, "127.0.0.1:0", arguments)
    }

    /// Starts one where another one was.
    pub(crate) fn start_at(place: &'a Place, address: &str, arguments: &[&str]) -> Self {
        let program = place.rescore(["sandbox", "--listen", address]);
        let program = arguments.iter().fold(program, Program::arg);
        let running = program.start();
        // The last words before it serves; the address is in the first.
        running.wait_for_words("Ctrl-C");
        let said = running.said();
        let (_, rest) = said.split_once("listening on http://").unwrap();
        let address = rest.lines().next().unwrap().to_owned();
        Self {
            address,
            running: Some(running),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends a request with these header lines.
    fn send(&self, line: &str, headers: &str, body: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        Reply {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: serde_json::from_str(body).expect("an answer's body is JSON"),
        }
    }

    /// Asks about a user in the right way.
    fn ask(&self, body: &Value) -> Reply {
        self.send("POST /v1/validate/user", HEADERS, &body.to_string())
    }

    pub(crate) fn bill(&self) -> Value {
        let reply = self.send("GET /billed", "", "");
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    /// Ends it as Ctrl-C does.
    pub(crate) fn stop(mut self) -> Done {
        let running = self.running.take().unwrap();
        running.signal("INT");
        running.done()
    }
}

impl Drop for StandIn<'_> {
    fn drop(&mut self) {
        // A test that fails must not leave a process behind.
        if let Some(running) = &self.running {
            running.signal("KILL");
        }
    }
}

fn user() -> Value {
    json!({"name": "Jane Doe", "email": "jane@example.com", "ip": "192.0.2.1", "user_agent": "Mozilla/5.0"})
}

/// The user with these fields set; `null` takes one away.
fn user_with(changes: &Value) -> Value {
    let mut user = user();
    for (field, value) in changes.as_object().unwrap() {
        user[field] = value.clone();
        if value.is_null() {
            user.as_object_mut().unwrap().remove(field);
        }
    }
    user
}

/// An error with this status that says these words, in the shape of kin services.
#[track_caller]
fn refused(reply: &Reply, status: u16, words: &str) {
    let message = reply.body["error"]["message"].as_str().unwrap_or_default();
    assert!(
        reply.status == status && message.contains(words),
        "expected {status} and `{words}`: {reply:?}"
    );
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

#[test]
fn requests_against_the_interface_are_refused_and_cost_nothing() {
    let place = Place::new();
    let stand_in = StandIn::start(&place, &[]);
    let good = user().to_string();
    let post = "POST /v1/validate/user";

    for line in [
        "POST /",
        "POST /v1/validate",
        "POST /v2/validate/user",
        "POST /billed",
        "GET /",
    ] {
        refused(
            &stand_in.send(line, HEADERS, &good),
            404,
            "/v1/validate/user",
        );
    }
    for method in ["GET", "PUT", "DELETE"] {
        let line = format!("{method} /v1/validate/user");
        let reply = stand_in.send(&line, HEADERS, &good);
        refused(&reply, 405, "POST");
        assert_eq!(reply.header("allow"), Some("POST"));
    }
    for (line, instead, status, words) in [
        ("Authorization: Bearer any\r\n", "", 401, "Authorization"),
        ("Bearer any", "Basic any", 401, "bearer"),
        ("Bearer any", "Bearer ", 401, "bearer"),
        ("Bearer any", "any", 401, "bearer"),
        ("X-Service-ID: test\r\n", "", 401, "X-Service-ID"),
        ("X-Service-ID: test", "X-Service-ID: ", 401, "X-Service-ID"),
        (
            "Content-Type: application/json\r\n",
            "",
            415,
            "Content-Type",
        ),
        ("application/json", "text/plain", 415, "application/json"),
    ] {
        let headers = HEADERS.replace(line, instead);
        assert_ne!(headers, HEADERS);
        refused(&stand_in.send(post, &headers, &good), status, words);
    }
    for body in ["", "{", "[]", "null", "\"Jane\"", &good[..good.len() - 1]] {
        refused(&stand_in.send(post, HEADERS, body), 400, "JSON");
    }
    for (changes, words) in [
        (json!({"name": null}), "name"),
        (json!({"ip": null}), "ip"),
        (json!({"user_agent": null}), "user_agent"),
        (json!({"name": ""}), "empty"),
        (json!({"email": ""}), "empty"),
        (json!({"email": null}), "email or phone"),
        (json!({"email": "jane.example.com"}), "email"),
        (json!({"phone": "0151 2345678"}), "phone"),
        (json!({"phone": "+49 151 2345678"}), "phone"),
        (json!({"phone": "+123456"}), "phone"),
        (json!({"ip": "999.1.2.3"}), "ip"),
        (json!({"name": " Jane"}), "white space"),
        (json!({"name": 7}), "types"),
        (json!({"vpn_check": "yes"}), "types"),
    ] {
        refused(&stand_in.ask(&user_with(&changes)), 400, words);
    }
    let refusals = 5 + 3 + 8 + 6 + 14;
    let bill = stand_in.bill();
    assert_eq!(
        [&bill["requests"], &bill["refused"], &bill["billed"]],
        [&json!(refusals), &json!(refusals), &json!(0)]
    );
    stand_in
        .stop()
        .exits(0)
        .says(&format!("requests {refusals}, billed 0"));
}

#[test]
fn a_right_request_is_scored_and_billed() {
    let place = Place::new();
    let stand_in = StandIn::start(&place, &[]);
    let users = [
        user(),
        user_with(&json!({"email": null, "phone": "+491512345678"})),
        user_with(&json!({"vpn_check": true, "advanced": false, "further": [1]})),
        user_with(&json!({
            "name": "x9", "email": "a@mailinator.example", "ip": "10.0.0.1", "user_agent": "curl/8"
        })),
    ];
    let mut ids = HashSet::new();
    let mut scores = Vec::new();
    for user in &users {
        let reply = stand_in.ask(user);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
        let id = reply.body["transaction_id"].as_str().unwrap();
        assert!(id.starts_with("sandbox-"), "{id}");
        ids.insert(id.to_owned());
        let score = reply.body["summary"]["risk_score"].as_f64().unwrap();
        assert!((0.0..=10.0).contains(&score), "{score}");
        scores.push(score);
    }
    assert_eq!(ids.len(), users.len(), "each transaction has its own id");
    assert!(scores[0] <= 2.0 && scores[3] > 5.0, "{scores:?}");
    // Header names may be in any case, and a charset does no harm.
    let headers = HEADERS
        .to_lowercase()
        .replace("bearer any", "Bearer any")
        .replace("/json", "/json; charset=utf-8");
    let reply = stand_in.send("POST /v1/validate/user", &headers, &user().to_string());
    assert_eq!(reply.body["summary"]["risk_score"], json!(scores[0]));

    stand_in.ask(&json!({}));
    let bill = stand_in.bill();
    assert_eq!(
        [&bill["requests"], &bill["refused"], &bill["billed"]],
        [&json!(6), &json!(1), &json!(5)]
    );
    assert_eq!(stand_in.bill(), bill, "to ask for the bill costs nothing");
    let done = stand_in.stop();
    done.exits(0).says("requests 6, billed 5");
    done.check(done.stdout.is_empty(), "nothing on standard output");
}

#[test]
fn the_free_plan_takes_neither_flag() {
    let place = Place::new();
    let stand_in = StandIn::start(&place, &["--plan", "free"]);
    for flag in ["vpn_check", "advanced"] {
        for value in [true, false] {
            refused(
                &stand_in.ask(&user_with(&json!({flag: value}))),
                403,
                "paid",
            );
        }
    }
    assert_eq!(stand_in.ask(&user()).status, 200);
    // The program on the free plan sends neither.
    place.write("users.csv", users::csv(3));
    let url = stand_in.url();
    let run = |plan| {
        let arguments = [
            "run",
            "users.csv",
            "-o",
            "scored.csv",
            "--overwrite",
            "--service-id",
            "test",
            "--plan",
            plan,
            "--base-url",
            &url,
            "--free-base-url",
            &url,
        ];
        place.rescore(arguments).env("RESCORE_API_KEY", KEY).done()
    };
    run("free").exits(0);
    run("paid").exits(4).says("403").says("plan");
    assert_eq!(stand_in.bill()["billed"], json!(4));
    stand_in.stop().exits(0);
}

#[test]
fn above_its_limit_it_asks_to_wait() {
    let place = Place::new();
    // So slow that nothing grows back while the test runs.
    let limit = ["--rate-limit", "0.001", "--burst", "2"];
    for (further, named) in [(&["--retry-after", "7"] as &[&str], Some("7")), (&[], None)] {
        let stand_in = StandIn::start(&place, &[&limit, further].concat());
        for _ in 0..2 {
            assert_eq!(stand_in.ask(&user()).status, 200);
        }
        let reply = stand_in.ask(&user());
        refused(&reply, 429, "too many");
        assert_eq!(reply.header("retry-after"), named);
        let bill = stand_in.bill();
        assert_eq!(
            [&bill["billed"], &bill["throttled"]],
            [&json!(2), &json!(1)]
        );
        stand_in
            .stop()
            .exits(0)
            .says("requests 3, billed 2, throttled 1");
    }
}

/// Scores 200 users against a stand-in with these faults: what the program says of it, the bill, and the file.
fn rehearse(arguments: &[&str]) -> (Value, Value, String) {
    let place = Place::with("users.csv", users::csv(200));
    let stand_in = StandIn::start(&place, arguments);
    let url = stand_in.url();
    let arguments = [
        "run",
        "users.csv",
        "-o",
        "scored.csv",
        "--base-url",
        &url,
        "--service-id",
        "test",
        "--rate",
        "unlimited",
        // The third back-off is the first that may take seconds.
        "--retries",
        "2",
        "--summary",
        "summary.json",
    ];
    let done = place.rescore(arguments).env("RESCORE_API_KEY", KEY).done();
    let summary: Value = serde_json::from_slice(&place.read("summary.json")).unwrap();
    let failed = summary["failed"]["rows"].as_u64().unwrap();
    done.exits(i32::from(failed > 0));
    let bill = stand_in.bill();
    stand_in
        .stop()
        .exits(0)
        .says(&format!("billed {},", bill["billed"]));
    (summary, bill, place.text("scored.csv"))
}

/// Of a rehearsal with whatever faults: every call is in both books, and every verdict in the file was paid for once.
fn check_books(summary: &Value, bill: &Value, scored: &str) {
    let told = format!("{summary:#}\n{bill:#}");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}\n{told}"));
    let calls = |name: &str| number(&summary["calls"][name]);

    let (left, taken) = cut(scored, ",sandbox-", &['\n']);
    let verdicts = taken.len() as u64;
    let failed = number(&summary["failed"]["rows"]);
    assert_eq!(verdicts + failed, 200, "{told}");
    assert_eq!(left.matches(users::EMPTY).count() as u64, failed, "{told}");
    let ids: HashSet<_> = taken
        .iter()
        .map(|ours| ours.split(',').next().unwrap())
        .collect();
    assert_eq!(ids.len() as u64, verdicts, "no transaction stands twice");
    let decided = ["approve", "review", "block"].map(|word| number(&summary["decisions"][word]));
    assert_eq!(decided.iter().sum::<u64>(), verdicts, "{told}");
    assert_eq!(calls("answered"), verdicts, "{told}");

    assert_eq!(number(&bill["requests"]), calls("sent"), "{told}");
    assert_eq!(number(&bill["throttled"]), calls("throttled"), "{told}");
    assert_eq!(number(&bill["refused"]), 0, "{told}");
    let lost = number(&bill["faults"]["reset"]) + number(&bill["faults"]["stall"]);
    assert_eq!(calls("unknown_outcome"), lost, "{told}");
    assert!(calls("maybe_billed_twice") <= lost, "{told}");
    let useless = number(&bill["faults"]["bad-json"]);
    assert_eq!(calls("billed_without_verdict"), useless, "{told}");
    // A call whose outcome is unknown may have been billed. Here none was: the stand-in hangs up before it bills.
    assert_eq!(
        number(&bill["billed"]),
        verdicts + calls("billed_without_verdict"),
        "{told}"
    );
    // Each call brought a verdict, was throttled, was tried again or was its row's last.
    assert_eq!(
        calls("sent"),
        verdicts + calls("throttled") + calls("retries") + failed,
        "{told}"
    );
}

#[test]
fn a_rehearsal_with_faults_and_a_limit_adds_up() {
    let (summary, bill, scored) = rehearse(&[
        "--fault",
        "500=0.2",
        "--fault",
        "reset=0.05",
        "--seed",
        "7",
        "--rate-limit",
        "2000",
        "--burst",
        "20",
        "--retry-after",
        "0",
    ]);
    check_books(&summary, &bill, &scored);
    // A fifth and a twentieth of at least 200 calls: none at all would mean that nothing was rehearsed.
    for fault in ["500", "reset"] {
        assert!(bill["faults"][fault].as_u64() > Some(0), "{bill}");
    }
}

#[test]
fn answers_that_were_billed_and_bring_nothing_are_told_apart() {
    let (summary, bill, scored) = rehearse(&[
        "--fault",
        "bad-json=0.1",
        "--fault",
        "503=0.05",
        "--seed",
        "7",
    ]);
    check_books(&summary, &bill, &scored);
    assert_eq!(
        summary["failed"]["reasons"]["bad_answer"],
        bill["faults"]["bad-json"]
    );
}

#[test]
fn it_listens_on_this_machine_only() {
    let place = Place::new();
    for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:8787"] {
        let done = place.rescore(["sandbox", "--listen", address]).done();
        done.exits(2)
            .says(&format!("`{address}`"))
            .says("loopback")
            .says("--listen 127.0.0.1:");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let done = place.rescore(["sandbox", "--listen", &address]).done();
    done.exits(2).says("cannot listen on").says(&address);
}

#[test]
fn what_it_cannot_play_is_refused_with_what_it_can() {
    let place = Place::new();
    let cases: [(&[&str], &str); 9] = [
        (
            &["--fault", "404=1"],
            "402, 403, 500, 503, reset, stall and bad-json",
        ),
        (&["--fault", "500"], "`500=0.01`"),
        (&["--fault", "500=1.5"], "between 0 and 1"),
        (
            &["--fault", "500=0.9", "--fault", "reset=0.2"],
            "more than 1",
        ),
        (&["--rate-limit", "0"], "0.001 to 1000000000"),
        (&["--burst", "3"], "--rate-limit"),
        (&["--retry-after", "3"], "--rate-limit"),
        (&["--latency", "30"], "`500ms`"),
        // A key that was forgotten, as by `--accept-key "$KEY"`, must not stand for one that is accepted.
        (&["--accept-key", ""], "--accept-key <KEY>"),
    ];
    for (arguments, words) in cases {
        let program = place.rescore(["sandbox"]);
        let program = arguments.iter().fold(program, Program::arg);
        program.done().exits(2).says("error:").says(words);
    }
    let program = place.rescore(["sandbox"]);
    let done = program
        .env("RESCORE_SANDBOX_FAULT", "500=0.1\n404=1")
        .done();
    done.exits(2).says("404=1");
}
