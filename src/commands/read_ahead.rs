//! A thread that reads rows ahead of those that are being worked on, for the commands that make no calls.

use std::sync::mpsc::{Receiver, sync_channel};

use crate::base::error::{Error, Result};
use crate::input::Reader;
use crate::row_state::RowBatch;

/// Batches that are read and wait: one in work, one ready.
const BATCHES: usize = 2;

/// Reads until the file ends or the receiver is gone; the channel closes after the last rows, or after an error.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn read_ahead(mut reader: Reader) -> Result<Receiver<Result<RowBatch>>> {
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
