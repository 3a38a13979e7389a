//! A row with everything that is written about it.

use crate::row::Row;
use crate::verdict::{Score, Verdict};

/// A row with its verdict.
#[derive(Debug, Clone)]
pub struct DoneRow {
    /// The row.
    pub row: Row,
    /// Its verdict.
    pub verdict: Verdict,
    /// The score of an older ledger answer for the same user, if that answer was not used.
    pub old: Option<Score>,
}
