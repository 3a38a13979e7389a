//! Everything that a report counts of rows, in one pass and in bounded memory.
//!
//! Rows come from a scored file (`commands`) or from a run's writer (`output`); the numbers go to `report`.

use super::bins::Bins;
use super::what_if::WhatIf;
use crate::drift::DecisionCounts;
use crate::drift::Drift;
use crate::verdict::{Decision, Score, Thresholds};

/// A row's verdict; `None` for what it lacks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TalliedRow<'a> {
    /// Its score.
    pub(crate) score: Option<&'a Score>,
    /// Its decision.
    pub(crate) decision: Option<Decision>,
}

/// The verdict that a row's user had before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PastVerdict {
    /// The decision.
    pub(crate) decision: Decision,
    /// The score, if it is known.
    pub(crate) score: Option<f64>,
}

/// What was counted of rows.
#[derive(Debug, Clone)]
pub(crate) struct RowTally {
    /// Those of today; `None` if decisions are made by level.
    pub(crate) thresholds: Option<Thresholds>,
    /// All rows, by decision.
    pub(crate) decisions: DecisionCounts,
    /// Rows that have a score, but not a decision.
    pub(crate) undecided: u64,
    /// Rows whose decision is not the one that the thresholds make of their score.
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

/// What was counted of rows that had a verdict before.
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

    /// Counts a row, with the verdict that its user had before, if that is known.
    pub(crate) fn count(&mut self, row: TalliedRow<'_>, past: Option<PastVerdict>) {
        let TalliedRow { score, decision } = row;
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
            self.drift.count(past, (now, value));
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
    fn count(&mut self, past: PastVerdict, (decision, score): (Decision, Option<f64>)) {
        self.decisions.count(past.decision, decision);
        let (Some(before), Some(now)) = (past.score, score) else {
            return;
        };
        self.scores += 1;
        self.rose += u64::from(now > before);
        self.fell += u64::from(now < before);
    }
}

/// A score as a number, for pictures. Decisions are made with all digits.
pub(crate) fn number_of(score: &Score) -> f64 {
    score.digits().parse().unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn score(digits: &str) -> Score {
        Score::from_json_number(digits).unwrap()
    }

    #[test]
    fn every_row_is_counted_by_what_it_has() {
        use Decision::{Approve, Block, Review};
        let mut tally = RowTally::new(Some(&Thresholds::default()));
        let mut count = |digits: Option<&str>, decision, past| {
            let score = digits.map(score);
            let row = TalliedRow {
                score: score.as_ref(),
                decision,
            };
            tally.count(row, past);
        };
        let past = |decision, score| Some(PastVerdict { decision, score });
        count(Some("2.0"), Some(Approve), past(Approve, Some(1.5)));
        count(Some("2.1"), Some(Approve), past(Review, Some(2.1)));
        count(Some("9"), Some(Block), past(Review, None));
        count(Some("9"), None, past(Block, Some(1.0)));
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
}
