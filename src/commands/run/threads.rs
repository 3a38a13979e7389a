//! The threads of a run beside the one that makes the calls. The reader's reads rows and looks up in the ledger what is known of
//! them, so that a slow disk holds up rows to come and not calls in flight. The writer's writes rows that are done. A third one
//! watches whether anybody still reads standard output. None of them knows which part of the run it is.

use std::io;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;

use super::super::lookup::LookupStage;
use crate::base::error::{Error, Result};
use crate::engine::{Read, Stop, Write};
use crate::input::Reader;
use crate::output::{WriteError, Writer, Written};
use crate::telemetry::event::{CancelReason, Event, InputEnd};
use crate::telemetry::hub::Events;

/// Batches between the reader's thread and the dispatcher, and between the dispatcher and the writer's thread: one in work,
/// one waiting.
pub(super) const BATCHES: usize = 2;

/// Where signals and the writer's thread ask the run to stop.
pub(super) struct StopChannel {
    pub(super) sender: mpsc::UnboundedSender<Stop>,
    pub(super) receiver: mpsc::UnboundedReceiver<Stop>,
}

impl StopChannel {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self { sender, receiver }
    }
}

/// A reader's thread.
pub(super) struct ReaderThread {
    /// What it reads.
    pub(super) rows: mpsc::Receiver<Read>,
    /// How it ended.
    pub(super) ended: Receiver<ReaderEnd>,
}

/// How a reader's thread ended.
#[derive(Default)]
pub(super) struct ReaderEnd {
    /// The stage that it worked on; `None` if it has not ended.
    pub(super) lookup: Option<LookupStage>,
    /// Why its input could be read no further, where that does not stop the run.
    pub(super) broken: Option<Error>,
}

/// What follows when the input can be read no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenBroken {
    /// The run stops.
    StopRun,
    /// The rows that were read get their verdicts, and the run continues with its next file.
    EndFile,
}

/// Reads until the input ends or nobody receives any more.
pub(super) fn reader(
    mut reader: Reader,
    mut lookup: LookupStage,
    when_broken: WhenBroken,
) -> Result<ReaderThread> {
    let (sender, receiver) = mpsc::channel(BATCHES);
    let (ended, end) = std::sync::mpsc::channel();
    let read = move || {
        let mut broken = None;
        loop {
            let message = match (reader.next_batch(), when_broken) {
                (Ok(Some(mut batch)), _) => match lookup.look_up(&mut batch.rows) {
                    Ok(()) => Read::Rows(batch),
                    Err(error) => Read::Failed(Stop::new(CancelReason::Ledger, error)),
                },
                (Ok(None), _) => Read::End(reader.end()),
                (Err(error), WhenBroken::StopRun) => Read::Failed(Stop::of_input(error)),
                (Err(error), WhenBroken::EndFile) => {
                    broken = Some(error);
                    Read::End(InputEnd::Broken)
                }
            };
            let last = !matches!(message, Read::Rows(_));
            // Nobody receives any more when the run is stopping.
            if sender.blocking_send(message).is_err() || last {
                break;
            }
        }
        // The look-ups are given back: the last to close the ledger merges its log into it, and that should not be this
        // thread. Nobody waits for them after a stop.
        let lookup = Some(lookup);
        let _ = ended.send(ReaderEnd { lookup, broken });
    };
    spawn("reader", read)?;
    Ok(ReaderThread {
        rows: receiver,
        ended: end,
    })
}

/// How the writer ended: itself, or the files that it left behind when it failed.
pub(super) type WriterEnd = std::result::Result<Writer, Written>;

/// Writes until all senders are gone, then says how it ended.
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
                    let unknown = writer.take_unknown_levels();
                    if unknown.rows() > 0 {
                        events.emit(Event::LevelsUnknown(unknown));
                    }
                    if let Err(error) = written {
                        events.emit(Event::OutputFailed);
                        let left = writer.into_files().give_up();
                        let _ = stops.send(stop_of(error));
                        return Err(left);
                    }
                }
                Write::Trailer(trailer) => writer.trailer(&trailer),
            }
        }
        Ok(writer)
    };
    // Nobody waits any more when the run has given up on the writer.
    spawn("writer", move || drop(ended.send(write())))?;
    Ok(end)
}

/// Starts a thread that nobody joins.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|e| Error::stopped("cannot start a thread").because(e))
}

/// The stop that a failed writer asks for: the reader of our standard output has gone, or writing failed.
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

/// How much later the run stops: a reader such as `head` may close its end as soon as it has the last row, and a run that
/// has written all of its rows is about to end by itself.
const LATER: Duration = Duration::from_secs(1);

/// Stops the run if nobody reads standard output any more. A file always counts as read. The writer's thread notices that only
/// when it writes the next row, and while the service is down or asks for a pause there is none: without its reader, which may
/// have been killed, such a run would wait for a long time and then go on paying.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn watch_stdout(stops: mpsc::UnboundedSender<Stop>) -> Result<()> {
    spawn("stdout", move || {
        if is_closed() {
            #[allow(clippy::disallowed_methods, reason = "this thread makes no calls")]
            std::thread::sleep(LATER);
            // Nobody receives it when the run is already over.
            let _ = stops.send(stop_of(WriteError::Closed));
        }
    })
}

/// Waits until nobody reads standard output any more; `false` if the system cannot say.
fn is_closed() -> bool {
    let stdout = io::stdout();
    // Errors are always reported, and only they matter here.
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    loop {
        match poll(&mut polled, None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    let [stdout] = polled;
    stdout.revents().contains(PollFlags::ERR)
}
