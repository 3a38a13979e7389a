//! The counters of `rescore decide`, which has no events: it makes no calls and ends within seconds.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::analysis::UnknownLevels;
use crate::base::error::Exit;
use crate::drift::{Drift, Outcomes};
use crate::row::RowNumber;
use crate::verdict::Reason;

/// The rows of a scored file that have no score, and those that cannot be read.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ScoredRows {
    /// All rows.
    #[serde(rename = "rows")]
    pub(crate) read: u64,
    /// Rows without a score, which failed in the run.
    pub(crate) without_verdict: u64,
    /// Rows that cannot be read.
    pub(crate) unreadable: UnreadableRows,
}

/// Rows that cannot be read: how many, why, and the numbers of the first ones.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct UnreadableRows {
    /// How many.
    pub(crate) rows: u64,
    /// Why.
    pub(crate) reasons: BTreeMap<Reason, u64>,
    /// The first ones.
    pub(crate) first: Vec<RowNumber>,
}

/// How many unreadable rows are named: enough to look at.
const NAMED: usize = 3;

impl ScoredRows {
    /// Counts a row that cannot be read.
    pub(crate) fn unreadable(&mut self, row: RowNumber, reason: Reason) {
        self.unreadable.rows += 1;
        *self.unreadable.reasons.entry(reason).or_default() += 1;
        if self.unreadable.first.len() < NAMED {
            self.unreadable.first.push(row);
        }
    }
}

/// Everything that was counted while rows were decided again.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct DecideStats {
    /// All rows.
    #[serde(flatten)]
    pub(crate) rows: ScoredRows,
    /// The decisions.
    pub(crate) decisions: Outcomes,
    /// Rows without a decision, by their level.
    #[serde(rename = "undecided")]
    pub(crate) unknown_levels: UnknownLevels,
    /// Decisions before, compared with those now.
    #[serde(serialize_with = "if_compared")]
    pub(crate) drift: Drift,
}

impl DecideStats {
    /// How the command ended.
    #[must_use]
    pub(crate) fn exit(&self) -> Exit {
        if self.unknown_levels.rows() + self.rows.unreadable.rows == 0 {
            Exit::Complete
        } else {
            Exit::SomeFailed
        }
    }

    /// Checks that every row is accounted for.
    ///
    /// # Errors
    /// The numbers that do not add up, which is always a bug.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let (rows, decided) = (&self.rows, self.decisions.rows());
        let (undecided, unreadable) = (self.unknown_levels.rows(), rows.unreadable.rows);
        if rows.read == decided + undecided + rows.without_verdict + unreadable {
            return Ok(());
        }
        Err(format!(
            "rows do not add up: {} read, {decided} decided, {undecided} undecided, {} without a verdict, {unreadable} unreadable",
            rows.read, rows.without_verdict
        ))
    }
}

fn if_compared<S: Serializer>(drift: &Drift, to: S) -> Result<S::Ok, S::Error> {
    Some(drift)
        .filter(|drift| drift.compared() > 0)
        .serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_rows_are_counted_and_the_first_are_named() {
        let (mut stats, mut row) = (DecideStats::default(), RowNumber::FIRST);
        for _ in 0..5 {
            row = row.next();
            stats.rows.unreadable(row, Reason::Ragged);
        }
        let first: Vec<_> = stats
            .rows
            .unreadable
            .first
            .iter()
            .map(|row| row.get())
            .collect();
        assert_eq!((stats.rows.unreadable.rows, &*first), (5, &[2, 3, 4][..]));
        assert_eq!(stats.exit(), Exit::SomeFailed);
        assert!(stats.check_invariants().is_err(), "counted but not read");
        stats.rows.read = 5;
        assert_eq!(stats.check_invariants(), Ok(()));
        assert_eq!(DecideStats::default().exit(), Exit::Complete);
    }
}
