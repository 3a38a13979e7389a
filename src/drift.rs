//! Decisions counted, and how they have changed since an earlier run, which is what a nightly rescoring is for.

use serde::{Deserialize, Serialize};

use crate::verdict::Decision;

/// Numbers of rows by decision, where each has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Adds the counts of another one.
    const fn add(&mut self, other: Self) {
        self.approve += other.approve;
        self.review += other.review;
        self.block += other.block;
    }

    /// Rows with this decision.
    #[must_use]
    pub(crate) const fn of(&self, decision: Decision) -> u64 {
        match decision {
            Decision::Approve => self.approve,
            Decision::Review => self.review,
            Decision::Block => self.block,
        }
    }

    /// The number of rows.
    #[must_use]
    pub(crate) const fn rows(&self) -> u64 {
        self.approve + self.review + self.block
    }
}

/// Numbers of rows by their earlier and their new decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drift {
    /// Rows that had a decision before.
    compared: u64,
    /// Rows whose decision changed.
    changed: u64,
    /// What became of the rows that were approved before.
    approve: Outcomes,
    /// What became of those to review.
    review: Outcomes,
    /// What became of those that were blocked.
    block: Outcomes,
}

impl Drift {
    /// Counts a row.
    pub(crate) fn count(&mut self, before: Decision, now: Decision) {
        self.compared += 1;
        self.changed += u64::from(before != now);
        match before {
            Decision::Approve => self.approve.count(now),
            Decision::Review => self.review.count(now),
            Decision::Block => self.block.count(now),
        }
    }

    /// Adds the counts of another one.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.compared += other.compared;
        self.changed += other.changed;
        self.approve.add(other.approve);
        self.review.add(other.review);
        self.block.add(other.block);
    }

    /// Each earlier decision with the number of rows for each new decision.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Decision, [u64; 3])> {
        let rows = [self.approve, self.review, self.block];
        let rows = rows.map(|now| Decision::ALL.map(|decision| now.of(decision)));
        Decision::ALL.into_iter().zip(rows)
    }

    /// The number of rows that had a decision before.
    #[must_use]
    pub(crate) const fn compared(&self) -> u64 {
        self.compared
    }

    /// The number of rows whose decision changed.
    #[must_use]
    pub(crate) const fn changed(&self) -> u64 {
        self.changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_both_decisions() {
        let (mut drift, mut more) = (Drift::default(), Drift::default());
        drift.count(Decision::Approve, Decision::Block);
        drift.count(Decision::Review, Decision::Review);
        more.count(Decision::Approve, Decision::Block);
        drift.add(&more);
        assert_eq!((drift.compared(), drift.changed()), (3, 2));
        let rows: Vec<_> = drift.rows().collect();
        assert_eq!(
            rows,
            [
                (Decision::Approve, [0, 0, 2]),
                (Decision::Review, [0, 1, 0]),
                (Decision::Block, [0, 0, 0])
            ]
        );
    }
}
