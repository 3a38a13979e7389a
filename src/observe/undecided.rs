//! Rows without a decision, for people: how many, and which levels are in no list.

use super::numbers::count;
use crate::analysis::UnknownLevels;

/// How many levels are named.
pub(super) const NAMED: usize = 5;

/// `unknown level `3` 10, no level 2`; `None` if every row has a decision.
pub(super) fn undecided(levels: &UnknownLevels) -> Option<String> {
    let frequent = levels.most_frequent(NAMED);
    let named: u64 = frequent.iter().map(|(_, rows)| rows).sum();
    let mut words: Vec<_> = frequent
        .into_iter()
        .map(|(level, rows)| match level {
            Some(level) => format!("unknown level `{level}` {}", count(rows)),
            None => format!("no level {}", count(rows)),
        })
        .collect();
    let others = levels.rows() - named;
    if others > 0 {
        words.push(format!("other levels {}", count(others)));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_levels_are_named() {
        let mut levels = UnknownLevels::default();
        assert_eq!(undecided(&levels), None);
        for level in [Some("3"), None, Some("3"), Some("\u{1b}[2J")] {
            levels.count(level);
        }
        assert_eq!(
            undecided(&levels).as_deref(),
            Some("unknown level `3` 2, no level 1, unknown level `\\u{1b}[2J` 1")
        );
        for level in ["a", "b", "c", "d"] {
            (0..5).for_each(|_| levels.count(Some(level)));
        }
        assert!(
            undecided(&levels)
                .is_some_and(|words| { words.ends_with("unknown level `3` 2, other levels 2") })
        );
    }
}
