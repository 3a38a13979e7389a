//! Rows whose level is in no list: how many, and the numbers of the first ones.
//!
//! It must not know the levels: a mistyped pointer leads to any field of an answer, which may be a person's.

use serde::Serialize;

use crate::row::RowNumber;

/// The rows without a decision, in bounded memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct UnknownLevels {
    rows: u64,
    first: Vec<RowNumber>,
}

/// How many rows are named: enough to look them up.
const NAMED: usize = 5;

impl UnknownLevels {
    /// Counts this row.
    pub(crate) fn count(&mut self, row: RowNumber) {
        self.rows += 1;
        if self.first.len() < NAMED {
            self.first.push(row);
        }
    }

    /// Adds the rows of another instance, which come after these.
    pub(crate) fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        let room = NAMED.saturating_sub(self.first.len());
        self.first.extend(other.first.iter().take(room));
    }

    /// The number of rows.
    #[must_use]
    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    /// The numbers of the first ones.
    pub(crate) fn first(&self) -> impl ExactSizeIterator<Item = u64> {
        self.first.iter().map(|row| row.get())
    }
}
