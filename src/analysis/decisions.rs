//! Rows counted by their decisions, and how decisions have changed since an earlier run, which is what a nightly rescoring is
//! for; and the first rows of one kind. Nothing here knows what is in a row.

use serde::{Deserialize, Serialize};

use crate::row::RowNumber;
use crate::verdict::Decision;

/// Numbers of rows by decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DecisionCounts {
    /// Rows to approve.
    pub(crate) approve: u64,
    /// Rows to review.
    pub(crate) review: u64,
    /// Rows to block.
    pub(crate) block: u64,
    /// Rows without a decision.
    #[serde(skip)]
    pub(crate) none: u64,
}

impl DecisionCounts {
    /// Counts a row.
    pub(crate) const fn count(&mut self, decision: Option<Decision>) {
        match decision {
            Some(decision) => *self.of_mut(decision) += 1,
            None => self.none += 1,
        }
    }

    /// Adds the counts of another instance.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.approve += other.approve;
        self.review += other.review;
        self.block += other.block;
        self.none += other.none;
    }

    /// The counts since those of an earlier moment.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            approve: self.approve - earlier.approve,
            review: self.review - earlier.review,
            block: self.block - earlier.block,
            none: self.none - earlier.none,
        }
    }

    /// Rows with this decision, or without any.
    pub(crate) const fn of(&self, decision: Option<Decision>) -> u64 {
        match decision {
            Some(Decision::Approve) => self.approve,
            Some(Decision::Review) => self.review,
            Some(Decision::Block) => self.block,
            None => self.none,
        }
    }

    /// The number of rows with this decision.
    pub(super) const fn of_mut(&mut self, decision: Decision) -> &mut u64 {
        match decision {
            Decision::Approve => &mut self.approve,
            Decision::Review => &mut self.review,
            Decision::Block => &mut self.block,
        }
    }

    /// The number of rows.
    pub(crate) const fn rows(&self) -> u64 {
        self.decided() + self.none
    }

    /// Rows to review or to block: among bad ones these are caught, among good ones they are false alarms.
    pub(crate) const fn stopped(&self) -> u64 {
        self.review + self.block
    }

    /// The number of rows with a decision.
    pub(crate) const fn decided(&self) -> u64 {
        self.approve + self.review + self.block
    }
}

#[cfg(test)]
impl From<[u64; 4]> for DecisionCounts {
    fn from([approve, review, block, none]: [u64; 4]) -> Self {
        Self {
            approve,
            review,
            block,
            none,
        }
    }
}

/// Numbers of rows by their earlier and their new decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Drift {
    /// Rows that had a decision before.
    pub(crate) compared: u64,
    /// Rows whose decision changed.
    pub(crate) changed: u64,
    /// What became of the rows that were approved before.
    approve: DecisionCounts,
    /// What became of those to review.
    review: DecisionCounts,
    /// The decisions now on rows that were blocked.
    block: DecisionCounts,
}

impl Drift {
    /// Counts a row.
    pub(crate) fn count(&mut self, before: Decision, now: Decision) {
        let mut row = DecisionCounts::default();
        row.count(Some(before));
        self.count_all(&row, now);
    }

    /// Counts rows with these decisions before, and all with this one now.
    pub(crate) const fn count_all(&mut self, before: &DecisionCounts, now: Decision) {
        self.compared += before.decided();
        self.changed += before.decided() - before.of(Some(now));
        *self.approve.of_mut(now) += before.approve;
        *self.review.of_mut(now) += before.review;
        *self.block.of_mut(now) += before.block;
    }

    /// Adds the counts of another instance.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.compared += other.compared;
        self.changed += other.changed;
        self.approve.add(&other.approve);
        self.review.add(&other.review);
        self.block.add(&other.block);
    }

    /// Each earlier decision with the number of rows for each new decision.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Decision, [u64; 3])> {
        let rows = [self.approve, self.review, self.block];
        let rows = rows.map(|now| Decision::ALL.map(|decision| now.of(Some(decision))));
        Decision::ALL.into_iter().zip(rows)
    }
}

/// Rows of one kind, in bounded memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CountedRows {
    /// How many.
    pub(crate) rows: u64,
    /// The numbers of the first ones.
    pub(crate) first: Vec<u64>,
}

/// How many rows are named: enough to look at.
const NAMED: usize = 5;

impl CountedRows {
    /// Counts this row. Rows may come in any order.
    pub(crate) fn count(&mut self, row: RowNumber) {
        self.rows += 1;
        let at = self.first.partition_point(|first| *first < row.get());
        if at < NAMED {
            self.first.insert(at, row.get());
            self.first.truncate(NAMED);
        }
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
        assert_eq!((drift.compared, drift.changed), (3, 2));
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

    #[test]
    fn the_counted_rows_are_named_in_whatever_order_they_come() {
        let (mut named, mut row) = (CountedRows::default(), RowNumber::FIRST);
        let mut numbers = Vec::new();
        for _ in 0..9 {
            numbers.push(row);
            row = row.next();
        }
        numbers.iter().rev().for_each(|row| named.count(*row));
        assert_eq!((named.rows, &*named.first), (9, &[1, 2, 3, 4, 5][..]));
    }
}
