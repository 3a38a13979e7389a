//! What is counted of a part of a run: the rows of one of its files.

use serde::Serialize;

use super::counts::Counts;

/// What became of the rows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct RowCounts {
    /// Rows that are done, with a verdict or without.
    pub(crate) resolved: u64,
    /// Rows to approve.
    pub(crate) approve: u64,
    /// Rows to review.
    pub(crate) review: u64,
    /// Rows to block.
    pub(crate) block: u64,
    /// Rows with a verdict and no decision.
    pub(crate) undecided: u64,
    /// Rows without a verdict.
    pub(crate) failed: u64,
}

impl RowCounts {
    /// Of all rows up to now.
    pub(crate) const fn of(counts: &Counts) -> Self {
        Self {
            resolved: counts.resolved(),
            approve: counts.decisions.approve,
            review: counts.decisions.review,
            block: counts.decisions.block,
            undecided: counts.undecided.rows,
            failed: counts.failures(),
        }
    }

    /// Of the rows since `earlier`.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            resolved: self.resolved - earlier.resolved,
            approve: self.approve - earlier.approve,
            review: self.review - earlier.review,
            block: self.block - earlier.block,
            undecided: self.undecided - earlier.undecided,
            failed: self.failed - earlier.failed,
        }
    }
}
