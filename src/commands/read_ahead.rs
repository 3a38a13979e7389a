//! A thread that reads rows ahead of those that are being decided.

use std::sync::mpsc::{Receiver, sync_channel};

use crate::base::error::{Error, Result};
use crate::input::{RowBatch, ScoredReader, ScoredRow};

/// Batches that are read and wait: one in work, one ready.
const BATCHES: usize = 2;

/// The rows that are read; the channel closes after the last ones, or after an error.
pub(super) type ReadAhead = Receiver<Result<RowBatch<ScoredRow>>>;

/// Reads until the file ends or the receiver is gone.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn read_ahead(mut reader: ScoredReader) -> Result<ReadAhead> {
    let (sender, receiver) = sync_channel(BATCHES);
    let read = move || {
        while let Some(batch) = reader.next_batch().transpose() {
            let last = batch.is_err();
            if sender.send(batch).is_err() || last {
                break;
            }
        }
    };
    std::thread::Builder::new()
        .name("reader".to_owned())
        .spawn(read)
        .map_err(|e| Error::stopped("cannot start a thread").because(e))?;
    Ok(receiver)
}
