//! Numbers as they are written on the page.

use crate::base::numbers::{grouped, percent_of};
use crate::verdict::Decision;

/// Holds a number and its unit together.
pub(super) const NO_BREAK: char = '\u{a0}';

/// `1234567` as `1,234,567`.
pub(super) fn count(number: u64) -> String {
    grouped(number.into())
}

/// `1 row`, `2 rows`.
pub(super) fn rows(number: u64) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{}{NO_BREAK}row{s}", count(number))
}

/// A share in percent with one decimal. Only nothing is 0 %, and only all is 100 %.
pub(super) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => percent_of(part, whole),
        _ => format!("{}{NO_BREAK}%", percent_of(part, whole)),
    }
}

/// A score with three decimals at most, and without zeros at its end.
pub(super) fn score(score: f64) -> String {
    let text = format!("{score:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    text.replace('-', "\u{2212}")
}

/// What so many rows do.
pub(super) const fn has(rows: u64) -> &'static str {
    if rows == 1 { "has" } else { "have" }
}

/// What is done with users who have the decision.
pub(super) const fn done(decision: Decision) -> &'static str {
    match decision {
        Decision::Approve => "approved",
        Decision::Review => "to review",
        Decision::Block => "blocked",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_stays_with_its_sign_and_a_share_of_nothing_has_none() {
        assert_eq!(share(1, 3), "33.3\u{a0}%");
        assert_eq!(share(0, 0), "–");
    }

    #[test]
    fn scores_have_as_many_decimals_as_they_need() {
        for (number, text) in [
            (1.68, "1.68"),
            (2.0, "2"),
            (-0.0001, "0"),
            (-1.5, "\u{2212}1.5"),
            (10.0, "10"),
            (1.0 - 0.9, "0.1"),
        ] {
            assert_eq!(score(number), text);
        }
    }
}
