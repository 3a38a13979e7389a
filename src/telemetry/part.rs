//! What is counted of a part of a run: the rows of one of its files, and the failures with which it still counts as a success
//! (`--accept-failures`).

use serde::Serialize;

use super::counts::Counts;
use crate::base::error::Exit;
use crate::base::numbers::Tolerance;

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
    #[must_use]
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
    #[must_use]
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

/// How many rows may fail in a run that ends with exit code 0; by default none. Only the exit code changes: a nightly job is
/// not reported as failed because of the same few rows every night.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AcceptedFailures(pub(crate) Option<Tolerance>);

impl AcceptedFailures {
    /// What was accepted of a run: `None` if it was stopped, no row failed, or more rows failed.
    ///
    /// Rows without a decision are never accepted: it is a list of levels that lacks one, and not the rows. Nor are those of
    /// files that an earlier run has finished: nobody has counted them.
    #[must_use]
    pub(crate) fn applied(self, counts: &Counts) -> Option<Tolerance> {
        let has_failed = counts.exit() == Exit::SomeFailed
            && counts.undecided.rows == 0
            && counts.skipped_are_decided();
        let covers = |accepted: &Tolerance| accepted.covers(counts.failures(), counts.resolved());
        self.0.filter(|accepted| has_failed && covers(accepted))
    }

    /// How the process exits after a run.
    #[must_use]
    pub(crate) fn exit(self, counts: &Counts) -> Exit {
        match self.applied(counts) {
            Some(_) => Exit::Complete,
            None => counts.exit(),
        }
    }
}
