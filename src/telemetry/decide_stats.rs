//! The counters of `rescore decide`, which has no events: it makes no calls and ends within seconds.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::analysis::CountedRows;
use crate::base::error::Exit;
use crate::drift::{DecisionCounts, Drift};
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

/// Rows that cannot be read.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct UnreadableRows {
    /// How many, and which.
    #[serde(flatten)]
    pub(crate) named: CountedRows,
    /// Why.
    pub(crate) reasons: BTreeMap<Reason, u64>,
}

impl UnreadableRows {
    /// Counts a row that cannot be read.
    pub(crate) fn count(&mut self, row: RowNumber, reason: Reason) {
        self.named.count(row);
        *self.reasons.entry(reason).or_default() += 1;
    }
}

/// Everything that was counted while rows were decided again.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct DecideStats {
    /// All rows.
    #[serde(flatten)]
    pub(crate) rows: ScoredRows,
    /// The decisions.
    pub(crate) decisions: DecisionCounts,
    /// Rows without a decision, by their level.
    pub(crate) undecided: CountedRows,
    /// Decisions before, compared with those now.
    #[serde(serialize_with = "if_compared")]
    pub(crate) drift: Drift,
}

impl DecideStats {
    /// How the command ended.
    pub(crate) fn exit(&self) -> Exit {
        if self.undecided.rows + self.rows.unreadable.named.rows == 0 {
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
        let (undecided, unreadable) = (self.undecided.rows, rows.unreadable.named.rows);
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
    Some(drift).filter(|drift| drift.compared > 0).serialize(to)
}
