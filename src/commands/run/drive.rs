//! The third phase: lets rows run until the end or a stop, then ends the files accordingly.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::ledger::{PreparedLedger, RunLedger};
use super::lookup::LookupStage;
use super::prepare::{CallParts, Context, PreparedRun, RowParts};
use super::threads::{self, BATCHES, StopChannel, WriterEnd, stop_of};
use crate::analysis::RowTally;
use crate::base::error::{Error, Result, shown};
use crate::input::Reader;
use crate::observe::{self, MetricsThread, ProgressSettings, ProgressThread, Style};
use crate::output::{Sealed, Unfinished, Writer, Written, partial_of};
use crate::pace::{CallBudget, GiveUpPolicy, RetryPolicy};
use crate::pipeline::{self, Channels, Stop, WindowSize};
use crate::scorer::{Caller, Outage, Policies, RowRecorder, Scorer};
use crate::service::{Client, Service};
use crate::telemetry::event::{CancelReason, Event};
use crate::telemetry::hub::Events;
use crate::telemetry::stats::Stats;

/// Rows of the window: at 300 rows/s a row may wait for seven minutes before it holds up the others. There are this many in
/// memory, at 0.9 KB each, only while one waits.
const WINDOW_ROWS: usize = 128 * 1_024;
/// Bytes of the window, for files with huge records.
const WINDOW_BYTES: usize = 64 * 1024 * 1024;

/// A run whose rows have run, to the end or to a stop.
pub(super) struct DrivenRun {
    pub(super) context: Context,
    pub(super) ledger: RunLedger,
    pub(super) ended: RowsEnd,
    pub(super) events: Events,
    pub(super) metrics: Option<MetricsThread>,
}

/// What rows left behind.
pub(super) struct RowsEnd {
    pub(super) written: Written,
    /// What ended the run early, where its reason does not say it all.
    pub(super) error: Option<Error>,
    /// What the writer counted for a report.
    pub(super) tally: Option<Box<RowTally>>,
}

/// The stages that rows pass through besides the scorer.
pub(super) struct RowStages {
    pub(super) reader: Reader,
    pub(super) lookup: LookupStage,
    pub(super) writer: Writer,
}

/// Builds the stages and lets rows run.
///
/// # Errors
/// What kept the first call from being made, such as a signal.
pub(super) fn drive(prepared: PreparedRun) -> Result<DrivenRun> {
    let PreparedRun {
        mut context,
        ledger,
        rows,
        calls,
        stops,
        signals,
        warnings: _,
    } = prepared;
    let runtime = runtime()?;
    let (events, progress) = start_progress(&runtime, &context, calls.concurrency.get());
    let metrics = context.metrics.take();
    let metrics = metrics.map(|file| MetricsThread::start(file, events.clone()));
    let RowParts {
        reader,
        layout,
        sink,
        sides,
    } = rows;
    let writer = Writer::new(layout, calls.policy.clone(), sink, sides);
    let rows = RowStages {
        reader,
        lookup: ledger.lookup_stage()?,
        writer: match context.report {
            Some(_) => writer.counting(),
            None => writer,
        },
    };
    signals.run_starts(last_words(&context, &ledger))?;
    let (ledger, scorer) = start_ledger(ledger, calls, &context, &events)?;
    let record = |files: &[Sealed]| ledger.record(files);
    let ended = run_rows(&runtime, &scorer, rows, stops, record)?;
    scorer.answers_ended();
    progress.finish();
    // A look-up of a name that hangs must not hold up the end.
    runtime.shutdown_background();
    drop(scorer);
    Ok(DrivenRun {
        context,
        ledger,
        ended,
        events,
        metrics,
    })
}

pub(super) fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::internal("cannot start the runtime").because(e))
}

fn start_progress(
    runtime: &Runtime,
    context: &Context,
    concurrency: usize,
) -> (Events, ProgressThread) {
    let (notices, inbox) = observe::notices();
    let ender = notices.ender();
    let watch = &context.watch;
    let settings = ProgressSettings {
        identity: context.identity.clone(),
        style: if watch.quiet { Style::Off } else { watch.style },
        every: watch.every,
        size: context.input.size,
        limit: context.input.selection.limit,
        sandbox: context.is_sandbox(),
        tariff: watch.tariff.clone(),
        concurrency,
    };
    // The runtime's clock is the run's clock.
    let events = runtime.block_on(async { Events::new(vec![Box::new(notices)]) });
    let progress = ProgressThread::start(settings, events.clone(), inbox, ender);
    (events, progress)
}

/// The last words of a run that the second signal ends.
fn last_words(context: &Context, ledger: &PreparedLedger) -> String {
    let output = context.output.as_ref();
    let stopped = match output.filter(|target| !target.is_special()) {
        Some(target) => format!(
            "rescore: stopped immediately; `{}` has the rows that were written so far",
            shown(&partial_of(target.path()))
        ),
        None => "rescore: stopped immediately".to_owned(),
    };
    match ledger.last_words() {
        Some(kept) => format!("{stopped}\n         {kept}"),
        None => stopped,
    }
}

/// Starts the run in its ledger and makes the scorer, which gives the ledger new answers. Nothing may fail after this and
/// before the first call, as with `--fresh` the ledger then discards what the run starts over from.
fn start_ledger(
    ledger: PreparedLedger,
    calls: CallParts,
    context: &Context,
    events: &Events,
) -> Result<(RunLedger, Scorer<Client>)> {
    let policies = Policies {
        retries: RetryPolicy::new(calls.pace.retries, calls.pace.resends),
        patience: calls.pace.patience,
        outage: Outage::with_failing_requests(ledger.failing_requests()),
        give_up: GiveUpPolicy::new(calls.budget.give_up_after),
        calls: CallBudget::new(calls.budget.calls),
        failures: calls.budget.failures,
        host: context.endpoint.host().to_owned(),
    };
    let fields = ledger.fields(calls.captured.clone());
    let (ledger, writer) = ledger.start()?;
    let recorder = RowRecorder::new(writer, calls.policy, events.clone(), &calls.captured);
    let caller = Caller::new(calls.client, calls.gate, fields);
    Ok((ledger, Scorer::new(caller, policies, recorder)))
}

/// Connects the stages and lets rows run until the end or a stop; then ends the files accordingly.
///
/// # Errors
/// A thread cannot be started.
pub(super) fn run_rows<S: Service>(
    runtime: &Runtime,
    scorer: &Scorer<S>,
    rows: RowStages,
    stops: StopChannel,
    record: impl FnOnce(&[Sealed]),
) -> Result<RowsEnd> {
    let RowStages {
        reader,
        lookup,
        writer,
    } = rows;
    let StopChannel {
        sender,
        receiver: mut stops,
    } = stops;
    let (write_sender, write) = mpsc::channel(BATCHES);
    let writing = threads::writer(writer, write, scorer.events().clone(), sender)?;
    let reading = threads::reader(reader, lookup)?;
    let window = WindowSize {
        rows: WINDOW_ROWS,
        bytes: WINDOW_BYTES,
    };
    let channels = Channels {
        read: reading.rows,
        write: write_sender,
        stops: &mut stops,
    };
    // Even if it panics, rows that are paid for still reach the disk.
    let run = AssertUnwindSafe(|| runtime.block_on(pipeline::run(scorer, channels, window)));
    let stop = catch_unwind(run).unwrap_or_else(|_| {
        let stop = Stop::internal("the dispatcher panicked");
        scorer.events().emit(Event::CancelBegan(stop.reason));
        Some(stop)
    });
    let mut error = stop.and_then(|stop| stop.error);
    let writer = wait_for(&writing, &mut stops, scorer.events(), &mut error);
    // The last to close the ledger merges its log into it, and that should not be the reader. One that waits for a silent
    // pipe never ends.
    let _ = reading.ended.recv_timeout(LOOK);
    let ended = end_files(scorer.events(), writer, error, record);
    if scorer.events().with_stats(Stats::is_finished) {
        scorer.finish(scorer.events().with_stats(RunLedger::finished));
    }
    Ok(ended)
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
    let cancelled = || events.with_stats(|stats| stats.cancelled.is_some());
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
        return Err(Written::NOTHING);
    }
}

/// Gives the files their names, or keeps the partial ones after a stop, and finds the error to report.
fn end_files(
    events: &Events,
    writer: WriterEnd,
    error: Option<Error>,
    record: impl FnOnce(&[Sealed]),
) -> RowsEnd {
    if let Err(broken) = events.with_stats(Stats::check_invariants) {
        events.emit(Event::CancelBegan(CancelReason::Internal));
        let error = Error::internal(broken)
            .hint("this is a bug: do not rely on anything in the partial file");
        return RowsEnd {
            written: writer.map_or_else(|left| left, Writer::give_up),
            error: Some(error),
            tally: None,
        };
    }
    let mut writer = match writer {
        Ok(writer) => writer,
        Err(written) => {
            return RowsEnd {
                written,
                error,
                tally: None,
            };
        }
    };
    let tally = writer.take_tally();
    let ended = if events.with_stats(|stats| stats.cancelled.is_some()) {
        writer.keep_partial()
    } else {
        writer.commit(record)
    };
    match ended {
        Ok(written) => RowsEnd {
            written,
            error,
            tally,
        },
        Err(unfinished) => {
            let Unfinished {
                error: failed,
                left,
            } = *unfinished;
            let failed = stop_of(failed);
            events.emit(Event::CancelBegan(failed.reason));
            RowsEnd {
                written: left,
                error: error.or(failed.error),
                tally: None,
            }
        }
    }
}
