//! The rows of one file: from its reader through the engine to its writer, until the end or a stop. Then its files end
//! accordingly.
//!
//! What outlives the file (the engine, the ledger, the events) is given from outside.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::super::files::UnfinishedFiles;
use super::super::lookup::LookupStage;
use super::ledger::RunLedger;
use super::threads::{self, BATCHES, ReaderEnd, StopChannel, WhenBroken, WriterEnd, stop_of};
use crate::analysis::RowTally;
use crate::base::error::{Error, Result};
use crate::engine::{self, Channels, Engine, Stop, WindowSize};
use crate::input::Reader;
use crate::output::{Sealed, Writer, Written};
use crate::service::Service;
use crate::telemetry::counts::Counts;
use crate::telemetry::event::{CancelReason, Event};
use crate::telemetry::hub::Events;

/// Rows of the window: at 300 rows/s a row may wait for seven minutes before it holds up the others. There are this many in
/// memory, at 0.9 KB each, only while one waits.
const WINDOW_ROWS: usize = 128 * 1_024;
/// Bytes of the window, for files with huge records.
const WINDOW_BYTES: usize = 64 * 1024 * 1024;

/// The stages that the rows of a file pass through besides the engine.
pub(super) struct RowStages {
    pub(super) reader: Reader,
    pub(super) when_broken: WhenBroken,
    pub(super) lookup: LookupStage,
    pub(super) writer: Writer,
}

/// What the rows of a file left behind.
pub(super) struct RowsEnd {
    pub(super) written: Written,
    /// What ended them early, where its reason does not say it all.
    pub(super) error: Option<Error>,
    /// What the writer counted for a report.
    pub(super) tally: Option<Box<RowTally>>,
    /// The stage for the next file; `None` after a stop.
    pub(super) lookup: Option<LookupStage>,
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
    record: impl FnOnce(&[Sealed]),
) -> Result<RowsEnd> {
    let RowStages {
        reader,
        when_broken,
        lookup,
        writer,
    } = rows;
    let StopChannel {
        sender,
        receiver: stops,
    } = stops;
    let (write_sender, write) = mpsc::channel(BATCHES);
    let writing = threads::writer(writer, write, engine.events().clone(), sender.clone())?;
    let reading = threads::reader(reader, lookup, when_broken)?;
    let window = WindowSize {
        rows: WINDOW_ROWS,
        bytes: WINDOW_BYTES,
    };
    let channels = Channels {
        read: reading.rows,
        write: write_sender,
        stops,
    };
    // Even if it panics, rows that are paid for still reach the disk.
    let run = AssertUnwindSafe(|| runtime.block_on(engine::run(engine, channels, window)));
    let stop = catch_unwind(run).unwrap_or_else(|_| {
        let stop = Stop::internal("the dispatcher panicked");
        engine.events().emit(Event::CancelBegan(stop.reason));
        Some(stop)
    });
    let mut error = stop.and_then(|stop| stop.error);
    let writer = wait_for(&writing, stops, engine.events(), &mut error);
    let ReaderEnd { lookup, broken } = wait_for_reader(&reading.ended, engine.events());
    let error = error.or(broken);
    Ok(end_files(engine.events(), writer, error, record, lookup))
}

/// Tells the ledger how the run ends once its files are written. With an output in the directory that is not complete, it is
/// still the run that continues.
pub(super) fn finish<S>(engine: &Engine<S>, beside: UnfinishedFiles) {
    engine.end(
        engine
            .events()
            .with_counts(|counts| RunLedger::end(counts, beside)),
    );
}

/// How the reader ended. After a stop, one that waits for a silent pipe never ends.
fn wait_for_reader(ended: &Receiver<ReaderEnd>, events: &Events) -> ReaderEnd {
    let end = if events.with_counts(|counts| counts.cancelled.is_some()) {
        ended.recv_timeout(LOOK).ok()
    } else {
        ended.recv().ok()
    };
    end.unwrap_or_default()
}

/// How often to check whether to stop waiting for the writer.
const LOOK: Duration = Duration::from_millis(100);
/// How long the writer gets after a stop, on top of the time that it had while calls finished. A program that has stopped
/// reading our standard output must not keep a service manager waiting.
const LAST_ROWS: Duration = Duration::from_secs(2);

/// Waits for the writer to end, but after a stop no longer than it may take.
fn wait_for(
    writing: &Receiver<WriterEnd>,
    stops: &mut mpsc::UnboundedReceiver<Stop>,
    events: &Events,
    error: &mut Option<Error>,
) -> WriterEnd {
    let cancelled = || events.with_counts(|counts| counts.cancelled.is_some());
    let mut left = LAST_ROWS;
    loop {
        let ended = writing.recv_timeout(LOOK);
        // What a writer that failed on the last rows, or a signal, sent after the dispatcher had stopped listening.
        while let Ok(stop) = stops.try_recv() {
            if !cancelled() {
                events.emit(Event::CancelBegan(stop.reason));
            }
            *error = error.take().or(stop.error);
        }
        let failed = match ended {
            Ok(end) => return end,
            Err(RecvTimeoutError::Timeout) if !cancelled() => continue,
            Err(RecvTimeoutError::Timeout) => {
                left = left.saturating_sub(LOOK);
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
    error: Option<Error>,
    record: impl FnOnce(&[Sealed]),
    lookup: Option<LookupStage>,
) -> RowsEnd {
    let left = |written, error| RowsEnd {
        written,
        error,
        tally: None,
        lookup: None,
    };
    if let Err(broken) = events.with_counts(Counts::check_invariants) {
        events.emit(Event::CancelBegan(CancelReason::Internal));
        let error = Error::internal(broken)
            .hint("this is a bug: do not rely on anything in the partial file");
        let written = writer.map_or_else(|left| left, |writer| writer.into_files().give_up());
        return left(written, Some(error));
    }
    let mut writer = match writer {
        Ok(writer) => writer,
        Err(written) => return left(written, error),
    };
    let tally = writer.take_tally();
    let files = writer.into_files();
    let mut written = if events.with_counts(Counts::has_all_rows) {
        files.commit(record)
    } else {
        files.keep_partial()
    };
    if let Some(failed) = written.error.take() {
        let failed = stop_of(*failed);
        events.emit(Event::CancelBegan(failed.reason));
        return left(written, error.or(failed.error));
    }
    RowsEnd {
        written,
        error,
        tally,
        lookup,
    }
}
