//! The third phase: starts everything that the run has only one of, lets the rows of one part after the other run, and ends it.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Runtime;

use super::super::lookup::LookupStage;
use super::super::open_input::OpenInput;
use super::ended_files::EndedFiles;
use super::ledger::{PreparedLedger, RunLedger};
use super::open_files::OpenFiles;
use super::part::{OpenPart, RunPart, Turn};
use super::prepare::{CallParts, Context, PreparedRun};
use super::rows::{self, RowStages, RowsEnd, run_rows};
use super::signals::StopSignals;
use super::threads::{StopChannel, WhenBroken, watch_stdout};
use crate::base::error::{Error, Exit, Result};
use crate::engine::{Engine, Limits};
use crate::observe::{
    self, LedgerWait, MetricsThread, ProgressSettings, ProgressThread, Style, tell_error,
};
use crate::output::Writer;
use crate::pace::{CallBudget, GiveUpPolicy, RetryPolicy};
use crate::service::Client;
use crate::telemetry::event::{CancelReason, Event};
use crate::telemetry::hub::{Events, Observer};
use crate::telemetry::row_counts::RowCounts;
use crate::telemetry::stats::Stats;
use crate::verdict::DecisionPolicy;

/// A run whose rows have run, to the end or to a stop.
pub(super) struct DrivenRun {
    pub(super) context: Context,
    pub(super) ledger: RunLedger,
    pub(super) files: EndedFiles,
    pub(super) events: Events,
    pub(super) metrics: Option<MetricsThread>,
    pub(super) signals: StopSignals,
}

/// Starts the run and lets its rows run.
///
/// # Errors
/// What kept the first call from being made, such as a signal.
pub(super) fn drive(prepared: PreparedRun) -> Result<DrivenRun> {
    let PreparedRun {
        mut context,
        ledger,
        mut files,
        calls,
        stops,
        signals,
        warnings: _,
    } = prepared;
    let runtime = runtime()?;
    let (events, progress) = start_progress(&runtime, &context, &files, &calls, &ledger);
    let metrics = context.metrics.take();
    let metrics = metrics.map(|file| MetricsThread::start(file, events.clone()));
    emit_unrun(&files, &events);
    let mut ended = EndedFiles::of(&mut files);
    // A run that was stopped just before its end is ended.
    let ends = ledger.facts.run.continues && events.with_stats(Stats::exit) == Exit::Complete;
    let ledger = if files.to_run().next().is_some() || ends {
        let lookup = ledger.lookup_stage()?;
        signals.run_starts(ledger.last_words())?;
        let policy = calls.policy.clone();
        let (ledger, engine) = start_ledger(ledger, calls, &context, &events)?;
        note_report(&mut ended, &files, &ledger);
        let mut turns = Turns {
            runtime: &runtime,
            engine: &engine,
            ledger: &ledger,
            policy,
            stops,
            when_broken: files.when_broken,
            is_one_of_several: files.directory.is_some(),
            lookup: Some(lookup),
            before: 0,
            ended: &mut ended,
        };
        for (file, part) in (1..).zip(files.parts) {
            turns.next(file, part)?;
        }
        // The stage for look-ups is closed before the engine, whose ledger is to be the last that closes it.
        drop(turns);
        rows::finish(&engine, ended.unfinished_beside());
        progress.finish();
        signals.rows_ended(events.with_stats(|stats| stats.cancelled.is_some()));
        ledger
    } else {
        // The ledger stays as it is: no run has started.
        files
            .parts
            .into_iter()
            .for_each(|part| ended.add_unrun(part));
        progress.finish();
        ledger.without_a_run()
    };
    // A look-up of a name that hangs must not hold up the end.
    runtime.shutdown_background();
    Ok(DrivenRun {
        context,
        ledger,
        files: ended,
        events,
        metrics,
        signals,
    })
}

/// Counts the parts whose rows do not run.
fn emit_unrun(files: &OpenFiles, events: &Events) {
    for part in &files.parts {
        match &part.turn {
            Turn::Run(_) => {}
            Turn::Skip { rejects } => events.emit(Event::FileSkipped {
                has_rejects: rejects.is_some(),
            }),
            Turn::Unusable(error) => events.emit(Event::FileFailed(reason_of(error))),
        }
    }
}

/// Has the ledger remember the report, so that the same command replaces it.
fn note_report(ended: &mut EndedFiles, files: &OpenFiles, ledger: &RunLedger) {
    let input = files.parts.first().and_then(RunPart::real_input);
    let record = ledger.recorder(input);
    ended.report = { ended.report.take() }.map(|report| report.noting(record));
}

/// The parts in their turns, and what the rows of all of them pass through.
struct Turns<'a> {
    runtime: &'a Runtime,
    engine: &'a Engine<Client>,
    ledger: &'a RunLedger,
    policy: DecisionPolicy,
    stops: StopChannel,
    when_broken: WhenBroken,
    is_one_of_several: bool,
    /// `None` once the run is stopping.
    lookup: Option<LookupStage>,
    /// The bytes of the inputs whose turns are over.
    before: u64,
    ended: &'a mut EndedFiles,
}

impl Turns<'_> {
    /// Lets the rows of a part run, unless they are not to run or the run is stopping.
    ///
    /// # Errors
    /// A thread cannot be started.
    fn next(&mut self, file: u64, part: RunPart) -> Result<()> {
        let Some(lookup) = self.lookup.take() else {
            self.ended.add_unrun(part);
            return Ok(());
        };
        let real_input = part.real_input();
        let RunPart {
            input,
            output,
            turn,
        } = part;
        let Turn::Run(to_run) = turn else {
            self.lookup = Some(lookup);
            self.ended.add_unrun(RunPart {
                input,
                output,
                turn,
            });
            return Ok(());
        };
        if self.is_one_of_several {
            self.engine.start_file(file, self.before);
        }
        self.before += to_run.facts.size.unwrap_or_default();
        let path = input.path.clone();
        let open = match to_run.open(input) {
            Ok(open) => open,
            Err(error) => {
                self.lookup = Some(lookup);
                self.ended.add_failed(path, &error);
                self.cannot_open(error);
                return Ok(());
            }
        };
        self.run(path, real_input, open, lookup)
    }

    /// Lets the rows of a part run whose turn has come.
    fn run(
        &mut self,
        path: PathBuf,
        real_input: Option<PathBuf>,
        open: OpenPart,
        lookup: LookupStage,
    ) -> Result<()> {
        let OpenPart {
            input:
                OpenInput {
                    reader,
                    layout,
                    facts,
                    ..
                },
            files,
            writes_stdout,
        } = open;
        if writes_stdout {
            watch_stdout(self.stops.sender.clone())?;
        }
        let writer = Writer::new(layout, self.policy.clone(), files);
        let stages = RowStages {
            reader,
            when_broken: self.when_broken,
            lookup,
            writer: if self.ended.report.is_some() {
                writer.counting()
            } else {
                writer
            },
        };
        let earlier = self.engine.events().with_stats(RowCounts::of);
        let record = self.ledger.recorder(real_input);
        let end = run_rows(self.runtime, self.engine, stages, &mut self.stops, record)?;
        let RowsEnd {
            written,
            error,
            tally,
            lookup,
        } = end;
        let stats = self.engine.events().with_stats(Clone::clone);
        let rows = RowCounts::of(&stats).since(earlier);
        let of_part = { error.as_ref() }.filter(|_| stats.cancelled.is_none_or(is_of_input));
        self.ended
            .add_run((path, &facts), written, rows, &stats, of_part);
        self.ended.tally = tally;
        match (error, stats.cancelled) {
            (error, Some(_)) => self.ended.error = error,
            (Some(error), None) => self.part_failed(&error),
            (None, None) => {}
        }
        self.lookup = lookup.filter(|_| stats.cancelled.is_none());
        Ok(())
    }

    /// The turn of a part has come, and its input cannot be used, or its output cannot be made.
    fn cannot_open(&mut self, error: Error) {
        let reason = match reason_of(&error) {
            // The next output would not have a place either.
            _ if error.is_disk_full() => CancelReason::Output,
            reason if self.when_broken == WhenBroken::StopRun => reason,
            _ => return self.part_failed(&error),
        };
        self.engine.events().emit(Event::CancelBegan(reason));
        self.ended.error = Some(error);
        self.lookup = None;
    }

    /// The run continues without this part, or without its end.
    fn part_failed(&self, error: &Error) {
        let reason = reason_of(error);
        self.engine.events().emit(Event::FileFailed(reason));
        tell_error(error);
    }
}

/// Whether a run that stops for this reason stops because of an input.
const fn is_of_input(reason: CancelReason) -> bool {
    matches!(reason, CancelReason::Input | CancelReason::InputChanged)
}

/// Why an input cannot be used.
fn reason_of(error: &Error) -> CancelReason {
    match error.exit() {
        Exit::Stopped => CancelReason::InputChanged,
        _ => CancelReason::Input,
    }
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
    files: &OpenFiles,
    calls: &CallParts,
    ledger: &PreparedLedger,
) -> (Events, ProgressThread) {
    let server_wait = ledger.server_wait.clone();
    let names = files.names();
    let number = { files.directory.as_ref() }.map(|_| names.len() as u64);
    let (notices, inbox) = observe::notices(names.clone());
    let ender = notices.ender();
    let watch = &context.watch;
    let settings = ProgressSettings {
        identity: context.identity.clone(),
        style: if watch.quiet { Style::Off } else { watch.style },
        every: watch.every,
        size: files.size(),
        files: number,
        limit: files.selection().limit,
        sandbox: context.is_sandbox(),
        tariff: watch.tariff.clone(),
        concurrency: calls.concurrency.get(),
        ledger_wait: LedgerWait(Arc::new(move || server_wait.why())),
    };
    // The runtime's clock is the run's clock.
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(notices)];
    let log = { context.log.as_ref() }.map(|log| log.observer(names));
    observers.extend(log.map(|log| Box::new(log) as _));
    let events = runtime.block_on(async { Events::new(observers) });
    let progress = ProgressThread::start(settings, events.clone(), inbox, ender);
    (events, progress)
}

/// Starts the run in its ledger and makes the engine, which gives the ledger new answers.
fn start_ledger(
    ledger: PreparedLedger,
    calls: CallParts,
    context: &Context,
    events: &Events,
) -> Result<(RunLedger, Engine<Client>)> {
    let mut give_up = GiveUpPolicy::new(calls.budget.keep_going);
    if ledger.facts.usable > 0 {
        give_up.worked_before();
    }
    let limits = Limits {
        retries: RetryPolicy::new(calls.pace.retries, calls.pace.resends),
        max_wait: calls.pace.max_wait,
        calls: CallBudget::new(calls.budget.calls, ledger.facts.run.calls_before),
        failures: calls.budget.failures,
        host: context.endpoint.host().to_owned(),
    };
    let (calls_before, lost) = (ledger.facts.run.calls_before, ledger.facts.run.lost_calls);
    let (ledger, writer) = ledger.start()?;
    if calls_before > 0 || lost > 0 {
        let calls = calls_before;
        events.emit(Event::EarlierStarts { calls, lost });
    }
    let engine = Engine::new(
        (calls.client, calls.gate),
        writer,
        events.clone(),
        (calls.policy, calls.captured),
        limits,
        give_up,
    );
    Ok((ledger, engine))
}
