//! An answer as it was written, wherever it is stored.

use crate::verdict::{Score, TransactionId};

/// An answer as it was written.
#[derive(Clone)]
pub(crate) struct StoredAnswer {
    pub(crate) transaction_id: TransactionId,
    pub(crate) score: Score,
    /// The number of the list of captured fields.
    pub(crate) capture: Option<i64>,
    /// Their values, as a JSON array.
    pub(crate) captured: Option<String>,
    /// When it arrived, in milliseconds since 1970.
    pub(crate) at: i64,
    /// What it replaced.
    pub(crate) replaced: Option<ReplacedAnswer>,
}

/// What is left of an answer that was replaced.
#[derive(Clone)]
pub(crate) struct ReplacedAnswer {
    pub(crate) score: Score,
    /// When it had arrived, in milliseconds since 1970.
    pub(crate) at: i64,
}
