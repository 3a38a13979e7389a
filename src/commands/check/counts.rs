//! What the pass counts in a file.

use std::collections::BTreeMap;

use crate::fields::Field;
use crate::row::RowNumber;
use crate::verdict::Reason;

/// How many of the first rows are named: enough to look at, few enough to read.
const NAMED: usize = 3;

/// How many rows there are of a kind, and which are the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NamedRows {
    pub(super) rows: u64,
    /// The numbers of the first ones.
    pub(super) first: Vec<u64>,
}

impl NamedRows {
    /// Counts one more row.
    pub(super) fn add(&mut self, row: RowNumber) {
        self.rows += 1;
        if self.first.len() < NAMED {
            self.first.push(row.get());
        }
    }
}

/// What was found in a file.
#[derive(Debug, Default)]
pub(super) struct CheckedRows {
    /// All rows.
    pub(super) read: u64,
    /// Rows that cannot be sent.
    pub(super) unsendable: BTreeMap<Reason, NamedRows>,
    /// The reason for which a run would refuse the file: its first rows all fail for it.
    pub(super) refused: Option<Reason>,
    /// Rows with values of unusual lengths, by field.
    pub(super) unusual: BTreeMap<Field, NamedRows>,
    /// Rows whose answer is paid for.
    pub(super) known: u64,
    /// Rows that have failed although their call was or may have been billed, and would not be sent again.
    pub(super) failed_before: u64,
    /// Answers in the ledger that are damaged, or older than the run asks for.
    pub(super) damaged: u64,
    pub(super) too_old: u64,
}

impl CheckedRows {
    /// Rows that cannot be sent.
    pub(super) fn rejected(&self) -> u64 {
        self.unsendable.values().map(|tally| tally.rows).sum()
    }

    /// Rows that can be sent.
    pub(super) fn sendable(&self) -> u64 {
        self.read - self.rejected()
    }

    /// Rows that a run would send, and that have no outcome yet.
    pub(super) fn open(&self) -> u64 {
        if self.refused.is_some() {
            return 0;
        }
        self.sendable() - self.known - self.failed_before
    }
}
