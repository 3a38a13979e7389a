//! A thread that reads rows ahead of those that are being worked on, for the commands that make no calls.

use std::sync::mpsc::{Receiver, sync_channel};

use crate::base::error::{Error, Result};
use crate::input::RowBatch;

/// Batches that are read and wait: one in work, one ready.
const BATCHES: usize = 2;

/// The rows that are read; the channel closes after the last ones, or after an error.
pub(super) type ReadAhead<R> = Receiver<Result<RowBatch<R>>>;

/// Reads with `next_batch` until the file ends or the receiver is gone.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn read_ahead<R: Send + 'static>(
    mut next_batch: impl FnMut() -> Result<Option<RowBatch<R>>> + Send + 'static,
) -> Result<ReadAhead<R>> {
    let (sender, receiver) = sync_channel(BATCHES);
    let read = move || {
        while let Some(batch) = next_batch().transpose() {
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
