//! Values as they are written.

use std::borrow::Cow;

use memchr::memchr;
use serde_json::value::RawValue;

use super::text::escape_unsafe;

/// Deeper nesting is refused. `serde_json` has the same limit; no user record comes near it.
pub(crate) const MAX_DEPTH: usize = 128;

/// A JSON value as it is written: a slice of a text that was read without a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonValue<'a> {
    text: &'a str,
    /// Whether it is known to be a string without escapes.
    plain: bool,
}

impl<'a> JsonValue<'a> {
    /// A value that was read.
    pub(crate) const fn of(text: &'a str) -> Self {
        Self { text, plain: false }
    }

    /// A string without escapes, with its quotes.
    pub(super) const fn plain_string(text: &'a str) -> Self {
        Self { text, plain: true }
    }

    /// Its text, with the quotes of a string.
    #[must_use]
    #[inline]
    pub const fn get(self) -> &'a str {
        self.text
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
    let JsonValue { text, plain } = value.into();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if plain || memchr(b'\\', inner.as_bytes()).is_none() {
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
}
