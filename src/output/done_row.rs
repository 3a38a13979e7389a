//! A row at its end.

use crate::row::Row;
use crate::verdict::{Score, Verdict};

/// A row with its verdict.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The row.
    pub row: Row,
    /// Its verdict.
    pub verdict: Verdict,
    /// How the ledger's answer from before this run judged the same user, where it was not used.
    pub old: Option<Score>,
}
