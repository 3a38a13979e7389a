//! The third phase: starts everything that the run has only one of, lets the rows of its files run, and ends it.

use tokio::runtime::Runtime;

use super::file::{FileEnd, OpenFile};
use super::ledger::{PreparedLedger, RunLedger};
use super::lookup::LookupStage;
use super::prepare::{CallParts, Context, PreparedRun};
use super::rows::{self, RowStages, run_rows};
use super::threads::{StopChannel, WhenBroken};
use crate::base::error::{Error, Result, shown};
use crate::ledger::{LedgerWriter, RequestUuids};
use crate::observe::{self, MetricsThread, ProgressSettings, ProgressThread, Style};
use crate::output::{Sealed, Writer, partial_of};
use crate::pace::{CallBudget, GiveUpPolicy, RetryPolicy};
use crate::scorer::{Caller, Outage, Policies, RowRecorder, Scorer};
use crate::service::Client;
use crate::telemetry::hub::{Events, Observer};
use crate::verdict::DecisionPolicy;

/// A run whose rows have run, to the end or to a stop.
pub(super) struct DrivenRun {
    pub(super) context: Context,
    pub(super) ledger: RunLedger,
    pub(super) file: FileEnd,
    pub(super) events: Events,
    pub(super) metrics: Option<MetricsThread>,
}

/// What the rows of every file pass through, one file after the other.
struct FileDriver<'a> {
    runtime: &'a Runtime,
    scorer: &'a Scorer<Client>,
    ledger: &'a RunLedger,
    policy: DecisionPolicy,
    /// Rows are counted for a report.
    counts: bool,
    stops: StopChannel,
}

/// Starts the run and lets its rows run.
///
/// # Errors
/// What kept the first call from being made, such as a signal.
pub(super) fn drive(prepared: PreparedRun) -> Result<DrivenRun> {
    let PreparedRun {
        mut context,
        ledger,
        file,
        calls,
        stops,
        signals,
        warnings: _,
    } = prepared;
    let runtime = runtime()?;
    let (events, progress) = start_progress(&runtime, &context, &file, calls.concurrency.get());
    let metrics = context.metrics.take();
    let metrics = metrics.map(|file| MetricsThread::start(file, events.clone()));
    let lookup = ledger.lookup_stage()?;
    signals.run_starts(last_words(&file, &ledger))?;
    let policy = calls.policy.clone();
    let (ledger, scorer) = start_ledger(ledger, calls, &context, &events)?;
    let mut driver = FileDriver {
        runtime: &runtime,
        scorer: &scorer,
        ledger: &ledger,
        policy,
        counts: context.report.is_some(),
        stops,
    };
    let (file, lookup) = driver.run(file, lookup, WhenBroken::StopRun)?;
    // Closed before the scorer, whose ledger is to be the last that closes it.
    drop(lookup);
    rows::finish(&scorer);
    scorer.answers_ended();
    progress.finish();
    // A look-up of a name that hangs must not hold up the end.
    runtime.shutdown_background();
    drop(scorer);
    Ok(DrivenRun {
        context,
        ledger,
        file,
        events,
        metrics,
    })
}

impl FileDriver<'_> {
    /// Lets the rows of a file run. Returns the stage for the next file, if there may be one.
    ///
    /// # Errors
    /// A thread cannot be started.
    fn run(
        &mut self,
        file: OpenFile,
        lookup: LookupStage,
        when_broken: WhenBroken,
    ) -> Result<(FileEnd, Option<LookupStage>)> {
        let OpenFile {
            input,
            real_input,
            output,
            reader,
            check,
            layout,
            sink,
            sides,
        } = file;
        let writer = Writer::new(layout, self.policy.clone(), sink, sides);
        let stages = RowStages {
            reader,
            check,
            when_broken,
            lookup,
            writer: if self.counts {
                writer.counting()
            } else {
                writer
            },
        };
        let ledger = self.ledger;
        let record = |files: &[Sealed]| ledger.record(files, real_input.as_deref());
        let mut rows = run_rows(self.runtime, self.scorer, stages, &mut self.stops, record)?;
        let lookup = rows.lookup.take();
        let ended = FileEnd {
            input,
            output,
            rows,
        };
        Ok((ended, lookup))
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
    file: &OpenFile,
    concurrency: usize,
) -> (Events, ProgressThread) {
    let (notices, inbox) = observe::notices();
    let ender = notices.ender();
    let watch = &context.watch;
    let settings = ProgressSettings {
        identity: context.identity.clone(),
        style: if watch.quiet { Style::Off } else { watch.style },
        every: watch.every,
        size: file.input.size,
        limit: file.input.selection.limit,
        sandbox: context.is_sandbox(),
        tariff: watch.tariff.clone(),
        concurrency,
    };
    // The runtime's clock is the run's clock.
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(notices)];
    observers.extend(context.log.iter().map(|log| Box::new(log.observer()) as _));
    let events = runtime.block_on(async { Events::new(observers) });
    let progress = ProgressThread::start(settings, events.clone(), inbox, ender);
    (events, progress)
}

/// The last words of a run that the second signal ends.
fn last_words(file: &OpenFile, ledger: &PreparedLedger) -> String {
    let output = file.output.as_ref();
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
    let uuids = { calls.client.recognises_requests() }
        .then(|| { writer.as_ref() }.map_or_else(RequestUuids::of_pass, LedgerWriter::uuids));
    let recorder = RowRecorder::new(writer, calls.policy, events.clone(), &calls.captured);
    let caller = Caller::new(calls.client, calls.gate, fields).identifying(uuids);
    Ok((ledger, Scorer::new(caller, policies, recorder)))
}
