//! How many rows of a file may be bad: a number of rows, or a share of all.

use std::fmt;

/// How many rows may be bad.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tolerance {
    /// At most so many.
    Rows(u64),
    /// At most so many of a hundred, from 0 to 100.
    Percent(f64),
}

impl Tolerance {
    /// Whether so many bad rows among `all` are tolerated.
    #[must_use]
    pub(crate) fn covers(self, bad: u64, all: u64) -> bool {
        match self {
            Self::Rows(most) => bad <= most,
            #[allow(
                clippy::cast_precision_loss,
                reason = "a share of rows needs no 53 bits"
            )]
            Self::Percent(most) => bad as f64 * 100.0 <= all as f64 * most,
        }
    }

    /// Whether all rows may be bad.
    #[must_use]
    pub(crate) fn is_everything(self) -> bool {
        matches!(self, Self::Percent(most) if most >= 100.0)
    }
}

impl fmt::Display for Tolerance {
    /// As the option has it: `5`, or `0.5%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(most) => write!(f, "{most}"),
            Self::Percent(most) => write!(f, "{most}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_covers_as_many_as_it_says_and_not_one_more() {
        for (tolerance, bad, all, covers) in [
            (Tolerance::Rows(0), 0, 10, true),
            (Tolerance::Rows(0), 1, 10, false),
            (Tolerance::Rows(5), 5, 5, true),
            (Tolerance::Rows(5), 6, 6_000_000, false),
            (Tolerance::Percent(5.0), 5, 100, true),
            (Tolerance::Percent(5.0), 6, 100, false),
            (Tolerance::Percent(0.1), 1, 1_000, true),
            (Tolerance::Percent(0.1), 1, 999, false),
            (Tolerance::Percent(100.0), 9, 9, true),
            (Tolerance::Percent(0.0), 0, 0, true),
        ] {
            assert_eq!(
                tolerance.covers(bad, all),
                covers,
                "{tolerance}: {bad} of {all}"
            );
        }
    }
}
