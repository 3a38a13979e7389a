//! The stand-in keeps to the interface: what it asks of a request, and what its answers cost.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::process::Place;
use crate::support::stand_in::{HEADERS, Reply, StandIn};
use crate::support::users;

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
    assert!(
        reply.status == status && message.contains(words),
        "expected {status} and `{words}`: {reply:?}"
    );
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

#[test]
fn requests_against_the_interface_are_refused_and_cost_nothing() {
    let place = Place::new();
    let stand_in = StandIn::start(&place, "");
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
    let stand_in = StandIn::start(&place, "");
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
    // Header names may be in any case, and a charset is allowed.
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
    let stand_in = StandIn::start(&place, "--plan free");
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
        let program = place.run_at(&url).args(["--overwrite", "--plan", plan]);
        program.args(["--free-base-url", &url]).done()
    };
    run("free").exits(0);
    run("paid").exits(4).says("403").says("plan");
    assert_eq!(stand_in.bill()["billed"], json!(4));
    stand_in.stop().exits(0);
}

#[test]
fn above_its_limit_it_asks_to_wait() {
    let place = Place::new();
    // So slow that no call becomes free again during the test.
    let limit = ["--rate-limit", "0.001", "--burst", "2"];
    for (further, named) in [(&["--retry-after", "7"] as &[&str], Some("7")), (&[], None)] {
        let stand_in = StandIn::start(&place, [&limit, further].concat());
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
