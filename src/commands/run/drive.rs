//! The third phase: starts everything that the run has only one of, lets the rows of its files run, and ends it.

use std::sync::Arc;

use tokio::runtime::Runtime;

use super::super::lookup::LookupStage;
use super::file::FileEnd;
use super::file_driver::FileDriver;
use super::last_words::LastWords;
use super::ledger::{PreparedLedger, RunLedger};
use super::parts::{PartsEnd, run_each};
use super::prepare::{CallParts, Context, PreparedRun};
use super::rows;
use super::run_files::PreparedFiles;
use super::stop_signals::StopSignals;
use super::threads::WhenBroken;
use super::unfinished_files::UnfinishedFiles;
use crate::base::error::{Error, Exit, Result};
use crate::engine::{Engine, Limits};
use crate::observe::{self, LedgerWait, MetricsThread, ProgressSettings, ProgressThread, Style};
use crate::pace::{CallBudget, GiveUpPolicy, RetryPolicy};
use crate::service::Client;
use crate::telemetry::event::Event;
use crate::telemetry::hub::{Events, Observer};
use crate::telemetry::stats::Stats;

/// A run whose rows have run, to the end or to a stop.
pub(super) struct DrivenRun {
    pub(super) context: Context,
    pub(super) ledger: RunLedger,
    pub(super) files: EndedFiles,
    pub(super) events: Events,
    pub(super) metrics: Option<MetricsThread>,
    pub(super) signals: StopSignals,
}

/// The files of a run whose rows have run.
pub(super) enum EndedFiles {
    /// One input to one output.
    One(Box<FileEnd>),
    /// Several inputs, each to a file in a directory.
    Parts(Box<PartsEnd>),
}

impl EndedFiles {
    /// What other runs have left unfinished beside the outputs.
    fn unfinished_beside(&self) -> UnfinishedFiles {
        match self {
            Self::One(_) => UnfinishedFiles::default(),
            Self::Parts(parts) => parts.unfinished_beside(),
        }
    }
}

/// Starts the run and lets its rows run.
///
/// # Errors
/// What kept the first call from being made, such as a signal.
pub(super) fn drive(prepared: PreparedRun) -> Result<DrivenRun> {
    let PreparedRun {
        mut context,
        ledger,
        files,
        calls,
        stops,
        signals,
        warnings: _,
    } = prepared;
    let runtime = runtime()?;
    let (events, progress) = start_progress(&runtime, &context, &files, &calls, &ledger);
    let metrics = context.metrics.take();
    let metrics = metrics.map(|file| MetricsThread::start(file, events.clone()));
    let files = match files.unless_done(&events, &ledger) {
        Ok(files) => files,
        // The ledger stays as it is: no run has started.
        Err(nothing_to_do) => {
            progress.finish();
            return Ok(DrivenRun {
                context,
                ledger: ledger.without_a_run(),
                files: EndedFiles::Parts(nothing_to_do),
                events,
                metrics,
                signals,
            });
        }
    };
    let lookup = ledger.lookup_stage()?;
    signals.run_starts(LastWords::of(&files, &ledger))?;
    let policy = calls.policy.clone();
    let (ledger, engine) = start_ledger(ledger, calls, &context, &events)?;
    note_report(&mut context, &files, &ledger);
    let driver = FileDriver {
        runtime: &runtime,
        engine: &engine,
        ledger: &ledger,
        policy,
        counts: context.report.is_some(),
        stops,
    };
    let files = run_files(driver, files, lookup)?;
    let beside = files.unfinished_beside();
    rows::finish(&engine, beside);
    progress.finish();
    signals.rows_ended(events.with_stats(|stats| stats.cancelled.is_some()));
    // A look-up of a name that hangs must not hold up the end.
    runtime.shutdown_background();
    drop(engine);
    Ok(DrivenRun {
        context,
        ledger,
        files,
        events,
        metrics,
        signals,
    })
}

/// Has the ledger remember the report, so that the same command replaces it.
fn note_report(context: &mut Context, files: &PreparedFiles, ledger: &RunLedger) {
    if let PreparedFiles::One(file) = files {
        let record = ledger.recorder(file.real_input.clone());
        context.report = { context.report.take() }.map(|report| report.noting(record));
    }
}

/// Lets the rows of all files run. The stage for look-ups is closed before the engine, whose ledger is to be the last that
/// closes it.
fn run_files(
    mut driver: FileDriver<'_>,
    files: PreparedFiles,
    lookup: LookupStage,
) -> Result<EndedFiles> {
    Ok(match files {
        PreparedFiles::One(file) => {
            let (file, _) = driver.run(*file, lookup, WhenBroken::StopRun)?;
            EndedFiles::One(Box::new(file))
        }
        PreparedFiles::Parts(parts) => {
            EndedFiles::Parts(Box::new(run_each(&mut driver, parts, lookup)?))
        }
    })
}

impl PreparedFiles {
    /// The files, if there is anything to do for the run; otherwise how it ends. Files whose rows do not run are counted.
    fn unless_done(self, events: &Events, ledger: &PreparedLedger) -> Result<Self, Box<PartsEnd>> {
        let parts = match self {
            Self::One(_) => return Ok(self),
            Self::Parts(parts) => parts,
        };
        parts.emit_known(events);
        // A run that was stopped just before its end is ended.
        let ends = ledger.facts.run.continues && events.with_stats(Stats::exit) == Exit::Complete;
        if parts.any_to_run() || ends {
            Ok(Self::Parts(parts))
        } else {
            Err(Box::new(parts.into_end()))
        }
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
    files: &PreparedFiles,
    calls: &CallParts,
    ledger: &PreparedLedger,
) -> (Events, ProgressThread) {
    let server_wait = ledger.server_wait.clone();
    let names = files.names();
    let number = matches!(files, PreparedFiles::Parts(_)).then_some(names.len() as u64);
    let (notices, inbox) = observe::notices(names.clone());
    let ender = notices.ender();
    let watch = &context.watch;
    let settings = ProgressSettings {
        identity: context.identity.clone(),
        style: if watch.quiet { Style::Off } else { watch.style },
        every: watch.every,
        size: files.size(),
        files: number,
        limit: match files {
            PreparedFiles::One(file) => file.input.selection.limit,
            PreparedFiles::Parts(_) => None,
        },
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
    let mut give_up = GiveUpPolicy::new(calls.budget.give_up_after);
    if ledger.facts.usable > 0 {
        give_up.worked_before();
    }
    let limits = Limits {
        retries: RetryPolicy::new(calls.pace.retries, calls.pace.resends),
        patience: calls.pace.patience,
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
