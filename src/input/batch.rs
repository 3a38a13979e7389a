//! Rows on their way from the reader.

use bytes::Bytes;

use crate::row::Row;
use crate::verdict::Failure;

/// A row and its request, or why it has none.
#[derive(Debug)]
pub struct ReadRow {
    /// The row.
    pub row: Row,
    /// The request's body, or the rule that the row breaks.
    pub request: Result<Bytes, Failure>,
}

/// Some consecutive rows.
#[derive(Debug)]
pub struct RowBatch<R = ReadRow> {
    /// The rows.
    pub rows: Vec<R>,
    /// The position in the source after these rows, in bytes, for the progress.
    pub(crate) position: u64,
    /// Blank lines after the last row; empty except in the last batch.
    pub trailer: Bytes,
}
