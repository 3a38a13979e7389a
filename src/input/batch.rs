//! Rows on their way from the reader.

use bytes::Bytes;

use crate::row::Row;
use crate::verdict::Failure;

/// A row and what it asks, or why it can ask nothing.
#[derive(Debug)]
pub struct Prepared {
    /// The row.
    pub row: Row,
    /// The request's body, or the rule that the row breaks.
    pub request: Result<Bytes, Failure>,
}

/// Some rows in order.
#[derive(Debug, Default)]
pub struct RowBatch {
    /// The rows.
    pub rows: Vec<Prepared>,
    /// How many bytes of the source are used up with them; for progress by bytes.
    pub(crate) position: u64,
    /// Blank lines after the last row; empty but in the last batch.
    pub trailer: Bytes,
}
