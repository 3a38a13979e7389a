//! Texts as JSON strings, and JSON that is safe to print.

use bytes::BufMut;

use crate::base::any_byte::any_byte;
use crate::base::control_chars::{any_unsafe_to_print, is_unsafe_to_print};

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
mod tests {
    use super::*;

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
