//! The part of RFC 9651 (structured fields) that the headers of rate limits use.
//!
//! It accepts more than the RFC does, as much of what services send is almost a structured field.

use http::HeaderMap;

/// Real lines have one or two hundred bytes. A longer line is ignored as a whole: if it were cut,
/// its last number would be wrong.
const LONGEST_LINE: usize = 4096;
/// Lines of one header that are read …
const MOST_LINES: usize = 16;
/// … and policies of one line.
pub(super) const MOST_MEMBERS: usize = 32;

/// The lines of a header.
pub(super) fn lines<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a [u8]> {
    headers
        .get_all(name)
        .into_iter()
        .take(MOST_LINES)
        .map(http::HeaderValue::as_bytes)
        .filter(|line| line.len() <= LONGEST_LINE)
}

/// The members of a header that is a list.
pub(super) fn members<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a [u8]> {
    lines(headers, name).flat_map(|line| split(line, b',').take(MOST_MEMBERS))
}

/// A member's name or value, before its parameters.
pub(super) fn head(member: &[u8]) -> &[u8] {
    split(member, b';').next().map_or(&[], unquoted)
}

/// The value of the first `key=value` with one of these keys.
pub(super) fn find<'a>(text: &'a [u8], separator: u8, keys: &[&str]) -> Option<&'a [u8]> {
    split(text, separator).find_map(|part| {
        let (key, value) = part.split_at_checked(part.iter().position(|byte| *byte == b'=')?)?;
        is_one_of(key.trim_ascii(), keys).then(|| unquoted(value.get(1..).unwrap_or_default()))
    })
}

/// Splits at separators outside of quotes.
pub(super) fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut after_backslash) = (false, false);
    text.split(move |byte| {
        if *byte == b'"' && !after_backslash {
            quoted = !quoted;
        }
        after_backslash = quoted && *byte == b'\\' && !after_backslash;
        !quoted && *byte == separator
    })
}

/// Without surrounding quotes and blanks.
fn unquoted(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""))
        .unwrap_or(value)
}

pub(super) fn is_one_of(text: &[u8], words: &[&str]) -> bool {
    words
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}
