//! The third of the three values of a run: its rows run. What it has only one of is started first: the engine, the ledger's
//! writer, progress and metrics. Then the parts run in their order.
//!
//! Beside the thread that makes the calls there are two for each part. The reader's thread reads rows, gives each request its
//! key and looks it up in the ledger, so that a slow disk delays rows to come and not calls in flight. The writer's thread writes
//! rows that are done.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};

use super::count::{FirstCount, calls_left};
use super::finish::{EndedParts, EndedRun, recorder, run_end};
use super::open::{OpenPart, OpenParts, OpenedRun, PartOutputs};
use super::plan::{PartState, RunPart, real_input};
use crate::analysis::RowTally;
use crate::base::error::{Error, Exit, Result};
use crate::base::threads::lock;
use crate::commands::signals::{SignalReach, runtime, spawn};
use crate::config::RunConfig;
use crate::engine::{
    self, AnswerRules, Engine, Read, Stop, StopRules, WindowSize, Write, input_reason,
};
use crate::input::{Opened, Reader, ReaderSettings};
use crate::ledger::{LedgerWriter, Lookup, OpenLedger, RunningLedger, ServerWait};
use crate::observe::{
    EventLog, Measured, MetricsFile, MetricsThread, ProgressSettings, ProgressThread, Style,
    tell_error,
};
use crate::output::{DurableFile, RowFiles, WriteError, Writer, Written};
use crate::pace::{Gate, GiveUpPolicy, PaceAsk, PaceReply, PaceStore, Rate, RetryPolicy};
use crate::row_state::look_up;
use crate::service::{Client, Plan, Service};
use crate::telemetry::counts::{BudgetNumbers, Counts, Events};
use crate::telemetry::event::{CancelReason, Event, InputEnd};

/// Rows of the window: at 300 rows/s a row may wait for seven minutes before the others wait for it. There are this many in
/// memory, at 0.9 KB each, only while one waits.
const WINDOW_ROWS: usize = 128 * 1_024;
/// Bytes of the window, for files with huge records.
const WINDOW_BYTES: usize = 64 * 1024 * 1024;
/// How often to check whether to stop waiting for the writer.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long the writer gets after a stop, on top of the time that it had while calls finished. A program that has stopped
/// reading from standard output must not keep a service manager waiting.
const WRITER_PATIENCE: Duration = Duration::from_secs(2);
/// Batches between the reader's thread and the dispatcher, and between the dispatcher and the writer's thread: one in work,
/// one waiting.
const BATCHES: usize = 2;

/// What the next start does if the run keeps no ledger.
const NOTHING_KEPT: &str =
    "no ledger keeps its answers: the same command makes the same calls again";

/// Where signals and the writer's thread ask the run to stop: both ends.
pub(super) type StopChannel = (UnboundedSender<Stop>, UnboundedReceiver<Stop>);

/// Where rows are looked up. The readers' threads share it with the one that makes calls, which closes it.
pub(super) type SharedLookup = Arc<Mutex<Lookup>>;

impl OpenedRun {
    /// Runs the parts in their order.
    ///
    /// # Errors
    /// What keeps the first call from being made, or a thread from being started.
    pub(super) fn run(self) -> Result<EndedRun> {
        let runtime = runtime()?;
        // The runtime's clock is the run's clock.
        let events = runtime.block_on(async { Events::new() });
        let progress = self.start_progress(&events);
        emit_unrun(&self.parts, &events);
        let mut ended = EndedParts::of(&self.parts);
        let (ledger, metrics) = if self.only_ends(&events) || self.parts.to_run().next().is_some() {
            let stops = unbounded_channel();
            self.base.signals.run_starts(SignalReach {
                stops: stops.0.clone(),
                last_words: self.last_words(),
            });
            let (ledger, engine) = start_engine(
                &self.base.config,
                self.ledger,
                self.client,
                self.gate,
                self.count.as_ref(),
                &events,
                &stops.0,
            )?;
            let budgets = engine.budget_numbers();
            let metrics = start_metrics(self.metrics, &events, self.server_wait, budgets);
            let mut running = RunningRun {
                config: &self.base.config,
                is_only: self.parts.directory.is_none(),
                counts_rows: self.report.is_some(),
                runtime,
                engine,
                ledger,
                stops,
                lookup: Arc::new(Mutex::new(self.lookup)),
                bytes_before: 0,
                ended: &mut ended,
            };
            for (number, part) in (1..).zip(self.parts.all) {
                running.part(number, part)?;
            }
            (running.end(), metrics)
        } else {
            // The ledger stays as it is: no run has started.
            for part in self.parts.all {
                ended.add_unrun(part);
            }
            let none = Vec::new;
            let metrics = start_metrics(self.metrics, &events, self.server_wait, none);
            (None, metrics)
        };
        progress.finish();
        self.base.signals.rows_ended(is_stopping(&events));
        Ok(EndedRun {
            base: self.base,
            identity: self.identity,
            parts: ended,
            ledger,
            events,
            metrics,
            summary: self.summary,
            report: self.report,
        })
    }

    /// Whether the run was stopped just before its end, which is all that is missing.
    fn only_ends(&self, events: &Events) -> bool {
        let ledger = self.ledger.as_ref();
        let continues = ledger.is_some_and(|ledger| ledger.facts.run.continues);
        continues && events.with_counts(Counts::exit) == Exit::Complete
    }

    /// The sentence about the answers that are kept, when the run is ended immediately.
    fn last_words(&self) -> Option<String> {
        let path = self.ledger.as_ref()?.location().to_display();
        let paid = if self.identity.sandbox { "" } else { "paid " };
        Some(format!(
            "`{path}` has the {paid}answers that reached the disk; the same command continues from there"
        ))
    }

    fn start_progress(&self, events: &Events) -> ProgressThread {
        let (config, parts) = (&self.base.config, &self.parts);
        let wait = self.server_wait.clone();
        let settings = ProgressSettings {
            identity: self.identity.clone(),
            size: parts.size(),
            files: parts.names(),
            limit: parts.selection().limit,
            concurrency: self.base.concurrency.get(),
            timeout: config.timeout,
            ledger_wait: Box::new(move || wait.why()),
            after_kill: self.last_words().unwrap_or_else(|| NOTHING_KEPT.to_owned()),
        };
        if config.watch.log.is_some() {
            events.add_observer(EventLog);
        }
        let style = if config.watch.quiet {
            Style::Off
        } else {
            config.watch.style
        };
        ProgressThread::start(style, settings, events.clone())
    }
}

/// Keeps the file of metrics, if there is one.
fn start_metrics(
    file: Option<MetricsFile>,
    events: &Events,
    wait: ServerWait,
    budgets: impl Fn() -> Vec<BudgetNumbers> + Send + 'static,
) -> Option<MetricsThread> {
    let measure = move || Measured {
        waits_for_ledger: wait.why().is_some(),
        budgets: budgets(),
    };
    file.map(|file| MetricsThread::start(file, events.clone(), Box::new(measure)))
}

/// Counts the parts whose rows do not run.
fn emit_unrun(parts: &OpenParts, events: &Events) {
    for part in &parts.all {
        match &part.state {
            PartState::Run(_) => {}
            PartState::Finished { rejects } => events.emit(Event::FileSkipped {
                has_rejects: rejects.is_some(),
            }),
            PartState::Unusable(error) => events.emit(Event::FileFailed(input_reason(error))),
        }
    }
}

/// Starts the run in its ledger, if it has one, and makes the engine, which gives the ledger new answers.
///
/// # Errors
/// Exit code 2 or 3: the ledger cannot be written, or a thread cannot be started.
fn start_engine(
    config: &RunConfig,
    ledger: Option<OpenLedger>,
    client: Client,
    mut gate: Gate,
    count: Option<&FirstCount>,
    events: &Events,
    stops: &UnboundedSender<Stop>,
) -> Result<(Option<RunningLedger>, Engine<Client>)> {
    let (budget, pace) = (&config.count.budget, &config.pace);
    let facts = ledger.as_ref().map(|ledger| &ledger.facts);
    let left = facts.and_then(|facts| calls_left(&config.count.call_limits, Some(facts)));
    // Where a run that finishes at its limit has too few calls for all requests, new ones come first.
    let lacks_calls = |count: &&FirstCount| {
        budget.finishes_at_limit && left.is_some_and(|left| left < count.calls)
    };
    let rules = StopRules {
        retries: RetryPolicy {
            retries: pace.retries,
            resends: pace.resends,
        },
        max_wait: pace.max_wait,
        max_failures: budget.max_failures,
        finishes: budget.finishes_at_limit,
        new_requests: count.filter(lacks_calls).map(|count| count.new_calls),
        host: client.endpoint().host().to_owned(),
    };
    let answers = AnswerRules {
        decisions: config.policy.clone(),
        fields: config.count.captured.clone(),
    };
    let mut give_up = GiveUpPolicy::new(budget.keep_going);
    let (ledger, writer) = if let Some(open) = ledger {
        give_up.worked_before = open.facts.has_usable;
        let calls = open.facts.run.spending.earlier;
        let (ledger, writer) = open.start()?;
        gate = share_pace(gate, pace.rate, &ledger, stops.clone())?;
        if calls > 0 {
            events.emit(Event::EarlierStarts { calls });
        }
        (Some(ledger), writer)
    } else {
        let limits = config.count.call_limits.clone();
        (None, LedgerWriter::in_memory(limits))
    };
    let events = events.clone();
    let engine = Engine::new(client, gate, writer, events, answers, rules, give_up);
    Ok((ledger, engine))
}

/// Shares a pace that is searched for with other runs of the account, where their ledger is on a server. A thread asks the
/// server; if it cannot, the run stops.
///
/// # Errors
/// Exit code 2 or 3: the server's address cannot be used, or the thread cannot be started.
fn share_pace(
    gate: Gate,
    rate: Rate,
    ledger: &RunningLedger,
    stops: UnboundedSender<Stop>,
) -> Result<Gate> {
    let (Some(mut exchange_in_ledger), Rate::Auto | Rate::Share(_)) =
        (ledger.pace_exchange()?, rate)
    else {
        return Ok(gate);
    };
    let (asks, asked) = std::sync::mpsc::channel();
    let (reply_to, replies) = unbounded_channel();
    let mut exchange = move |ask: &PaceAsk| -> Result<PaceReply> {
        let ask = serde_json::to_string(ask).map_err(|_| Error::internal("a pace is no JSON"))?;
        serde_json::from_str(&exchange_in_ledger(&ask)?).map_err(|_| {
            Error::usage("the pace in the ledger is one of another version of rescore")
                .hint("use the same version everywhere, or name a `--rate` for each run")
        })
    };
    let answer_asks = move || {
        for ask in asked {
            let sent = match exchange(&ask) {
                Ok(reply) => reply_to.send(reply).is_ok(),
                Err(error) => {
                    let _ = stops.send(Stop::new(CancelReason::Ledger, error));
                    false
                }
            };
            if !sent {
                return;
            }
        }
    };
    spawn("pace", answer_asks)?;
    Ok(gate.sharing(PaceStore { asks, replies }))
}

/// A run whose rows run: the parts go through one engine and one ledger.
struct RunningRun<'a> {
    config: &'a RunConfig,
    /// An input that cannot be used stops the run, as there is no other.
    is_only: bool,
    /// Whether the writer counts the rows for a report.
    counts_rows: bool,
    runtime: Runtime,
    engine: Engine<Client>,
    ledger: Option<RunningLedger>,
    stops: StopChannel,
    lookup: SharedLookup,
    /// The bytes of the inputs that are done.
    bytes_before: u64,
    ended: &'a mut EndedParts,
}

impl RunningRun<'_> {
    /// Runs the rows of a part, which is the run's first, second or third, unless it is skipped or the run is stopping.
    ///
    /// # Errors
    /// A thread cannot be started.
    fn part(&mut self, number: u64, part: RunPart<PartState<OpenPart>>) -> Result<()> {
        let events = self.engine.events();
        let open = match part.state {
            PartState::Run(open) if !is_stopping(events) => *open,
            state => {
                self.ended.add_unrun(RunPart { state, ..part });
                return Ok(());
            }
        };
        if !self.is_only {
            self.engine.start_file(number, self.bytes_before);
        }
        self.bytes_before += open.input.opened.size.unwrap_or_default();
        let input = &part.input;
        let (reader, opened, files) = match open_part(open, input, self.config.count.plan) {
            Ok(open) => open,
            Err(error) => {
                self.cannot_open(input, error);
                return Ok(());
            }
        };
        let policy = self.config.policy.clone();
        let mut writer = Writer::new(opened.layout.clone(), policy, files);
        if self.counts_rows {
            writer = writer.counting();
        }
        let stages = RowStages {
            reader,
            stops_at_broken: self.is_only,
            lookup: Arc::clone(&self.lookup),
            writer,
        };
        let earlier = events.with_counts(Counts::of_rows);
        let record = recorder(self.ledger.as_ref(), real_input(input));
        let end = run_rows(&self.runtime, &self.engine, stages, &mut self.stops, record)?;
        let counts = events.with_counts(Clone::clone);
        let rows = counts.of_rows().since(earlier);
        // A run that stops for another reason stops in the middle of a sound input.
        let is_of_input = matches!(
            counts.cancelled,
            None | Some(CancelReason::Input | CancelReason::InputChanged)
        );
        let of_part = end.error.as_ref().filter(|_| is_of_input);
        let ended = &mut *self.ended;
        ended.add_run(input, &opened, end.written, rows, &counts, of_part);
        ended.tally = end.tally;
        match (end.error, counts.cancelled) {
            (error, Some(_)) => ended.error = error,
            (Some(error), None) => self.part_failed(&error),
            (None, None) => {}
        }
        Ok(())
    }

    /// A part's input cannot be used, or its output cannot be made.
    fn cannot_open(&mut self, input: &ReaderSettings, error: Error) {
        self.ended.add_failed(input, error.in_a_line());
        if !self.is_only && !error.is_disk_full() {
            return self.part_failed(&error);
        }
        let reason = match input_reason(&error) {
            // There is no space for the next output either.
            _ if error.is_disk_full() => CancelReason::Output,
            reason => reason,
        };
        self.engine.events().emit(Event::CancelBegan(reason));
        self.ended.error = Some(error);
    }

    /// The run continues without this part, or without its end.
    fn part_failed(&self, error: &Error) {
        let reason = input_reason(error);
        self.engine.events().emit(Event::FileFailed(reason));
        tell_error(error);
    }

    /// Ends the calls, and returns the ledger, which stores the last answers.
    fn end(self) -> Option<RunningLedger> {
        // Look-ups close the ledger before the engine does, because the last to close it merges its log.
        drop(self.lookup);
        self.engine.end(self.engine.events().with_counts(run_end));
        drop(self.engine);
        // A look-up of a name that hangs must not hold up the end.
        self.runtime.shutdown_background();
        self.ledger
    }
}

/// Opens the input of a part, and its outputs if they are not open yet.
///
/// # Errors
/// Exit code 2: the input cannot be used, or a file cannot be made. Exit code 3: the disk is full, or the input was modified.
fn open_part(
    part: OpenPart,
    input: &ReaderSettings,
    plan: Plan,
) -> Result<(Reader, Opened, RowFiles)> {
    let (reader, opened) = part.input.open(input, plan)?;
    let files = match part.outputs {
        PartOutputs::Open(files) => *files,
        PartOutputs::Later(targets) => targets.open(opened.readers)?,
    };
    Ok((reader, opened, files))
}

/// The stages that the rows of a part pass through besides the engine.
pub(super) struct RowStages {
    pub(super) reader: Reader,
    /// Whether an input that can be read no further stops the run. Otherwise the rows that were read get their verdicts, and
    /// the run continues with its next part.
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
    let (write_sender, write) = channel(BATCHES);
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
    // After a stop, a reader may wait for ever for a silent pipe.
    let broken = if is_stopping(events) {
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

fn is_stopping(events: &Events) -> bool {
    events.with_counts(|stats| stats.cancelled.is_some())
}

/// Waits for the writer to end; after a stop, only for the time that it may take.
fn wait_for(
    writing: &Receiver<WriterEnd>,
    stops: &mut UnboundedReceiver<Stop>,
    events: &Events,
    error: &mut Option<Error>,
) -> WriterEnd {
    let mut left = WRITER_PATIENCE;
    loop {
        let ended = writing.recv_timeout(POLL_INTERVAL);
        // A writer that failed on the last rows, or a signal, may ask after the dispatcher has stopped listening.
        while let Ok(stop) = stops.try_recv() {
            if !is_stopping(events) {
                events.emit(Event::CancelBegan(stop.reason));
            }
            *error = error.take().or(stop.error);
        }
        let failed = match ended {
            Ok(end) => return end,
            Err(RecvTimeoutError::Timeout) if !is_stopping(events) => continue,
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

/// Why an input could be read no further, if that does not stop the run.
type ReaderEnd = Option<Error>;

/// Reads until the input ends or the receiver is gone. The rows come first, and then how the input ended.
fn reader(
    mut reader: Reader,
    lookup: SharedLookup,
    stops_at_broken: bool,
) -> Result<(mpsc::Receiver<Read>, Receiver<ReaderEnd>)> {
    let (sender, receiver) = channel(BATCHES);
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
        // After a stop, nobody waits for this thread.
        drop(lookup);
        let _ = ended.send(broken);
    };
    spawn("reader", read)?;
    Ok((receiver, end))
}

/// How the writer ended: itself, or the files that it left behind when it failed.
type WriterEnd = std::result::Result<Writer, Written>;

/// Writes until all senders are gone, then sends how it ended.
fn writer(
    mut writer: Writer,
    mut rows: mpsc::Receiver<Write>,
    events: Events,
    stops: UnboundedSender<Stop>,
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

/// The stop that a failed writer asks for: the reader of standard output has gone, or writing failed.
fn stop_of(error: WriteError) -> Stop {
    let (reason, error) = match error {
        WriteError::Closed => (CancelReason::OutputClosed, None),
        WriteError::Failed(error) => (CancelReason::Output, Some(error)),
    };
    Stop { reason, error }
}
