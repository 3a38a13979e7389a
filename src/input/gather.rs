//! Collects records into batches. What a record becomes is up to the parser.
//!
//! It must not know more of a row than its bytes.

use super::batch::RowBatch;
use super::buffer::Buffer;
use crate::base::error::Result;

/// A batch is complete with this many rows, so that the first rows do not have to wait for a whole
/// block …
const BATCH_ROWS: usize = 512;
/// … or with this many bytes, so that large records do not pile up before the calls.
const BATCH_BYTES: usize = 1024 * 1024;

/// Makes rows of the records at the front of a buffer.
pub(super) trait Records {
    /// What is made of a record.
    type Record;

    /// The next complete record in the buffer.
    ///
    /// # Errors
    /// The record is broken in such a way that nothing after it can be trusted.
    fn next_record(&mut self) -> Result<Option<Self::Record>>;

    /// How many bytes a record has.
    fn length(record: &Self::Record) -> usize;

    /// Whether no further records are wanted, so that nobody waits for them.
    fn is_full(&self) -> bool {
        false
    }

    /// The bytes that are not rows yet.
    fn buffer(&mut self) -> &mut Buffer;
}

/// The least that a usual row has, in bytes.
const SMALL_ROW: usize = 128;

/// How many rows get room when so many bytes are there: a batch that grows step by step moves each of its rows twice. A
/// slow pipe has few bytes at a time, and its batches must not take much more memory than their rows.
const fn room_for(bytes: usize) -> usize {
    let rows = bytes.div_ceil(SMALL_ROW);
    if rows < BATCH_ROWS { rows } else { BATCH_ROWS }
}

/// Some rows; `None` at the end, and if there are none yet and `waits` is false.
///
/// # Errors
/// The source cannot be read further, or as for [`Records::next_record`].
#[inline]
pub(super) fn gather<R: Records>(
    records: &mut R,
    waits: bool,
) -> Result<Option<RowBatch<R::Record>>> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    let end = loop {
        if rows.len() >= BATCH_ROWS || bytes >= BATCH_BYTES || records.is_full() {
            break false;
        }
        match records.next_record()? {
            Some(row) => {
                if rows.is_empty() {
                    rows.reserve_exact(room_for(R::length(&row) + records.buffer().bytes.len()));
                }
                bytes += R::length(&row);
                rows.push(row);
            }
            None if records.buffer().at_end => break true,
            // Existing rows are passed on before waiting for more: a pipe may be slow.
            None if !rows.is_empty() => break false,
            None if !waits => return Ok(None),
            None => records.buffer().fill()?,
        }
    };
    let buffer = records.buffer();
    let trailer = if end {
        buffer.bytes.split().freeze()
    } else {
        bytes::Bytes::new()
    };
    if rows.is_empty() && trailer.is_empty() {
        return Ok(None);
    }
    let position = buffer.source.position(buffer.bytes.len());
    Ok(Some(RowBatch {
        rows,
        position,
        trailer,
    }))
}
