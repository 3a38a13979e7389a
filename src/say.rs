//! The only way to standard error, except for the progress bar's: text that can do nothing to a terminal.
//!
//! A file name or a column's name may hold any character. What must not break a line either, as a name within a text of
//! several lines, is made [`printable`] by the code that puts it there.

use std::io::Write;

use crate::error::printable;

/// Writes the text and a line end. Line breaks in it are ours and stay; everything else that steers a terminal is escaped.
///
/// That nobody can read it must not end a run.
pub fn say(text: &str) {
    let mut safe = safe(text);
    safe.push('\n');
    let _ = std::io::stderr().write_all(safe.as_bytes());
}

fn safe(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_stay_and_nothing_else_that_steers_a_terminal() {
        assert_eq!(
            safe("wrote a\u{1b}]0;owned\u{7}.csv\r\n  hint: é\u{9b}2J"),
            "wrote a\\u{1b}]0;owned\\u{7}.csv\\r\n  hint: é\\u{9b}2J"
        );
    }
}
