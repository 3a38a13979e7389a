//! What became of some of the rows of a run: those of one of its files.

use super::stats::Stats;

/// What became of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RowCounts {
    /// Rows that are done, with a verdict or without.
    pub(crate) resolved: u64,
    /// Rows to approve.
    pub(crate) approved: u64,
    /// Rows to review.
    pub(crate) reviewed: u64,
    /// Rows to block.
    pub(crate) blocked: u64,
    /// Rows with a verdict and no decision.
    pub(crate) undecided: u64,
    /// Rows without a verdict.
    pub(crate) failed: u64,
}

impl RowCounts {
    /// Of all rows up to now.
    #[must_use]
    pub(crate) fn of(stats: &Stats) -> Self {
        Self {
            resolved: stats.resolved(),
            approved: stats.approved,
            reviewed: stats.reviewed,
            blocked: stats.blocked,
            undecided: stats.undecided,
            failed: stats.failures(),
        }
    }

    /// Of the rows since `earlier`.
    #[must_use]
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            resolved: self.resolved - earlier.resolved,
            approved: self.approved - earlier.approved,
            reviewed: self.reviewed - earlier.reviewed,
            blocked: self.blocked - earlier.blocked,
            undecided: self.undecided - earlier.undecided,
            failed: self.failed - earlier.failed,
        }
    }
}
