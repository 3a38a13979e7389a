//! Text from elsewhere, as a service or a file: which of its characters do something instead of standing there.
//!
//! Where such a character may not go, and what becomes of it there, is the business of those who ask.

/// Whether the character can move, colour or rename a terminal, break a line, or turn around the direction of what is
/// read: controls (C0, DEL, C1), the marks, embeddings, overrides and isolates of bidirectional text, and Unicode's own
/// line and paragraph separators. Accents, joiners and emoji are none of them.
#[must_use]
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

/// Whether anything in the text [`is_unsafe_to_print`].
#[must_use]
pub(crate) fn any_unsafe_to_print(text: &str) -> bool {
    // Ids and numbers of every answer come through here, and nearly all are plain ASCII.
    let plain = text
        .bytes()
        .fold(true, |plain, byte| plain & (0x20..0x7f).contains(&byte));
    !plain && text.chars().any(is_unsafe_to_print)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_told_from_what_is_written() {
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
