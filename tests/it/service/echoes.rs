//! A service, proxy or login page that repeats what it was sent in other forms and encodings, and answers that are not
//! encoded as JSON must be.

use crate::support::process::{Done, Place};
use crate::support::server::{Server, answer, good_body, ok, raw};
use crate::support::users;

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

/// The key as careless servers repeat it: in base64 with the scheme, alone, and for URLs; in groups; in hexadecimal;
/// escaped; in capitals; in part.
const FORMS: [&str; 8] = [
    "QmVhcmVyIHNrLWxpdmUtMGExQjJjM0Q0ZTVG",
    "c2stbGl2ZS0wYTFCMmMzRDRlNUY=",
    "sk-l-ive-0a1-B2c3-D4e5-F",
    "736b2d6c6976652d30613142326333443465354",
    "%73%6b%2d%6c%69%76%65%2d%30%61%31%42%32%63%33%44%34%65%35%46",
    "\\u0073\\u006b\\u002d\\u006c\\u0069\\u0076\\u0065\\u002d\\u0030\\u0061\\u0031\\u0042",
    "SK_LIVE_0A1B2C3D4E5F",
    "sk-live-0a1B2c",
];

#[test]
fn the_key_is_shown_in_no_form_in_which_a_server_repeats_it() {
    for form in FORMS {
        for code in [200, 401, 404, 422, 500] {
            for json in [true, false] {
                let place = Place::with("users.csv", users::csv(1));
                let server = Server::start(move |_| {
                    let words = format!("no such key: {form}");
                    let object = serde_json::json!({ "error": words }).to_string();
                    let body = if json { object } else { words };
                    answer(code, &[], &body)
                });
                let program = place.run(&server, "users.csv -o scored.csv --retries 0");
                let done = program.env("RESCORE_API_KEY", KEY).done();
                done.check(done.code() != Some(0), "a failure");
                hides(&place, &done, form);
            }
        }
    }
}

#[test]
fn a_persons_values_are_not_shown_where_a_server_repeats_them() {
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
            done.says("401 Unauthorized: `not for … <…> at …!`");
        }
    }
}

#[test]
fn words_that_repeat_nothing_are_shown() {
    let place = Place::with("users.csv", users::csv(1));
    let server = Server::start(|_| answer(401, &[], "this key has expired; see the portal"));
    let done = place.score(&server, "");
    done.exits(4)
        .says("\n  the service said: 401 Unauthorized: `this key has expired; see the portal`\n");
}

#[test]
fn a_good_answer_with_a_byte_order_mark_is_read() {
    let csv = users::csv(3);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| ok(&format!("\u{feff}{}", good_body(&request.name()))));
    place.score(&server, "").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn what_is_not_json_is_named_and_not_shown() {
    let utf_16 = |text: &str| -> Vec<u8> {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    };
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, b'J', b'a', b'n', b'e'].to_vec();
    for (body, said) in [
        (
            utf_16(&good_body("x")),
            "the answer is not JSON but binary (",
        ),
        (
            utf_16("Jane"),
            "the answer is not JSON but binary (10 bytes)",
        ),
        (gzip, "the answer is not JSON but binary (14 bytes)"),
        (
            "\u{feff}<html>Jane</html>".into(),
            "the answer is not JSON but HTML (20 bytes)",
        ),
        (
            "Jane\u{0}".into(),
            "the answer is not JSON but binary (5 bytes)",
        ),
        (
            format!("Jane {}", "x".repeat(600)).into(),
            "the answer is not JSON but text (605 bytes)",
        ),
    ] {
        let place = Place::with("users.csv", users::csv(1));
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        let whole = [head.into_bytes(), body].concat();
        let server = Server::start(move |_| raw(whole.clone()));
        let done = place.score(&server, "");
        done.silent_about("Jane");
        let rejects = place
            .names()
            .into_iter()
            .find(|name| name.contains("rejects"));
        let rejects = rejects.map(|name| place.text(&name)).unwrap_or_default();
        done.check(rejects.contains(said), said);
        assert!(!rejects.contains("Jane"), "{rejects}");
    }
}
