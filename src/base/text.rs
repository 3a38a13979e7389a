//! Foreign text, such as that of a file or a service: which of its characters do something to a terminal instead of being
//! shown, and how a message shows it. Also how every byte of a value is looked at in a few instructions.

use std::path::Path;

/// Whether the character can control a terminal, break a line, or reverse the direction of text: control characters (C0,
/// DEL, C1), the marks, embeddings, overrides and isolates of bidirectional text, Unicode's line and paragraph separators,
/// and the byte order mark. Accents, joiners and emoji are safe.
pub fn is_unsafe_to_print(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

/// Whether any character of the text [`is_unsafe_to_print`].
pub(crate) fn any_unsafe_to_print(text: &str) -> bool {
    // Ids and numbers of every answer are checked here, and nearly all are plain ASCII.
    let plain = text
        .bytes()
        .fold(true, |plain, byte| plain & (0x20..0x7f).contains(&byte));
    !plain && text.chars().any(is_unsafe_to_print)
}

/// Whether `is_one` is true of any byte. There is no branch for each byte, and for a short text no loop over single bytes:
/// every value of every row comes through here, and most have 10 to 30 bytes.
#[inline]
pub(crate) fn any_byte(bytes: &[u8], is_one: impl Fn(u8) -> bool + Copy) -> bool {
    // The last block overlaps the one before it, so that nothing is left over.
    if let Some(last) = bytes.last_chunk::<16>() {
        let (blocks, _) = bytes.as_chunks::<16>();
        let in_last = any_of(last, is_one);
        return blocks
            .iter()
            .fold(in_last, |found, block| found | any_of(block, is_one));
    }
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => any_of(first, is_one) | any_of(last, is_one),
        _ => bytes.iter().any(|byte| is_one(*byte)),
    }
}

/// The same for a block of bytes: the compiler makes one or two instructions of it.
#[inline]
fn any_of<const N: usize>(bytes: &[u8; N], is_one: impl Fn(u8) -> bool) -> bool {
    bytes
        .iter()
        .fold(false, |found, byte| found | is_one(*byte))
}

/// The text with control characters escaped, so that nothing from a file or a server can control a terminal.
pub(crate) fn printable(text: &str) -> String {
    if !any_unsafe_to_print(text) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe_to_print(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// A path for a message; within a sentence, the caller puts it in backticks.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

/// How many characters of a foreign value a message quotes: enough to recognise it, too few to flood a terminal.
const QUOTED_CHARACTERS: usize = 80;

/// A value in backticks, cut at 80 characters, control characters escaped.
pub(crate) fn quoted(value: &str) -> String {
    format!("`{}`", cut(value, QUOTED_CHARACTERS))
}

/// How many characters of a column's name are shown: no real name is longer.
pub(crate) const COLUMN_CHARACTERS: usize = 40;

/// A column's name, cut at 40 characters, control characters escaped.
pub(crate) fn column(name: &str) -> String {
    cut(name, COLUMN_CHARACTERS)
}

fn cut(value: &str, characters: usize) -> String {
    let cut: String = value.chars().take(characters).collect();
    let more = if cut.len() < value.len() { "…" } else { "" };
    format!("{}{more}", printable(&cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_distinguished_from_text() {
        for c in [
            '\0', '\t', '\n', '\r', '\u{1b}', '\u{7f}', '\u{85}', '\u{9b}', '\u{9d}', '\u{2029}',
            '\u{202e}', '\u{2066}', '\u{feff}',
        ] {
            assert!(is_unsafe_to_print(c), "{}", c.escape_unicode());
            assert!(
                any_unsafe_to_print(&format!("a{c}b")),
                "{}",
                c.escape_unicode()
            );
        }
        for c in [' ', 'é', '\u{200d}', '\u{301}', '漢', 'ا', '🦀', '…'] {
            assert!(!is_unsafe_to_print(c), "{}", c.escape_unicode());
            assert!(
                !any_unsafe_to_print(&format!("a{c}b")),
                "{}",
                c.escape_unicode()
            );
        }
    }

    #[test]
    fn a_byte_is_found_wherever_it_is() {
        for length in 0..70 {
            let mut bytes = vec![b'a'; length];
            assert!(!any_byte(&bytes, |byte| byte == b'x'), "{length}");
            for at in 0..length {
                bytes.fill(b'a');
                bytes.splice(at..=at, [b'x']);
                assert!(any_byte(&bytes, |byte| byte == b'x'), "{at} of {length}");
            }
        }
    }

    #[test]
    fn foreign_text_cannot_control_a_terminal() {
        assert_eq!(quoted("a\u{1b}[2Jb\u{202e}"), "`a\\u{1b}[2Jb\\u{202e}`");
        assert_eq!(quoted(&"x".repeat(100)).chars().count(), 83);
    }
}
