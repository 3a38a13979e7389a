//! Everything that a report counts of rows, in one pass and in bounded memory.
//!
//! Rows come from a scored file (`commands`) or from a run's writer (`output`); the numbers go to `report`. It must not know
//! how values are written or shown.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::bins::Bins;
use super::decisions::{DecisionCounts, Drift};
use super::what_if::{UserOutcome, WhatIf};
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
    /// All rows, by decision.
    pub(crate) decisions: DecisionCounts,
    /// Rows that have a score, but not a decision.
    pub(crate) undecided: u64,
    /// The scores, by decision.
    pub(crate) scores: Bins,
    /// Rows that have a score.
    pub(crate) scored: u64,
    /// What other thresholds would do; `None` if decisions are made by level.
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
    /// The sums of these scores before and now.
    pub(crate) sums: (f64, f64),
}

impl RowTally {
    /// Nothing counted yet.
    pub(crate) fn new(thresholds: Option<&Thresholds>) -> Self {
        Self {
            decisions: DecisionCounts::default(),
            undecided: 0,
            scores: Bins::default(),
            scored: 0,
            what_if: thresholds.map(WhatIf::new),
            drift: DriftTally::default(),
        }
    }

    /// Counts a row with its verdict, as far as it has one, with the verdict that its user had before, if that is known, and
    /// with what the user turned out to be.
    pub(crate) fn count(
        &mut self,
        score: Option<&Score>,
        decision: Option<Decision>,
        past: Option<&PastVerdict>,
        outcome: UserOutcome,
    ) {
        self.decisions.count(decision);
        let value = score.map(number_of);
        if let (Some(score), Some(value)) = (score, value) {
            self.scored += 1;
            if let Some(what_if) = &mut self.what_if {
                what_if.count(score, decision, outcome);
            }
            self.scores.count(value, decision);
            self.undecided += u64::from(decision.is_none());
        }
        if let (Some(past), Some(now)) = (past, decision) {
            self.drift.count(past, now, value);
        }
    }

    /// The thresholds that decide, if thresholds do.
    pub(crate) fn thresholds(&self) -> Option<&Thresholds> {
        self.what_if.as_ref().map(WhatIf::today)
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
        self.sums.0 += before;
        self.sums.1 += now;
    }
}

/// A score as a number, for pictures. Decisions are made with all digits.
fn number_of(score: &Score) -> f64 {
    score.digits().parse().unwrap_or_default()
}

/// A column with more values is an identifier, not a category.
const MOST_VALUES: usize = 100;
/// Bytes by which values are told apart: longer ones are texts, not categories.
const LONGEST: usize = 256;

/// Decisions by the values of a column.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupTally {
    values: HashMap<Box<[u8]>, DecisionCounts>,
    has_more: bool,
}

/// The most frequent values of a column, and the others together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopValues {
    /// The values, cut at 256 bytes, with their decisions; the most frequent first.
    pub(crate) top: Vec<(Box<[u8]>, DecisionCounts)>,
    /// All other rows.
    pub(crate) other: DecisionCounts,
    /// The number of other values.
    pub(crate) other_values: usize,
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
            self.has_more = true;
        }
    }

    /// Whether there are more than a hundred values, of which not all are counted then.
    pub(crate) const fn has_too_many(&self) -> bool {
        self.has_more
    }

    /// The `most` most frequent values.
    pub(crate) fn top(&self, most: usize) -> TopValues {
        let mut values: Vec<_> = self.values.iter().collect();
        // Equal ones in the order of their values, so that a report is always the same.
        values.sort_by_key(|(value, counts)| (Reverse(counts.rows()), *value));
        let (top, others) = values.split_at(most.min(values.len()));
        let mut other = DecisionCounts::default();
        for (_, counts) in others {
            other.add(counts);
        }
        TopValues {
            top: top
                .iter()
                .map(|(value, counts)| ((*value).clone(), **counts))
                .collect(),
            other,
            other_values: others.len(),
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
            tally.count(
                score.as_ref(),
                decision,
                past.as_ref(),
                UserOutcome::Unknown,
            );
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
        let what_if = tally.what_if.as_ref().unwrap();
        assert_eq!((tally.undecided, what_if.decided_otherwise()), (1, 1));
        assert_eq!((tally.scored, what_if.todays_pair().all.rows()), (4, 4));
        let drift = &tally.drift;
        assert_eq!((drift.decisions.compared, drift.decisions.changed), (3, 2));
        assert_eq!((drift.scores, drift.rose, drift.fell), (2, 1, 0));
        assert_eq!(drift.sums, (1.5 + 2.1, 2.0 + 2.1));
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
        assert_eq!((top.other_values, groups.has_too_many()), (1, false));
    }

    #[test]
    fn more_than_a_hundred_values_are_too_many() {
        let mut groups = GroupTally::default();
        for row in 0..1_000_u32 {
            groups.count((row % 100).to_string().as_bytes(), None);
        }
        assert!(!groups.has_too_many());
        groups.count(b"100", None);
        assert!(groups.has_too_many());
        assert_eq!(groups.values.len(), MOST_VALUES);
    }

    #[test]
    fn a_long_value_is_cut() {
        let mut groups = GroupTally::default();
        groups.count(&[b'x'; 10_000], None);
        let top = groups.top(1).top;
        assert_eq!(top.first().map(|(value, _)| value.len()), Some(LONGEST));
    }
}
