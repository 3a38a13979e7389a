//! Which characters of foreign text, such as a service's or a file's, do something to a terminal instead of being shown.
//!
//! What to do with such a character is the caller's business.

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
}
