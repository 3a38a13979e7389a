//! The reader's and the writer's threads: each moves what its part makes into or out of a channel, and says how it ended.

use std::sync::mpsc::Receiver;

use tokio::sync::mpsc;

use super::desk::Desk;
use crate::base::error::{Error, Result};
use crate::input::Reader;
use crate::output::{WriteError, Writer, Written};
use crate::pipeline::{Read, Stop, Write};
use crate::telemetry::event::{CancelReason, Event};
use crate::telemetry::hub::Events;

/// Batches between the reader's thread and the dispatcher, and between that and the writer's: one in work, one waiting.
pub(super) const BATCHES: usize = 2;

/// Reads until the input ends or nobody receives any more; when it is done, the second receiver is cut off.
pub(super) fn reader(
    mut reader: Reader,
    mut desk: Desk,
) -> Result<(mpsc::Receiver<Read>, Receiver<()>)> {
    let (sender, receiver) = mpsc::channel(BATCHES);
    let (ended, end) = std::sync::mpsc::channel();
    let read = move || {
        loop {
            let message = match reader.next_batch() {
                Ok(Some(batch)) => desk.prepare(batch).map_or_else(Read::Failed, Read::Rows),
                Ok(None) => Read::End,
                Err(error) => Read::Failed(Stop::of_input(error)),
            };
            let last = !matches!(message, Read::Rows(_));
            // Nobody receives any more when the run is stopping.
            if sender.blocking_send(message).is_err() || last {
                break;
            }
        }
        // What looks things up in the ledger is closed by then.
        drop(desk);
        drop::<std::sync::mpsc::Sender<()>>(ended);
    };
    spawn("reader", read)?;
    Ok((receiver, end))
}

/// What became of the writer: itself, or what one that failed left behind.
pub(super) type WriterEnd = std::result::Result<Writer, Written>;

/// Writes until nobody sends any more, and then says how it ended.
pub(super) fn writer(
    mut writer: Writer,
    mut rows: mpsc::Receiver<Write>,
    events: Events,
    stops: mpsc::UnboundedSender<Stop>,
) -> Result<Receiver<WriterEnd>> {
    let (ended, end) = std::sync::mpsc::channel();
    let write = move || {
        while let Some(message) = rows.blocking_recv() {
            match message {
                Write::Rows(finished) => {
                    let before = writer.rows();
                    let written = writer.write(&finished);
                    let rows = writer.rows() - before;
                    if rows > 0 {
                        events.emit(Event::RowsWritten { rows });
                    }
                    let drift = writer.take_drift();
                    if drift.compared() > 0 {
                        events.emit(Event::DecisionsCompared(drift));
                    }
                    if let Err(error) = written {
                        events.emit(Event::OutputFailed);
                        let left = writer.give_up();
                        let _ = stops.send(stop_of(error));
                        return Err(left);
                    }
                }
                Write::Trailer(trailer) => writer.trailer(&trailer),
            }
        }
        Ok(writer)
    };
    // Nobody waits any more when the run was given up.
    spawn("writer", move || drop(ended.send(write())))?;
    Ok(end)
}

/// Starts a thread that nobody waits for.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|e| Error::stopped("cannot start a thread").because(e))
}

/// The stop that a failed writer asks for.
pub(super) fn stop_of(error: WriteError) -> Stop {
    match error {
        WriteError::Closed => Stop {
            reason: CancelReason::OutputClosed,
            error: None,
        },
        WriteError::Failed(error) => Stop {
            reason: CancelReason::Output,
            error: Some(error),
        },
    }
}
