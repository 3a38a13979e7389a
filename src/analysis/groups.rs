//! Decisions by the values of a column: exact for up to 32,768 different values, the frequent ones of any number.
//!
//! It is Space-Saving in batches (Metwally et al., 2005): when there is no room, the rarer half of the values is dropped,
//! and from then on `missed` says how many rows of a value may have been dropped with it. So each count is at most that
//! much too low, and a value with more rows than that cannot be overlooked. Values come from a column that the user named;
//! this file must not know how they are written or shown.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::verdict_counts::VerdictCounts;
use crate::verdict::Decision;

/// How many values stay when there is no more room. With room for twice as many, a column takes 5 to 10 MB at most.
const KEPT: usize = 16_384;
/// Bytes by which values are told apart: longer ones are texts, not categories.
const LONGEST: usize = 256;

/// Decisions by the values of a column.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupTally {
    values: HashMap<Box<[u8]>, CountedValue, RandomState>,
    all: VerdictCounts,
    /// The most rows that a value which is not in the map can have had.
    dropped: u64,
}

/// What is known of a value.
#[derive(Debug, Clone, Copy, Default)]
struct CountedValue {
    counts: VerdictCounts,
    /// The most rows that it can have had before it was counted (again).
    missed: u64,
}

impl CountedValue {
    fn at_most(&self) -> u64 {
        self.counts.rows() + self.missed
    }
}

/// A value and its decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueGroup {
    /// The value, cut at 256 bytes.
    pub(crate) value: Box<[u8]>,
    /// Its rows.
    pub(crate) counts: VerdictCounts,
    /// How many more rows it may have; 0 if its counts are exact.
    pub(crate) missed: u64,
}

/// The most frequent values of a column, and the others together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopValues {
    /// The values, the most frequent first.
    pub(crate) top: Vec<ValueGroup>,
    /// All other rows.
    pub(crate) other: VerdictCounts,
    /// The number of other values, if it is known.
    pub(crate) other_values: Option<usize>,
}

impl GroupTally {
    /// Counts a row.
    pub(crate) fn count(&mut self, value: &[u8], decision: Option<Decision>) {
        let value = value.get(..LONGEST).unwrap_or(value);
        self.all.count(decision);
        if let Some(known) = self.values.get_mut(value) {
            known.counts.count(decision);
            return;
        }
        if self.values.len() >= 2 * KEPT {
            self.drop_rare();
        }
        let mut new = CountedValue {
            missed: self.dropped,
            ..CountedValue::default()
        };
        new.counts.count(decision);
        self.values.insert(value.into(), new);
    }

    fn drop_rare(&mut self) {
        let mut sizes: Vec<_> = self.values.values().map(CountedValue::at_most).collect();
        let (_, limit, _) = sizes.select_nth_unstable(KEPT);
        let limit = *limit;
        // Those above the limit are at most half. Of those at the limit, as many stay as there is room for.
        let above = { self.values.values() }
            .filter(|value| value.at_most() > limit)
            .count();
        let mut room = KEPT.saturating_sub(above);
        let mut dropped = self.dropped;
        self.values.retain(|_, value| {
            let size = value.at_most();
            let stays = size > limit || (size == limit && room > 0);
            if !stays {
                dropped = dropped.max(size);
            } else if size == limit {
                room -= 1;
            }
            stays
        });
        self.dropped = dropped;
    }

    /// The `most` most frequent values. Once values have been dropped, a value is shown only if at least half of the rows that
    /// it can have were counted.
    #[must_use]
    pub(crate) fn top(&self, most: usize) -> TopValues {
        let mut top: Vec<_> = { self.values.iter() }
            .filter(|(_, value)| value.counts.rows() >= value.missed)
            .collect();
        // Equal ones in the order of their values, so that a report is always the same.
        top.sort_by_key(|(text, value)| (std::cmp::Reverse(value.counts.rows()), *text));
        let exact = self.dropped == 0;
        top.truncate(most);
        let mut shown = VerdictCounts::default();
        for (_, value) in &top {
            shown.add(&value.counts);
        }
        TopValues {
            other: self.all.without(&shown),
            other_values: exact.then(|| self.values.len() - top.len()),
            top: top
                .into_iter()
                .map(|(value, known)| ValueGroup {
                    value: value.clone(),
                    counts: known.counts,
                    missed: known.missed,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
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
        let shown: Vec<_> = top
            .top
            .iter()
            .map(|group| (&*group.value, group.counts, group.missed))
            .collect();
        let expected: [(&[u8], _, _); 3] = [
            (b"US", [0, 0, 7, 0].into(), 0),
            (b"DE", [5, 0, 0, 1].into(), 0),
            (b"", [0, 2, 0, 0].into(), 0),
        ];
        assert_eq!(shown, expected);
        assert_eq!(top.other, [0, 2, 0, 0].into());
        assert_eq!(top.other_values, Some(1));
    }

    #[test]
    fn frequent_values_are_found_among_very_many() {
        let mut groups = GroupTally::default();
        let rows = 400_000_u64;
        // Every tenth row is "often", every hundredth "at times"; the others are all different.
        for row in 0..rows {
            let decision = Some(if row % 20 == 0 {
                Decision::Block
            } else {
                Decision::Approve
            });
            match row {
                row if row % 10 == 0 => groups.count(b"often", decision),
                row if row % 100 == 1 => groups.count(b"at times", decision),
                row => groups.count(row.to_string().as_bytes(), decision),
            }
        }
        assert!(groups.values.len() <= 2 * KEPT);
        let top = groups.top(20);
        let names: Vec<_> = top.top.iter().map(|group| &*group.value).collect();
        assert_eq!(&names[..2], [&b"often"[..], b"at times"]);
        for (group, truth) in top.top.iter().zip([rows / 10, rows / 100]) {
            let counted = group.counts.rows();
            assert!(
                counted <= truth && truth <= counted + group.missed,
                "{group:?}"
            );
        }
        assert_eq!(top.top[0].counts, [rows / 20, 0, rows / 20, 0].into());
        assert_eq!(top.other_values, None);
        let sum: u64 = top.top.iter().map(|group| group.counts.rows()).sum();
        assert_eq!(sum + top.other.rows(), rows);
    }

    #[test]
    fn values_that_occur_once_are_no_trend() {
        let mut groups = GroupTally::default();
        for row in 0..500_000 {
            groups.count(format!("user {row}").as_bytes(), None);
        }
        assert!(groups.dropped > 1);
        assert_eq!(groups.top(20).top, []);
    }

    #[test]
    fn a_long_value_is_cut() {
        let mut groups = GroupTally::default();
        groups.count(&[b'x'; 10_000], None);
        assert_eq!(groups.top(1).top[0].value.len(), LONGEST);
    }
}
