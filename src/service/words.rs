//! The service's own words about a refusal, if they may be displayed: short, on one line, without any form of the key, and
//! without the row's values except in the rejects file.
//!
//! Servers like to quote what they refuse, and their words end up on terminals and in files. It must
//! not know what an answer means.

use serde_json::Value;

use super::api_key::ApiKeys;
use super::client::{Reply, SentRequest};
use crate::base::secret::{Hidden, Secret};
use crate::base::text::printable;

/// Longer words are a web page or a stack trace, and not a message for a person.
const MAX_WORDS_BYTES: usize = 500;

/// A shorter key is one of a test, such as `sandbox`, and may be a part of any id.
const MIN_KEY_BYTES: usize = 12;

/// Tells which words about a request must not be displayed.
pub(super) type Hides = fn(&SentRequest, &str) -> bool;

impl ApiKeys {
    /// Whether a text that would be written contains a key that is long enough not to be there by chance.
    pub(super) fn are_in(&self, text: &str) -> bool {
        let mut keys = self.0.iter().map(Secret::expose);
        // This is asked for each row, and only escapes can hide a key in a cell.
        let escaped = text.contains('\\');
        keys.any(|key| {
            key.len() >= MIN_KEY_BYTES
                && (text.contains(key) || (escaped && self.any_form_is_in(text)))
        })
    }

    /// Whether any form of a key is in the words, or half of one.
    fn any_form_is_in(&self, words: &str) -> bool {
        let mut hidden = Hidden::default();
        for key in &*self.0 {
            hidden.add_key(key.expose());
        }
        hidden.is_in(words)
    }
}

impl SentRequest {
    /// Whether any form of a key is in the words. Then nobody may see them.
    pub(super) fn key_is_in(&self, words: &str) -> bool {
        self.api_keys.any_form_is_in(words)
    }

    /// Whether any form of a key is in the words, or a part of a person's data in the request. Words with data of the row stand
    /// only in the rejects file, which has the row as well.
    pub(super) fn anything_is_in(&self, words: &str) -> bool {
        let mut hidden = Hidden::default();
        let sent = serde_json::from_slice::<Value>(&self.body).unwrap_or_default();
        for name in ["name", "email", "phone", "ip"] {
            hidden.add_value(sent.get(name).and_then(Value::as_str).unwrap_or_default());
        }
        let user_agent = sent.get("user_agent").and_then(Value::as_str);
        hidden.add_whole(user_agent.unwrap_or_default());
        self.key_is_in(words) || hidden.is_in(words)
    }
}

/// The status, and the service's own words about a refusal, if they may be shown.
pub(super) fn said(reply: &Reply, hides: Hides) -> String {
    match spoken(reply, hides) {
        Some(words) => format!("{}: {words}", status(reply)),
        None => described(reply),
    }
}

/// The service's own words, in backticks: the message or code of JSON, a text, or the title of a page. Of several, the first
/// that is short enough and may be shown; `None` if there is none.
pub(super) fn spoken(reply: &Reply, hides: Hides) -> Option<String> {
    let body = without_mark(&reply.body);
    let text = || std::str::from_utf8(body).ok();
    let words: Vec<String> = match serde_json::from_slice(body) {
        Ok(json) => messages(&json).map(str::to_owned).collect(),
        Err(_) => match kind(body) {
            TEXT => text().into_iter().map(str::to_owned).collect(),
            HTML => text().and_then(title).into_iter().collect(),
            _ => Vec::new(),
        },
    };
    let words = words.iter().map(|words| words.trim());
    let mut words = words.filter(|words| !words.is_empty() && words.len() <= MAX_WORDS_BYTES);
    let words = words.find(|words| !hides(&reply.sent, words))?;
    Some(format!("`{}`", printable(words)))
}

/// The title of a page, on one line.
fn title(page: &str) -> Option<String> {
    let start = page.to_ascii_lowercase().find("<title")?;
    let (_, rest) = page.get(start..)?.split_once('>')?;
    let (title, _) = rest.split_once('<')?;
    let words: Vec<_> = title.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The status, and what the body is, for an answer that is not about the row.
pub(super) fn described(reply: &Reply) -> String {
    let status = status(reply);
    match kind(&reply.body) {
        EMPTY => status,
        kind => format!("{status} ({kind}, {})", length(reply)),
    }
}

/// The message for a success whose body is not JSON: what it is instead.
pub(super) fn not_json(reply: &Reply) -> String {
    match kind(&reply.body) {
        EMPTY => "the answer is empty".to_owned(),
        BROKEN => format!("the answer is cut off or broken JSON ({})", length(reply)),
        kind => format!("the answer is not JSON but {kind} ({})", length(reply)),
    }
}

/// Whether a body seems to come from something other than the service, such as a proxy or a login
/// page. An empty one does not, and one that starts as JSON may be an answer that was cut off.
pub(super) fn is_page(body: &[u8]) -> bool {
    matches!(kind(body), HTML | BINARY | TEXT)
}

/// A body without its byte order mark, which JSON must not have and readers may ignore (RFC 8259,
/// section 8.1).
pub(super) fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)
}

fn status(reply: &Reply) -> String {
    let known = reqwest::StatusCode::from_u16(reply.status).ok();
    match known.and_then(|status| status.canonical_reason()) {
        Some(phrase) => format!("{} {phrase}", reply.status),
        None => reply.status.to_string(),
    }
}

/// The messages in an error body, in any of the shapes that similar services use, and codes where they come last.
fn messages(json: &Value) -> impl Iterator<Item = &str> {
    let error = json.get("error");
    let candidates = [
        error.and_then(|error| error.get("message")),
        error,
        error.and_then(|error| error.get("code")),
        json.get("message"),
        json.get("detail"),
        json.get("title"),
        json.get("code"),
    ];
    candidates.into_iter().flatten().filter_map(Value::as_str)
}

const EMPTY: &str = "nothing";
const JSON: &str = "JSON";
const BROKEN: &str = "broken JSON";
const HTML: &str = "HTML";
const BINARY: &str = "binary";
const TEXT: &str = "text";

/// What kind of text a body is.
fn kind(body: &[u8]) -> &'static str {
    let body = without_mark(body).trim_ascii();
    match body {
        [] => EMPTY,
        _ if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok() => JSON,
        [b'{' | b'[' | b'"', ..] => BROKEN,
        [b'<', ..] => HTML,
        _ if std::str::from_utf8(body).is_err() || body.contains(&0) => BINARY,
        _ => TEXT,
    }
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

    const KEY: &str = "sk_live/51H?x~Qz+0aB";

    fn reply(status: u16, body: &[u8]) -> Reply {
        Reply {
            status,
            body: Bytes::copy_from_slice(body),
            sent: SentRequest {
                api_keys: ApiKeys::new(Secret::new(KEY)),
                body: Bytes::from_static(br#"{"name":"Jan\u00e9 Doe","ip":"::1"}"#),
            },
            ..Reply::ok("")
        }
    }

    #[test]
    fn keys_of_some_length_are_found_in_cells() {
        let keys = ApiKeys::new(Secret::new("other-key-00")).and(&Secret::new(KEY));
        assert!(keys.are_in("id-sk_live/51H?x~Qz+0aB-7"));
        assert!(keys.are_in("sk_live\\/51H?x~Qz+0aB"));
        assert!(!keys.are_in("44de328f-0a55-4c1c-8b1e-4f3c2f6b3d11"));
    }

    #[test]
    fn the_services_message_is_found_in_any_shape_and_only_the_rejects_have_it_with_the_rows_values()
     {
        for (body, shown) in [
            (
                r#"{"error":{"code":"c","message":"bad name Jané Doe of ::1"}}"#,
                ": `c`",
            ),
            (
                r#"{"error":"bad name Jané Doe of ::1"}"#,
                " (JSON, 37 bytes)",
            ),
            (
                r#"{"message":"bad name Jan\u00e9 Doe of ::1","code":"E7"}"#,
                ": `E7`",
            ),
            (
                r#"{"title":"t","detail":"bad name Jané Doe of ::1"}"#,
                ": `t`",
            ),
            ("bad name Jané Doe of ::1\n", " (text, 26 bytes)"),
            ("\u{feff}bad name Jané Doe of ::1", " (text, 28 bytes)"),
        ] {
            let reply = reply(422, body.as_bytes());
            assert_eq!(
                said(&reply, SentRequest::anything_is_in),
                format!("422 Unprocessable Entity{shown}")
            );
            let whole = "422 Unprocessable Entity: `bad name Jané Doe of ::1`";
            assert_eq!(said(&reply, SentRequest::key_is_in), whole);
        }
    }

    #[test]
    fn a_body_without_a_message_is_named_by_what_it_is_with_its_length() {
        let long = "x".repeat(MAX_WORDS_BYTES + 1);
        let secret = format!("no key {}", KEY.to_uppercase());
        // Whether it looks like the page of another program.
        for (body, kind, page) in [
            (&b"<html>nginx</html>"[..], "HTML, 18 bytes", true),
            (b" \n<!DOCTYPE html>", "HTML, 17 bytes", true),
            (b"\xef\xbb\xbf<html>", "HTML, 9 bytes", true),
            (b"\xff\xfeb\0a\0d\0", "binary, 8 bytes", true),
            (br#"{"error":"ba"#, "broken JSON, 12 bytes", false),
            (b"7", "JSON, 1 byte", false),
            (br#"{"code":7}"#, "JSON, 10 bytes", false),
            (long.as_bytes(), "text, 501 bytes", true),
            (secret.as_bytes(), "text, 27 bytes", true),
        ] {
            let expected = format!("422 Unprocessable Entity ({kind})");
            assert_eq!(said(&reply(422, body), SentRequest::key_is_in), expected);
            assert_eq!(described(&reply(422, body)), expected);
            assert_eq!(is_page(body), page, "{kind}");
        }
        assert_eq!(
            said(&reply(502, b" \r\n"), SentRequest::key_is_in),
            "502 Bad Gateway"
        );
        for (body, why) in [
            (&b"\xef\xbb\xbf "[..], "the answer is empty"),
            (b"<html>", "the answer is not JSON but HTML (6 bytes)"),
            (
                br#"{"summ"#,
                "the answer is cut off or broken JSON (6 bytes)",
            ),
        ] {
            assert_eq!(not_json(&reply(200, body)), why);
        }
    }
}
