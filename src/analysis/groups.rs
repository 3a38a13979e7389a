//! Decisions by the values of a column: the first 10,000 different values are told apart, and all others are counted together.
//!
//! Values come from a column that the user named; this file must not know how they are written or shown.

use std::collections::HashMap;

use crate::drift::DecisionCounts;
use crate::verdict::Decision;

/// How many values are told apart. A column with more is an identifier, not a category.
const MOST_VALUES: usize = 10_000;
/// Bytes by which values are told apart: longer ones are texts, not categories.
const LONGEST: usize = 256;

/// Decisions by the values of a column.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupTally {
    values: HashMap<Box<[u8]>, DecisionCounts>,
    /// The rows with other values.
    other: DecisionCounts,
}

/// The most frequent values of a column, and the others together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopValues {
    /// The values, cut at 256 bytes, with their decisions; the most frequent first.
    pub(crate) top: Vec<(Box<[u8]>, DecisionCounts)>,
    /// All other rows.
    pub(crate) other: DecisionCounts,
    /// The number of other values, if not too many to be counted.
    pub(crate) other_values: Option<usize>,
}

impl GroupTally {
    /// Counts a row.
    pub(crate) fn count(&mut self, value: &[u8], decision: Option<Decision>) {
        let value = value.get(..LONGEST).unwrap_or(value);
        if let Some(counts) = self.values.get_mut(value) {
            counts.count(decision);
        } else if self.values.len() < MOST_VALUES {
            let counts = self.values.entry(value.into()).or_default();
            counts.count(decision);
        } else {
            self.other.count(decision);
        }
    }

    /// The `most` most frequent values.
    pub(crate) fn top(&self, most: usize) -> TopValues {
        let mut values: Vec<_> = self.values.iter().collect();
        // Equal ones in the order of their values, so that a report is always the same.
        values.sort_by_key(|(value, counts)| (std::cmp::Reverse(counts.rows()), *value));
        let (top, others) = values.split_at(most.min(values.len()));
        let mut other = self.other;
        for (_, counts) in others {
            other.add(counts);
        }
        TopValues {
            top: { top.iter() }
                .map(|(value, counts)| ((*value).clone(), **counts))
                .collect(),
            other,
            other_values: (self.other.rows() == 0).then_some(others.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_counted_exactly_and_the_rest_is_other() {
        let mut groups = GroupTally::default();
        for (value, decision, times) in [
            ("DE", Some(Decision::Approve), 5),
            ("US", Some(Decision::Block), 7),
            ("DE", None, 1),
            ("", Some(Decision::Review), 2),
            ("FR", Some(Decision::Review), 2),
        ] {
            for _ in 0..times {
                groups.count(value.as_bytes(), decision);
            }
        }
        let top = groups.top(3);
        let expected: [(&[u8], [u64; 4]); 3] = [
            (b"US", [0, 0, 7, 0]),
            (b"DE", [5, 0, 0, 1]),
            (b"", [0, 2, 0, 0]),
        ];
        let expected = expected.map(|(value, counts)| (value.into(), counts.into()));
        assert_eq!(top.top, expected);
        assert_eq!(top.other, [0, 2, 0, 0].into());
        assert_eq!(top.other_values, Some(1));
    }

    #[test]
    fn of_too_many_values_the_first_are_told_apart_and_no_row_is_lost() {
        let mut groups = GroupTally::default();
        for row in 0..100_000_u32 {
            match row % 10 {
                0 => groups.count(b"often", Some(Decision::Block)),
                _ => groups.count(row.to_string().as_bytes(), None),
            }
        }
        let top = groups.top(20);
        assert_eq!(groups.values.len(), MOST_VALUES);
        assert_eq!((top.top.len(), top.other_values), (20, None));
        let often = (b"often"[..].into(), [0, 0, 10_000, 0].into());
        assert_eq!(top.top.first(), Some(&often));
        let shown: u64 = top.top.iter().map(|(_, counts)| counts.rows()).sum();
        assert_eq!(shown + top.other.rows(), 100_000);
    }

    #[test]
    fn a_long_value_is_cut() {
        let mut groups = GroupTally::default();
        groups.count(&[b'x'; 10_000], None);
        let top = groups.top(1).top;
        assert_eq!(top.first().map(|(value, _)| value.len()), Some(LONGEST));
    }
}
