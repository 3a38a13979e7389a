//! Everything that a report counts of rows, in one pass and in bounded memory.
//!
//! Rows come from a scored file (`commands`) or from a run's writer (`output`); the numbers go to `report`. It must not know
//! how values are written or shown.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::bins::Bins;
use super::decisions::{DecisionCounts, Drift};
use super::what_if::WhatIf;
use crate::verdict::{Decision, Score, Thresholds};

/// The verdict that a row's user had before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PastVerdict {
    /// The decision.
    pub(crate) decision: Decision,
    /// The score, if it is known.
    pub(crate) score: Option<Score>,
}

/// The counts of rows.
#[derive(Debug, Clone)]
pub(crate) struct RowTally {
    /// Those of today; `None` if decisions are made by level.
    pub(crate) thresholds: Option<Thresholds>,
    /// All rows, by decision.
    pub(crate) decisions: DecisionCounts,
    /// Rows that have a score, but not a decision.
    pub(crate) undecided: u64,
    /// Rows whose decision differs from that of the thresholds.
    pub(crate) decided_otherwise: u64,
    /// The scores, by decision.
    pub(crate) scores: Bins,
    /// Rows that have a score.
    pub(crate) scored: u64,
    /// What other thresholds would do, if they decide.
    pub(crate) what_if: Option<WhatIf>,
    /// The comparison with earlier verdicts.
    pub(crate) drift: DriftTally,
}

/// The counts of rows that had a verdict before.
#[derive(Debug, Clone, Default)]
pub(crate) struct DriftTally {
    /// Decisions before and now.
    pub(crate) decisions: Drift,
    /// Rows whose score is known before and now.
    pub(crate) scores: u64,
    /// Of these, those whose score rose.
    pub(crate) rose: u64,
    /// Of these, those whose score fell.
    pub(crate) fell: u64,
}

impl RowTally {
    /// Nothing counted yet.
    pub(crate) fn new(thresholds: Option<&Thresholds>) -> Self {
        Self {
            thresholds: thresholds.cloned(),
            decisions: DecisionCounts::default(),
            undecided: 0,
            decided_otherwise: 0,
            scores: Bins::default(),
            scored: 0,
            what_if: thresholds.map(WhatIf::new),
            drift: DriftTally::default(),
        }
    }

    /// It turns out that levels have decided, and not these thresholds.
    pub(crate) fn decided_by_level(&mut self) {
        self.thresholds = None;
        self.what_if = None;
        self.decided_otherwise = 0;
    }

    /// Counts a row with its verdict, as far as it has one, and with the verdict that its user had before, if that is known.
    pub(crate) fn count(
        &mut self,
        score: Option<&Score>,
        decision: Option<Decision>,
        past: Option<&PastVerdict>,
    ) {
        self.decisions.count(decision);
        let value = score.map(number_of);
        if let (Some(score), Some(value)) = (score, value) {
            self.scored += 1;
            if let Some(what_if) = &mut self.what_if {
                what_if.count(score);
            }
            let by_score = self.thresholds.as_ref().map(|today| today.decide(score));
            self.scores.count(value, decision);
            match decision {
                None => self.undecided += 1,
                Some(decision) => {
                    let is_other = by_score.is_some_and(|by_score| by_score != decision);
                    self.decided_otherwise += u64::from(is_other);
                }
            }
        }
        if let (Some(past), Some(now)) = (past, decision) {
            self.drift.count(past, now, value);
        }
    }

    /// All rows.
    pub(crate) fn rows(&self) -> u64 {
        self.decisions.rows()
    }

    /// Rows that have neither a score nor a decision.
    pub(crate) fn without_verdict(&self) -> u64 {
        self.decisions.of(None).saturating_sub(self.undecided)
    }
}

impl DriftTally {
    fn count(&mut self, past: &PastVerdict, decision: Decision, score: Option<f64>) {
        self.decisions.count(past.decision, decision);
        let before = past.score.as_ref().map(number_of);
        let (Some(before), Some(now)) = (before, score) else {
            return;
        };
        self.scores += 1;
        self.rose += u64::from(now > before);
        self.fell += u64::from(now < before);
    }
}

/// A score as a number, for pictures. Decisions are made with all digits.
fn number_of(score: &Score) -> f64 {
    score.digits().parse().unwrap_or_default()
}

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
        values.sort_by_key(|(value, counts)| (Reverse(counts.rows()), *value));
        let (top, others) = values.split_at(most.min(values.len()));
        let mut other = self.other;
        for (_, counts) in others {
            other.add(counts);
        }
        TopValues {
            top: top
                .iter()
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

    fn score(digits: &str) -> Score {
        Score::from_json_number(digits).unwrap()
    }

    #[test]
    fn every_row_is_counted_by_what_it_has() {
        use Decision::{Approve, Block, Review};
        let mut tally = RowTally::new(Some(&Thresholds::default()));
        let mut count = |digits: Option<&str>, decision, past: Option<PastVerdict>| {
            let score = digits.map(score);
            tally.count(score.as_ref(), decision, past.as_ref());
        };
        let past = |decision, digits: Option<&str>| {
            let score = digits.map(score);
            Some(PastVerdict { decision, score })
        };
        count(Some("2.0"), Some(Approve), past(Approve, Some("1.5")));
        count(Some("2.1"), Some(Approve), past(Review, Some("2.1")));
        count(Some("9"), Some(Block), past(Review, None));
        count(Some("9"), None, past(Block, Some("1.0")));
        count(None, None, past(Block, None));
        count(None, Some(Review), None);
        assert_eq!(tally.decisions, [2, 1, 1, 2].into());
        assert_eq!((tally.rows(), tally.without_verdict()), (6, 1));
        assert_eq!((tally.undecided, tally.decided_otherwise), (1, 1));
        assert_eq!(tally.scored, 4);
        let what_if = tally.what_if.as_ref();
        assert_eq!(what_if.map(WhatIf::scores), Some(4));
        let drift = &tally.drift;
        assert_eq!((drift.decisions.compared, drift.decisions.changed), (3, 2));
        assert_eq!((drift.scores, drift.rose, drift.fell), (2, 1, 0));
    }

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
