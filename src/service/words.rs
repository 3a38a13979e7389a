//! The service's own words, as far as they may be shown: short, on one line, and without anything
//! that we sent.
//!
//! If a body is not JSON, or its words cannot be trusted, only its kind and length are shown.

use serde_json::Value;

use super::exchange::Reply;
use super::redact::SentRequest;
use crate::base::error::quoted;

/// Longer words are a web page or a stack trace, and not a message for a person.
const LONGEST: usize = 500;

/// A body without its byte order mark, which JSON must not have and readers may ignore (RFC 8259,
/// section 8.1).
pub(super) fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

/// The status and the service's own words.
pub(super) fn said(reply: &Reply) -> String {
    let status = reply.status;
    let phrase = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("");
    let status = if phrase.is_empty() {
        status.to_string()
    } else {
        format!("{status} {phrase}")
    };
    let body = without_mark(&reply.body);
    let (kind, words) = if let Ok(json) = serde_json::from_slice(body) {
        ("JSON", message(&json).map(str::to_owned))
    } else {
        let kind = kind(&reply.body);
        (kind, text(kind, body))
    };
    match words.and_then(|words| shown(&words, &reply.sent)) {
        Some(words) => format!("{status}: {words}"),
        None if body.trim_ascii().is_empty() => status,
        None => format!("{status} ({kind}, {})", length(reply)),
    }
}

/// The message for a success whose body is not JSON: what it is instead.
pub(super) fn not_json(reply: &Reply) -> String {
    let body = without_mark(&reply.body);
    if body.trim_ascii().is_empty() {
        return "the answer is empty".to_owned();
    }
    let (kind, length) = (kind(&reply.body), length(reply));
    match text(kind, body).and_then(|words| shown(&words, &reply.sent)) {
        Some(words) => format!("the answer is not JSON but {kind}, {length}: {words}"),
        None if kind == UTF_16 => format!("the answer is in {kind}, not in UTF-8 ({length})"),
        None if kind == BROKEN => format!("the answer is cut off or broken JSON ({length})"),
        None => format!("the answer is not JSON but {kind} ({length})"),
    }
}

fn shown(words: &str, sent: &SentRequest) -> Option<String> {
    let words = words.trim();
    if words.is_empty() || words.len() > LONGEST {
        return None;
    }
    sent.redact(words).map(|words| quoted(&words))
}

/// The message in an error body, in any of the shapes that similar services use.
fn message(json: &Value) -> Option<&str> {
    let error = json.get("error");
    let candidates = [
        error.and_then(|error| error.get("message")),
        error,
        error.and_then(|error| error.get("code")),
        json.get("message"),
        json.get("detail"),
        json.get("title"),
    ];
    candidates.into_iter().flatten().find_map(Value::as_str)
}

const UTF_16: &str = "UTF-16";
const BROKEN: &str = "broken JSON";
const TEXT: &str = "text";

/// The kind of a body that is not JSON.
fn kind(body: &[u8]) -> &'static str {
    let start = without_mark(body).trim_ascii_start();
    match body {
        [0xfe, 0xff, ..] | [0xff, 0xfe, ..] => UTF_16,
        // Without a byte order mark: all texts that we know of start with ASCII.
        [0, first, ..] | [first, 0, ..] if (b' '..0x7f).contains(first) => UTF_16,
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
        _ if start.starts_with(b"<?xml") => "XML",
        _ if start.starts_with(b"<") => "HTML",
        // It may contain parts of what we sent, escaped.
        _ if start.starts_with(b"{") || start.starts_with(b"[") || start.starts_with(b"\"") => {
            BROKEN
        }
        _ if std::str::from_utf8(body).is_err() || body.contains(&0) => "binary",
        _ => TEXT,
    }
}

fn text(kind: &str, body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    (kind == TEXT).then(|| text.to_owned())
}

fn length(reply: &Reply) -> String {
    match reply.body.len() {
        _ if reply.cut => "more than 1 MiB".to_owned(),
        1 => "1 byte".to_owned(),
        length => format!("{length} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::base::secret::Secret;
    use crate::service::redact::ApiKeys;

    fn reply(status: u16, body: &[u8]) -> Reply {
        Reply {
            status,
            body: Bytes::copy_from_slice(body),
            sent: SentRequest {
                api_keys: ApiKeys::new(Secret::new("sk-live-0123456789")),
                body: Bytes::from_static(br#"{"name":"Jane Doe"}"#),
            },
            ..Reply::ok("")
        }
    }

    #[test]
    fn the_services_message_is_found_in_any_shape() {
        for body in [
            r#"{"error":{"code":"c","message":"bad email"}}"#,
            r#"{"error":"bad email"}"#,
            r#"{"message":"bad email"}"#,
            r#"{"title":"t","detail":"bad email"}"#,
            "bad email\n",
            "\u{feff}bad email",
            "\u{feff}{\"error\":\"bad email\"}",
        ] {
            assert_eq!(
                said(&reply(422, body.as_bytes())),
                "422 Unprocessable Entity: `bad email`"
            );
        }
    }

    #[test]
    fn a_body_that_is_not_json_is_named_with_its_length() {
        let long = "x".repeat(LONGEST + 1);
        for (body, kind) in [
            (&b"<html>nginx</html>"[..], "HTML, 18 bytes"),
            (b" \n<!DOCTYPE html>", "HTML, 17 bytes"),
            (b"\xef\xbb\xbf<html>", "HTML, 9 bytes"),
            (b"<?xml version='1.0'?>", "XML, 21 bytes"),
            (b"\xff\xfeb\0a\0d\0", "UTF-16, 8 bytes"),
            (b"\xfe\xff\0b\0a\0d", "UTF-16, 8 bytes"),
            (b"b\0a\0d\0", "UTF-16, 6 bytes"),
            (b"\0b\0a\0d", "UTF-16, 6 bytes"),
            (b"\x1f\x8b\x08\0", "gzip, 4 bytes"),
            (b"b\xe9d", "binary, 3 bytes"),
            (b"bad\0", "binary, 4 bytes"),
            (br#"{"error":"ba"#, "broken JSON, 12 bytes"),
            (b"7", "JSON, 1 byte"),
            (br#"{"code":7}"#, "JSON, 10 bytes"),
            (long.as_bytes(), "text, 501 bytes"),
            (b"no key SK-LIVE-01234567 89", "text, 26 bytes"),
            (br#"{"error":"no JaneDoe!!"}"#, "JSON, 24 bytes"),
        ] {
            let shown = String::from_utf8_lossy(body);
            assert_eq!(
                said(&reply(502, body)),
                format!("502 Bad Gateway ({kind})"),
                "{shown}"
            );
        }
        assert_eq!(said(&reply(502, b" \r\n")), "502 Bad Gateway");
    }

    #[test]
    fn a_success_that_is_not_json_says_what_it_is() {
        for (body, said) in [
            (&b""[..], "the answer is empty"),
            (b"\xef\xbb\xbf ", "the answer is empty"),
            (
                b"<html><body>Log in",
                "the answer is not JSON but HTML (18 bytes)",
            ),
            (
                b"maintenance\n",
                "the answer is not JSON but text, 12 bytes: `maintenance`",
            ),
            (
                b"hello jane doe",
                "the answer is not JSON but text, 14 bytes: `hello …`",
            ),
            (
                b"c2stbGl2ZS0wMTIzNDU2Nzg5",
                "the answer is not JSON but text (24 bytes)",
            ),
            (
                br#"{"transaction_id":"a","summ"#,
                "the answer is cut off or broken JSON (27 bytes)",
            ),
            (
                b"{\0\"\0",
                "the answer is in UTF-16, not in UTF-8 (4 bytes)",
            ),
        ] {
            assert_eq!(not_json(&reply(200, body)), said);
        }
    }
}
