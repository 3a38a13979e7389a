//! Values as they are written, and texts as JSON strings that are safe to print.

use std::borrow::Cow;

use bytes::BufMut;
use memchr::memchr;
use serde_json::value::RawValue;

use crate::base::any_byte::any_byte;
use crate::base::control_chars::{any_unsafe_to_print, is_unsafe_to_print};

/// Deeper nesting is refused. `serde_json` has the same limit; no user record comes near it.
pub(crate) const MAX_DEPTH: usize = 128;

/// A JSON value as it is written: a slice of a text that was read without a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonValue<'a>(&'a str);

impl<'a> JsonValue<'a> {
    /// A value that was read.
    pub(crate) const fn of(text: &'a str) -> Self {
        Self(text)
    }

    /// Its text, with the quotes of a string.
    #[must_use]
    #[inline]
    pub const fn get(self) -> &'a str {
        self.0
    }
}

impl<'a> From<&'a RawValue> for JsonValue<'a> {
    fn from(value: &'a RawValue) -> Self {
        Self::of(value.get())
    }
}

/// The text of a key or string, unescaped; `None` for anything else.
#[must_use]
#[inline]
pub fn string<'a>(value: impl Into<JsonValue<'a>>) -> Option<Cow<'a, str>> {
    let text = value.into().get();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if memchr(b'\\', inner.as_bytes()).is_none() {
        Some(Cow::Borrowed(inner))
    } else {
        serde_json::from_str(text).ok().map(Cow::Owned)
    }
}

/// Whether the value is nested deeper than [`MAX_DEPTH`].
#[must_use]
pub(crate) fn too_deep(value: JsonValue<'_>) -> bool {
    // Each level takes at least two bytes.
    if value.get().len() <= 2 * MAX_DEPTH || !value.get().starts_with(['{', '[']) {
        return false;
    }
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in value.get().bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' if !quoted => depth -= 1,
            _ => {}
        }
    }
    false
}

/// The value's text on one line: without white space between its tokens, and with JSON escapes for
/// every character that is unsafe to print, so that the file is safe to show on a terminal.
#[must_use]
pub(crate) fn on_one_line(value: JsonValue<'_>) -> Box<str> {
    let text = value.get();
    if !text.starts_with(['{', '[']) {
        return escape_unsafe(text).into();
    }
    let (mut quoted, mut escaped) = (false, false);
    let kept: String = text
        .chars()
        .filter(|c| {
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                c if !quoted => return !c.is_ascii_whitespace(),
                _ => {}
            }
            true
        })
        .collect();
    escape_unsafe(&kept).into()
}

/// Appends `text` to `to` as a JSON string. Nearly every text has nothing to escape and is copied
/// as a whole: byte by byte, this took a seventh of the reader's time.
pub(crate) fn put_string(text: &str, to: &mut impl BufMut) {
    if must_escape(text) {
        // Writing a string to memory cannot fail.
        let written = serde_json::to_writer(to.writer(), text);
        debug_assert!(written.is_ok());
    } else {
        to.put_u8(b'"');
        to.put_slice(text.as_bytes());
        to.put_u8(b'"');
    }
}

/// Whether the text has a character that JSON must escape (RFC 8259, section 7).
#[allow(
    clippy::needless_bitwise_bool,
    reason = "without branches the compiler checks many bytes per instruction"
)]
fn must_escape(text: &str) -> bool {
    any_byte(text.as_bytes(), |byte| {
        (byte < 0x20) | (byte == b'"') | (byte == b'\\')
    })
}

/// JSON text with JSON escapes for the characters that are unsafe to print. These can only be
/// inside strings.
#[must_use]
pub(crate) fn escape_unsafe(text: &str) -> String {
    if !any_unsafe_to_print(text) {
        return text.to_owned();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe_to_print(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped += &format!("\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn value(text: &str) -> JsonValue<'_> {
        serde_json::from_str::<&RawValue>(text).unwrap().into()
    }

    #[test]
    fn depth_counts_brackets_outside_of_strings() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let deep = |text: &str| too_deep(value(text));
        assert!(!deep(&nested(128)));
        assert!(deep(&nested(129)));
        assert!(deep(&nested(100_000)));
        assert!(!deep(&format!("\"{}\\\"[\"", "[".repeat(500))));
    }

    #[test]
    fn a_captured_value_fits_on_one_line() {
        let spread = value("{ \"a b\" : [ 1.0,\n\t\"c \\\" d\" ] }");
        assert_eq!(&*on_one_line(spread), r#"{"a b":[1.0,"c \" d"]}"#);
        for (written, kept) in [
            ("[ \"a\u{9b}b\" ]", r#"["a\u009bb"]"#),
            ("\"\u{202e}é\u{7f}\"", r#""\u202eé\u007f""#),
            ("-1.50", "-1.50"),
        ] {
            assert_eq!(&*on_one_line(value(written)), kept);
        }
    }

    #[test]
    fn texts_are_escaped_as_serde_json_does() {
        let each: Vec<_> = ('\0'..='\u{ff}').map(String::from).collect();
        let further = ["Jane Doe", "O'Neil \\ \"J\"", "Łukasz 🦀 \u{2028}", ""];
        for text in each.iter().map(String::as_str).chain(further) {
            let mut written = b"{".to_vec();
            put_string(text, &mut written);
            assert_eq!(written, format!("{{{}", serde_json::json!(text)).as_bytes());
        }
    }
}
