//! The stand-in: that it keeps to the interface, what it makes of the samples, and that its bill adds up.

use std::collections::HashSet;
use std::fs;

use serde_json::{Value, json};

use crate::support::process::{Done, Place};
use crate::support::stand_in::{HEADERS, Reply, StandIn};
use crate::support::users::{self, COLUMNS};

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

/// An error with this status and these words, in the usual shape.
#[track_caller]
fn refused(reply: &Reply, status: u16, words: &str) {
    let message = reply.body["error"]["message"].as_str().unwrap_or_default();
    let is_right = reply.status == status && message.contains(words);
    assert!(is_right, "expected {status} and `{words}`: {reply:?}");
}

#[test]
fn requests_against_the_interface_are_refused_and_cost_nothing() {
    let place = Place::new();
    let stand_in = StandIn::start(&place, "");
    let good = user().to_string();
    let post = "POST /v1/validate/user";
    for (line, replaced, instead, status, words) in [
        ("POST /v2/validate/user", "", "", 404, "/v1/validate/user"),
        ("GET /v1/validate/user", "", "", 405, "POST"),
        (
            post,
            "Authorization: Bearer any\r\n",
            "",
            401,
            "Authorization",
        ),
        (post, "Bearer any", "Basic any", 401, "bearer"),
        (post, "X-Service-ID: test\r\n", "", 401, "X-Service-ID"),
        (
            post,
            "application/json",
            "text/plain",
            415,
            "application/json",
        ),
    ] {
        let headers = HEADERS.replace(replaced, instead);
        refused(&stand_in.send(line, &headers, &good), status, words);
    }
    refused(&stand_in.send(post, HEADERS, &good[..9]), 400, "JSON");
    for (changes, words) in [
        (json!({"name": null}), "name"),
        (json!({"email": null}), "email or phone"),
        (json!({"phone": "0151 2345678"}), "phone"),
        (json!({"name": 7}), "types"),
    ] {
        refused(&stand_in.ask(&user_with(&changes)), 400, words);
    }
    let bill = stand_in.bill();
    assert_eq!(
        [&bill["requests"], &bill["refused"], &bill["billed"]],
        [11, 11, 0]
    );
    stand_in.stop().exits(0).says("requests 11, billed 0");
}

#[test]
fn a_right_request_is_scored_and_billed() {
    let place = Place::new();
    let stand_in = StandIn::start(&place, "");
    let risky = json!({"name": "x9", "email": "a@mailinator.example", "ip": "10.0.0.1", "user_agent": "curl/8"});
    let phone = json!({"email": null, "phone": "+491512345678", "vpn_check": true});
    let (mut ids, mut scores) = (HashSet::new(), Vec::new());
    for user in [user(), user_with(&phone), user_with(&risky)] {
        let reply = stand_in.ask(&user);
        assert_eq!(reply.status, 200, "{reply:?}");
        ids.insert(reply.body["transaction_id"].to_string());
        scores.push(reply.body["summary"]["risk_score"].as_f64().unwrap());
    }
    assert_eq!(ids.len(), 3, "each transaction has its own id");
    assert!(scores[0] <= 2.0 && scores[2] > 5.0, "{scores:?}");
    let bill = stand_in.bill();
    assert_eq!(
        [&bill["requests"], &bill["refused"], &bill["billed"]],
        [3, 0, 3]
    );
    assert_eq!(stand_in.bill(), bill, "to ask for the bill costs nothing");
    stand_in.stop().exits(0).says("requests 3, billed 3");
}

/// The path of a file that everybody gets with the program.
fn sample(name: &str) -> String {
    format!("{}/samples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Scores a sample with the built-in stand-in.
fn score(place: &Place, name: &str, output: &str) -> Done {
    let run = place.rescore(["run", &sample(name), "-o", output, "--sandbox"]);
    run.done()
}

/// Takes each piece out of `text` that starts with `start` and ends before one of `ends`. Returns the rest and the pieces.
fn cut<'a>(text: &'a str, start: &str, ends: &[char]) -> (String, Vec<&'a str>) {
    let mut pieces = text.split(start);
    let mut left = pieces.next().unwrap().to_owned();
    let mut taken = Vec::new();
    for piece in pieces {
        let (ours, theirs) = piece.split_at(piece.find(ends).unwrap_or(piece.len()));
        left.push_str(theirs);
        taken.push(ours);
    }
    (left, taken)
}

#[test]
fn the_samples_get_all_decisions_and_come_back_unchanged_but_for_them() {
    for (name, start) in [
        ("users.csv", ",sandbox-"),
        ("users.jsonl", ",\"transaction_id\":\"sandbox-"),
    ] {
        let place = Place::new();
        let done = score(&place, name, name);
        done.exits(0)
            .says("200 rows")
            .says("which billed 194 calls");
        done.says("6 rows reused the answer of an identical request");
        assert_eq!(place.names(), ["sandbox.ledger", name]);
        score(&place, name, "again").exits(0);
        let (scored, again) = (place.text(name), place.text("again"));
        let input = fs::read_to_string(sample(name)).unwrap();
        let verdicts = [&scored, &again].map(|scored| {
            let (left, taken) = cut(scored, start, &['\r', '\n', '}']);
            assert_eq!(left.replacen(COLUMNS, "", 1), input);
            let verdict = |ours: &&str| ours.split_once(',').unwrap().1.to_owned();
            taken.iter().map(verdict).collect::<Vec<_>>()
        });
        assert_eq!(verdicts[0].len(), 200);
        assert_eq!(
            verdicts[0], verdicts[1],
            "the same users get the same scores"
        );
        for decision in ["approve", "review", "block"] {
            let rows = verdicts[0]
                .iter()
                .filter(|verdict| verdict.contains(decision));
            assert!(rows.count() >= 10, "`{decision}`");
        }
    }
}

/// Scores 200 users against a stand-in with these faults, and compares the summary and the bill: they agree on every call,
/// and each verdict in the file was paid for once.
fn books_agree(faults: &str) -> Value {
    let place = Place::with("users.csv", users::csv(200));
    let stand_in = StandIn::start(&place, faults);
    // Only from the third on may a back-off take seconds.
    let run = place
        .run_at(stand_in.url())
        .args("--rate unlimited --retries 2");
    let done = run.args("--summary summary.json").done();
    let (summary, bill) = (place.json("summary.json"), stand_in.bill());
    let scored = place.text("scored.csv");
    let told = format!("{summary:#}\n{bill:#}");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}\n{told}"));
    let calls = |name: &str| number(&summary["calls"][name]);
    let failed = number(&summary["failed"]["rows"]);
    done.exits(i32::from(failed > 0));
    let stopped = stand_in.stop();
    stopped
        .exits(0)
        .says(&format!("billed {},", bill["billed"]));

    let (left, taken) = cut(&scored, ",sandbox-", &['\n']);
    let verdicts = taken.len() as u64;
    assert_eq!(verdicts + failed, 200, "{told}");
    assert_eq!(left.matches(users::EMPTY).count() as u64, failed, "{told}");
    let ids: HashSet<_> = taken.iter().map(|ours| ours.split(',').next()).collect();
    assert_eq!(ids.len() as u64, verdicts, "no transaction stands twice");
    let decided = ["approve", "review", "block"].map(|word| number(&summary["decisions"][word]));
    assert_eq!(decided.iter().sum::<u64>(), verdicts, "{told}");

    assert_eq!(number(&bill["requests"]), calls("sent"), "{told}");
    let throttled = number(&bill["throttled"]);
    let bare = bill["faults"]["503"].as_u64().unwrap_or_default();
    assert_eq!(throttled + bare, calls("throttled"), "{told}");
    let lost = number(&bill["faults"]["reset"]) + number(&bill["faults"]["stall"]);
    assert_eq!(calls("unknown_outcome"), lost, "{told}");
    assert!(calls("maybe_billed_twice") <= lost, "{told}");
    let useless = number(&bill["faults"]["bad-json"]);
    assert_eq!(calls("billed_without_verdict"), useless, "{told}");
    // A call with an unknown outcome may have been billed. None was here: the stand-in hangs up before it bills.
    assert_eq!(number(&bill["billed"]), verdicts + useless, "{told}");
    // Each call brought a verdict, was throttled, was retried, or was the last for its row.
    let all = verdicts + throttled + calls("retries") + failed;
    assert_eq!(calls("sent"), all, "{told}");
    bill
}

#[test]
fn a_rehearsal_with_faults_and_a_limit_adds_up() {
    let bill = books_agree(
        "--fault 500=0.2 --fault reset=0.05 --seed 7 --rate-limit 2000 --burst 20 --retry-after 0",
    );
    // A fifth and a twentieth of at least 200 calls: zero would mean that nothing was rehearsed.
    for fault in ["500", "reset"] {
        assert!(bill["faults"][fault].as_u64() > Some(0), "{bill}");
    }
    // Answers that were billed and brought no verdict are counted apart.
    let bill = books_agree("--fault bad-json=0.1 --fault 503=0.05 --seed 7");
    assert!(bill["faults"]["bad-json"].as_u64() > Some(0), "{bill}");
}
