//! How many rows were approved, reviewed and blocked.

use crate::verdict::Decision;

/// Numbers of rows by decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    /// Rows to approve.
    pub(crate) approve: u64,
    /// Rows to review.
    pub(crate) review: u64,
    /// Rows to block.
    pub(crate) block: u64,
}

impl Outcomes {
    /// Counts a row.
    pub(crate) const fn count(&mut self, decision: Decision) {
        match decision {
            Decision::Approve => self.approve += 1,
            Decision::Review => self.review += 1,
            Decision::Block => self.block += 1,
        }
    }

    /// The number of rows.
    #[must_use]
    pub(crate) const fn rows(&self) -> u64 {
        self.approve + self.review + self.block
    }
}
