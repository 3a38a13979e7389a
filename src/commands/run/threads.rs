//! The rows of one part as they pass through the stages of a run, and the threads beside the one that makes the calls. The
//! reader's thread reads rows, gives each request its key and looks it up in the ledger, so that a slow disk delays rows to come
//! and not calls in flight. The writer's thread writes rows that are done. What outlives the part (the
//! engine, the ledger, the events) is given from outside.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::analysis::RowTally;
use crate::base::error::{Error, Result};
use crate::base::threads::lock;
use crate::commands::signals::spawn;
use crate::engine::{self, Engine, Read, Stop, WindowSize, Write};
use crate::input::Reader;
use crate::ledger::Lookup;
use crate::output::{DurableFile, WriteError, Writer, Written};
use crate::row_state::look_up;
use crate::service::Service;
use crate::telemetry::counts::{Counts, Events};
use crate::telemetry::event::{CancelReason, Event, InputEnd};

/// Rows of the window: at 300 rows/s a row may wait for seven minutes before the others wait for it. There are this many in
/// memory, at 0.9 KB each, only while one waits.
const WINDOW_ROWS: usize = 128 * 1_024;
/// Bytes of the window, for files with huge records.
const WINDOW_BYTES: usize = 64 * 1024 * 1024;
/// How often to check whether to stop waiting for the writer.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long the writer gets after a stop, on top of the time that it had while calls finished. A program that has stopped
/// reading our standard output must not keep a service manager waiting.
const LAST_ROWS: Duration = Duration::from_secs(2);
/// Batches between the reader's thread and the dispatcher, and between the dispatcher and the writer's thread: one in work,
/// one waiting.
const BATCHES: usize = 2;

/// Where signals and the writer's thread ask the run to stop: both ends.
pub(super) type StopChannel = (mpsc::UnboundedSender<Stop>, mpsc::UnboundedReceiver<Stop>);

/// Where rows are looked up. The readers' threads share it with the one that makes calls, which closes it: the last to close the
/// ledger merges its log into it.
pub(super) type SharedLookup = Arc<Mutex<Lookup>>;

/// The stages that the rows of a part pass through besides the engine.
pub(super) struct RowStages {
    pub(super) reader: Reader,
    /// An input that can be read no further stops the run; otherwise the rows that were read get their verdicts, and the run
    /// continues with its next part.
    pub(super) stops_at_broken: bool,
    pub(super) lookup: SharedLookup,
    pub(super) writer: Writer,
}

/// The result of a part.
pub(super) struct RowsEnd {
    pub(super) written: Written,
    /// The error that ended it early, if there is one.
    pub(super) error: Option<Error>,
    /// The writer's counts for a report.
    pub(super) tally: Option<Box<RowTally>>,
}

/// Connects the stages and lets rows run until the end or a stop; then ends the files accordingly.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn run_rows<S: Service>(
    runtime: &Runtime,
    engine: &Engine<S>,
    rows: RowStages,
    stops: &mut StopChannel,
    record: impl FnOnce(&[DurableFile]),
) -> Result<RowsEnd> {
    let events = engine.events();
    let (write_sender, write) = mpsc::channel(BATCHES);
    let writing = writer(rows.writer, write, events.clone(), stops.0.clone())?;
    let (read, reading) = reader(rows.reader, rows.lookup, rows.stops_at_broken)?;
    let stops = &mut stops.1;
    let window = WindowSize {
        rows: WINDOW_ROWS,
        bytes: WINDOW_BYTES,
    };
    let stop = runtime.block_on(async {
        tokio::select! {
            stop = engine::run(engine, window, read, write_sender, stops) => stop,
            never = engine.share_pace() => match never {},
        }
    });
    let mut error = stop.and_then(|stop| stop.error);
    let writer = wait_for(&writing, stops, events, &mut error);
    // After a stop, a reader that waits for a silent pipe never ends.
    let broken = if is_stopped(events) {
        reading.recv_timeout(POLL_INTERVAL).unwrap_or_default()
    } else {
        reading.recv().unwrap_or_default()
    };
    let mut end = RowsEnd {
        written: Written::default(),
        error: error.or(broken),
        tally: None,
    };
    end_files(events, writer, &mut end, record);
    Ok(end)
}

fn is_stopped(events: &Events) -> bool {
    events.with_counts(|stats| stats.cancelled.is_some())
}

/// Waits for the writer to end, but after a stop no longer than it may take.
fn wait_for(
    writing: &Receiver<WriterEnd>,
    stops: &mut mpsc::UnboundedReceiver<Stop>,
    events: &Events,
    error: &mut Option<Error>,
) -> WriterEnd {
    let mut left = LAST_ROWS;
    loop {
        let ended = writing.recv_timeout(POLL_INTERVAL);
        // A writer that failed on the last rows, or a signal, may ask after the dispatcher has stopped listening.
        while let Ok(stop) = stops.try_recv() {
            if !is_stopped(events) {
                events.emit(Event::CancelBegan(stop.reason));
            }
            *error = error.take().or(stop.error);
        }
        let failed = match ended {
            Ok(end) => return end,
            Err(RecvTimeoutError::Timeout) if !is_stopped(events) => continue,
            Err(RecvTimeoutError::Timeout) => {
                left = left.saturating_sub(POLL_INTERVAL);
                if !left.is_zero() {
                    continue;
                }
                Error::stopped("the output accepts no more rows; the last ones are lost")
            }
            Err(RecvTimeoutError::Disconnected) => {
                events.emit(Event::CancelBegan(CancelReason::Internal));
                Error::internal("the writer's thread panicked")
            }
        };
        events.emit(Event::OutputFailed);
        error.get_or_insert(failed);
        return Err(Written::default());
    }
}

/// Gives the files their names, or keeps the partial ones after a stop, and finds the error to report.
fn end_files(
    events: &Events,
    writer: WriterEnd,
    end: &mut RowsEnd,
    record: impl FnOnce(&[DurableFile]),
) {
    let mut writer = match (writer, events.with_counts(Counts::check_invariants)) {
        (Ok(writer), Ok(())) => writer,
        (Err(left), Ok(())) => {
            end.written = left;
            return;
        }
        (writer, Err(broken)) => {
            events.emit(Event::CancelBegan(CancelReason::Internal));
            let error = Error::internal(broken);
            end.error =
                Some(error.hint("this is a bug: do not rely on anything in the partial file"));
            end.written = writer.map_or_else(|left| left, |writer| writer.into_files().give_up());
            return;
        }
    };
    end.tally = writer.take_tally();
    let files = writer.into_files();
    end.written = if events.with_counts(Counts::has_all_rows) {
        files.commit(record)
    } else {
        files.keep_partial()
    };
    if let Some(failed) = end.written.error.take() {
        let failed = stop_of(*failed);
        events.emit(Event::CancelBegan(failed.reason));
        end.error = end.error.take().or(failed.error);
        end.tally = None;
    }
}

/// Why an input could be read no further, where that does not stop the run.
type ReaderEnd = Option<Error>;

/// Reads until the input ends or the receiver is gone. The rows come first, and then how the input ended.
fn reader(
    mut reader: Reader,
    lookup: SharedLookup,
    stops_at_broken: bool,
) -> Result<(mpsc::Receiver<Read>, Receiver<ReaderEnd>)> {
    let (sender, receiver) = mpsc::channel(BATCHES);
    let (ended, end) = std::sync::mpsc::channel();
    let read = move || {
        let mut broken = None;
        loop {
            let message = match reader.next_batch() {
                Ok(Some(mut batch)) => match look_up(&mut lock(&lookup), &mut batch.rows) {
                    Ok(()) => Read::Rows(batch),
                    Err(error) => Read::Failed(Stop::new(CancelReason::Ledger, error)),
                },
                Ok(None) => Read::End(reader.end()),
                Err(error) if stops_at_broken => Read::Failed(Stop::of_input(error)),
                Err(error) => {
                    broken = Some(error);
                    Read::End(InputEnd::Broken)
                }
            };
            let last = !matches!(message, Read::Rows(_));
            // The receiver is gone when the run is stopping.
            if sender.blocking_send(message).is_err() || last {
                break;
            }
        }
        // It is not waited for after a stop.
        drop(lookup);
        let _ = ended.send(broken);
    };
    spawn("reader", read)?;
    Ok((receiver, end))
}

/// How the writer ended: itself, or the files that it left behind when it failed.
type WriterEnd = std::result::Result<Writer, Written>;

/// Writes until all senders are gone, then says how it ended.
fn writer(
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
                    if drift.compared > 0 {
                        events.emit(Event::DecisionsCompared(drift));
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
    // The run may have given up on the writer.
    spawn("writer", move || drop(ended.send(write())))?;
    Ok(end)
}

/// The stop that a failed writer asks for: the reader of our standard output has gone, or writing failed.
fn stop_of(error: WriteError) -> Stop {
    let (reason, error) = match error {
        WriteError::Closed => (CancelReason::OutputClosed, None),
        WriteError::Failed(error) => (CancelReason::Output, Some(error)),
    };
    Stop { reason, error }
}
