//! Everything that a report counts of rows, in one pass and in bounded memory.
//!
//! Rows come from a scored file (`commands`) or from a run's writer (`output`); the numbers go to `report`.

use super::bins::Bins;
use super::verdict_counts::VerdictCounts;
use super::what_if::WhatIf;
use crate::drift::Drift;
use crate::row::RowNumber;
use crate::verdict::{Decision, Score, Thresholds};

/// A row's verdict; `None` for what it lacks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TalliedRow<'a> {
    /// The row.
    pub(crate) number: RowNumber,
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
    /// `None` if decisions are made by level.
    thresholds: Option<Thresholds>,
    /// All rows, by decision.
    pub(crate) decisions: VerdictCounts,
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
    /// The rows whose score changed most, the largest change first. A person can look them up by number, and the list names
    /// nobody.
    pub(crate) movers: Vec<Mover>,
}

/// As many movers as a person will look at.
const MOVERS: usize = 10;

/// A row whose score changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mover {
    /// The row.
    pub(crate) row: RowNumber,
    /// The score before.
    pub(crate) score_before: f64,
    /// The score now.
    pub(crate) score_now: f64,
    /// The decision before.
    pub(crate) decision_before: Decision,
    /// The decision now.
    pub(crate) decision_now: Decision,
}

impl Mover {
    /// By how much the score changed.
    #[must_use]
    pub(crate) fn change(&self) -> f64 {
        self.score_now - self.score_before
    }
}

impl RowTally {
    /// Nothing counted yet.
    #[must_use]
    pub(crate) fn new(thresholds: Option<&Thresholds>) -> Self {
        Self {
            thresholds: thresholds.cloned(),
            decisions: VerdictCounts::default(),
            undecided: 0,
            decided_otherwise: 0,
            scores: Bins::default(),
            scored: 0,
            what_if: thresholds.map(WhatIf::new),
            drift: DriftTally::default(),
        }
    }

    /// The thresholds of today.
    #[must_use]
    pub(crate) const fn thresholds(&self) -> Option<&Thresholds> {
        self.thresholds.as_ref()
    }

    /// It turns out that levels have decided, and not these thresholds.
    pub(crate) fn decided_by_level(&mut self) {
        self.thresholds = None;
        self.what_if = None;
        self.decided_otherwise = 0;
    }

    /// Counts a row, with the verdict that its user had before, if that is known.
    pub(crate) fn count(&mut self, row: TalliedRow<'_>, past: Option<PastVerdict>) {
        let TalliedRow {
            number,
            score,
            decision,
        } = row;
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
            self.drift.count(number, past, (now, value));
        }
    }

    /// All rows.
    #[must_use]
    pub(crate) fn rows(&self) -> u64 {
        self.decisions.rows()
    }

    /// Rows that have neither a score nor a decision.
    #[must_use]
    pub(crate) fn without_verdict(&self) -> u64 {
        self.decisions.of(None).saturating_sub(self.undecided)
    }
}

impl DriftTally {
    fn count(
        &mut self,
        row: RowNumber,
        past: PastVerdict,
        (decision, score): (Decision, Option<f64>),
    ) {
        self.decisions.count(past.decision, decision);
        let (Some(score_before), Some(score_now)) = (past.score, score) else {
            return;
        };
        let mover = Mover {
            row,
            score_before,
            score_now,
            decision_before: past.decision,
            decision_now: decision,
        };
        self.scores += 1;
        self.rose += u64::from(score_now > score_before);
        self.fell += u64::from(score_now < score_before);
        // Among equal changes, the earlier rows stay.
        let size = mover.change().abs();
        let larger = |other: &Mover| other.change().abs() >= size;
        let at = self.movers.partition_point(larger);
        if size > 0.0 && at < MOVERS {
            self.movers.insert(at, mover);
            self.movers.truncate(MOVERS);
        }
    }
}

/// A score as a number, for pictures. Decisions are made with all digits.
#[must_use]
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
        let mut number = RowNumber::FIRST;
        let mut count = |digits: Option<&str>, decision, past| {
            let score = digits.map(score);
            let row = TalliedRow {
                number,
                score: score.as_ref(),
                decision,
            };
            tally.count(row, past);
            number = number.next();
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
        assert_eq!(
            (drift.decisions.compared(), drift.decisions.changed()),
            (3, 2)
        );
        assert_eq!((drift.scores, drift.rose, drift.fell), (2, 1, 0));
        let movers: Vec<_> = drift.movers.iter().map(|mover| mover.row.get()).collect();
        assert_eq!(movers, [1]);
    }

    #[test]
    fn the_largest_changes_stay_whatever_their_direction() {
        let (mut drift, mut row) = (DriftTally::default(), RowNumber::FIRST);
        for change in 0..100_u32 {
            let sign = if change % 2 == 0 { 1.0 } else { -1.0 };
            let past = PastVerdict {
                decision: Decision::Approve,
                score: Some(100.0),
            };
            let now = 100.0 + sign * f64::from(change / 2);
            drift.count(row, past, (Decision::Review, Some(now)));
            row = row.next();
        }
        let rows: Vec<_> = drift.movers.iter().map(|mover| mover.row.get()).collect();
        assert_eq!(rows, [99, 100, 97, 98, 95, 96, 93, 94, 91, 92]);
    }
}
