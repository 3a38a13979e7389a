//! The service's own words about a refusal, as far as they may be shown: short, on one line, without
//! the key in any form, and without the row's values as they were sent.
//!
//! Servers like to quote what they refuse, and their words end up on terminals and in files. It must
//! not know what an answer means.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::Value;

use super::api_key::ApiKeys;
use super::exchange::{Reply, SentRequest};
use crate::base::secret::Secret;
use crate::base::text::printable;

/// Longer words are a web page or a stack trace, and not a message for a person.
const LONGEST: usize = 500;

/// How many characters of them are shown.
const SHOWN: usize = 200;

/// A shorter value of a row says nothing of anybody, and is a part of many words.
const SHORTEST_VALUE: usize = 3;

/// A shorter key is one of a test, such as `sandbox`, and may be a part of any id.
const SHORTEST_KEY: usize = 12;

/// A shorter base64 text could be an ordinary word.
const SHORTEST_ENCODED: usize = 8;

impl ApiKeys {
    /// Whether a text that would be written contains a key that is long enough not to be there by chance.
    pub(super) fn are_in(&self, text: &str) -> bool {
        let mut keys = self.0.iter().map(Secret::expose);
        // This is asked for each row, and only escapes can hide a key in a cell.
        let escaped = text.contains('\\');
        keys.any(|key| {
            key.len() >= SHORTEST_KEY && (text.contains(key) || (escaped && self.show_in(text)))
        })
    }

    /// Whether any form of a key is in the words, or half of one.
    fn show_in(&self, words: &str) -> bool {
        let forms: Vec<_> = { self.0.iter() }
            .flat_map(|key| forms(key.expose()))
            .collect();
        let mut words = words.to_owned();
        loop {
            let text = folded(&words);
            if forms
                .iter()
                .any(|(form, part)| has_part(&text, form, *part))
            {
                return true;
            }
            // Text that was escaped several times gets shorter each time.
            let plain = unescaped(&words);
            if plain == words {
                return false;
            }
            words = plain;
        }
    }
}

impl SentRequest {
    /// The service's `words`, already decoded, without keys and the row's values. `None` if they are
    /// too long, or if a key still shows in them: then they must not be shown at all.
    fn redact(&self, words: &str) -> Option<String> {
        let words = words.trim();
        if words.is_empty() || words.len() > LONGEST {
            return None;
        }
        let fields = serde_json::from_slice::<Value>(&self.body).unwrap_or_default();
        let fields = { fields.as_object() }
            .into_iter()
            .flat_map(serde_json::Map::values);
        let keys = self.api_keys.0.iter().map(Secret::expose);
        let mut secrets: Vec<_> = fields.filter_map(Value::as_str).chain(keys).collect();
        // One may be a part of another, and would leave the rest of it.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let secrets = secrets
            .into_iter()
            .filter(|secret| secret.len() >= SHORTEST_VALUE);
        let words = secrets.fold(words.to_owned(), |words, secret| words.replace(secret, "…"));
        if self.api_keys.show_in(&words) {
            return None;
        }
        Some(match words.char_indices().nth(SHOWN) {
            Some((end, _)) => words.get(..end).unwrap_or_default().to_owned() + "…",
            None => words,
        })
    }
}

/// The status, and the service's own words about a refusal.
pub(super) fn said(reply: &Reply) -> String {
    match spoken(reply) {
        Some(words) => format!("{}: {words}", status(reply)),
        None => described(reply),
    }
}

/// The service's own words, in backticks: the message of JSON, a text, or the title of a page; `None` if it has none that may be
/// shown.
pub(super) fn spoken(reply: &Reply) -> Option<String> {
    let body = without_mark(&reply.body);
    let text = || std::str::from_utf8(body).ok();
    let words = match serde_json::from_slice(body) {
        Ok(json) => message(&json).map(str::to_owned),
        Err(_) => match kind(body) {
            TEXT => text().map(str::to_owned),
            HTML => text().and_then(title),
            _ => None,
        },
    };
    let words = reply.sent.redact(&words?)?;
    Some(format!("`{}`", printable(&words)))
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

const EMPTY: &str = "nothing";
const JSON: &str = "JSON";
const BROKEN: &str = "broken JSON";
const HTML: &str = "HTML";
const BINARY: &str = "binary";
const TEXT: &str = "text";

/// What a body is.
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

/// The forms of a key without case and punctuation: plain, in hexadecimal digits and in base64; and
/// how many consecutive characters of each give it away. That is half of the key, or eight letters
/// and digits.
fn forms(key: &str) -> Vec<(Vec<char>, usize)> {
    let length = folded(key).chars().count();
    let part = length.div_ceil(2).clamp(4, 8).min(length);
    let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![(folded(key), part), (hex, part * 2)];
    // Three bytes make four characters, so there are three alignments of a text. Characters
    // that depend on the text's surroundings are left out.
    for (before, touched) in [("", 0), ("-", 2), ("--", 3)] {
        let shifted = format!("{before}{key}");
        let mut encoded = STANDARD_NO_PAD.encode(&shifted).split_off(touched);
        if shifted.len() % 3 != 0 {
            encoded.pop();
        }
        let encoded = folded(&encoded);
        if encoded.len() >= SHORTEST_ENCODED {
            let part = (part * 4).div_ceil(3).max(SHORTEST_ENCODED);
            forms.push((encoded, part));
        }
    }
    { forms.into_iter() }
        .map(|(form, part)| (form.chars().collect(), part))
        .collect()
}

fn has_part(text: &str, form: &[char], part: usize) -> bool {
    let part = part.min(form.len());
    let mut parts = form.windows(part.max(1));
    part > 0 && parts.any(|part| text.contains(&part.iter().collect::<String>()))
}

/// Only letters and digits, in lower case.
fn folded(text: &str) -> String {
    { text.chars() }
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// The text with escapes of URLs (`%2F`), JSON (`\u002f`, `\x2f`) and HTML (`&#47;`, `&#x2f;`) undone once.
fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(first) = rest.chars().next() {
        let (code, length) = escape(rest).unwrap_or((first.into(), first.len_utf8()));
        // Keys are ASCII, where a code, a byte and a character are one.
        plain.push(char::from_u32(code).unwrap_or(first));
        rest = rest.get(length..).unwrap_or_default();
    }
    plain
}

/// The code that the escape at the start of the text stands for, and its length.
fn escape(text: &str) -> Option<(u32, usize)> {
    let hex = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        all.then(|| u32::from_str_radix(digits, 16).ok())?
    };
    if text.starts_with('%') {
        return Some((hex(1, 3)?, 3));
    }
    if text.starts_with("\\u") {
        return Some((hex(2, 6)?, 6));
    }
    if text.starts_with("\\x") {
        return Some((hex(2, 4)?, 4));
    }
    let (digits, _) = text.strip_prefix("&#")?.split_once(';')?;
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some((code, digits.len() + 3))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::string_slice)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
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
    fn a_key_is_found_in_every_form() {
        let hex = |separator: &str| {
            let digits: Vec<_> = KEY.bytes().map(|byte| format!("{byte:02X}")).collect();
            digits.join(separator)
        };
        let each = |before: &str, after: &str| {
            let escaped = KEY.bytes().map(|byte| format!("{before}{byte:02x}{after}"));
            escaped.collect::<String>()
        };
        let grouped: Vec<_> = KEY.chars().map(String::from).collect();
        let mut forms = vec![
            KEY.to_owned(),
            KEY.to_uppercase(),
            grouped.join("-"),
            grouped.join("\u{200b}"),
            "sk_live\\/51H?x~Qz+0aB".to_owned(),
            "sk_live%2F51H%3Fx~Qz%2B0aB".to_owned(),
            "sk_live%252F51H%253Fx~Qz%252B0aB".to_owned(),
            "sk_live&#x2F;51H&quest;x~Qz&#43;0aB".to_owned(),
            hex(""),
            hex(":"),
            each("%", ""),
            each("\\u00", ""),
            each("\\\\u00", ""),
            each("\\x", ""),
            each("&#x", ";"),
            // Half of it, and masked keys that show too much.
            KEY[..10].to_owned(),
            KEY[8..].to_owned(),
            "sk_live/51H********".to_owned(),
        ];
        for before in ["", "a", "ab", "Bearer ", "user:"] {
            for after in ["", "!", "}}"] {
                let text = format!("{before}{KEY}{after}");
                forms.push(STANDARD.encode(&text));
                forms.push(URL_SAFE.encode(&text).replace('=', ""));
                forms.push(STANDARD.encode(&text).to_lowercase());
            }
        }
        let keys = ApiKeys::new(Secret::new("other-key-00")).and(&Secret::new(KEY));
        for form in forms {
            assert!(keys.show_in(&form), "{form}");
            assert!(keys.show_in(&format!("no key: '{form}', sorry")), "{form}");
        }
        for words in [
            "",
            "unknown API key",
            "the key sk_live…0aB has expired, see https://example.com/docs?topic=keys&lang=en",
            "100 % of the quota is used; request 44de328f-0a55-4c1c-8b1e-4f3c2f6b3d11 &c; \\u12 \\",
        ] {
            assert!(!keys.show_in(words), "{words}");
        }
        assert!(keys.are_in("id-sk_live/51H?x~Qz+0aB-7"));
        assert!(keys.are_in("sk_live\\/51H?x~Qz+0aB"));
        assert!(!keys.are_in("44de328f-0a55-4c1c-8b1e-4f3c2f6b3d11"));
    }

    #[test]
    fn the_services_message_is_found_in_any_shape_and_shown_without_the_rows_values() {
        for body in [
            r#"{"error":{"code":"c","message":"bad name Jané Doe of ::1"}}"#,
            r#"{"error":"bad name Jané Doe of ::1"}"#,
            r#"{"message":"bad name Jan\u00e9 Doe of ::1"}"#,
            r#"{"title":"t","detail":"bad name Jané Doe of ::1"}"#,
            "bad name Jané Doe of ::1\n",
            "\u{feff}bad name Jané Doe of ::1",
        ] {
            assert_eq!(
                said(&reply(422, body.as_bytes())),
                "422 Unprocessable Entity: `bad name … of …`"
            );
        }
        let long = said(&reply(422, &[b'x'; LONGEST]));
        assert!(long.ends_with("xx…`"), "{long}");
        assert_eq!(long.matches('x').count(), SHOWN);
    }

    #[test]
    fn a_body_without_a_message_is_named_by_what_it_is_with_its_length() {
        let long = "x".repeat(LONGEST + 1);
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
            assert_eq!(said(&reply(422, body)), expected);
            assert_eq!(described(&reply(422, body)), expected);
            assert_eq!(is_page(body), page, "{kind}");
        }
        assert_eq!(said(&reply(502, b" \r\n")), "502 Bad Gateway");
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
