//! Rows of one kind: how many, and the numbers of the first ones.
//!
//! It must not know what is in them: their numbers are enough to look them up.

use serde::{Deserialize, Serialize};

use crate::row::RowNumber;

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
