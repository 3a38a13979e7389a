//! The third phase: starts the shared services, then runs the parts in order, and ends the run.

use std::sync::{Arc, Mutex};

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::files::{Files, PartState, RunPart};
use super::finish::{EndedFiles, finish};
use super::first_pass::FirstCount;
use super::ledger::{PreparedLedger, look_up_in_run, recorder, run_end};
use super::prepare::{PreparedRun, Start};
use super::threads::{RowStages, SharedLookup, StopChannel, run_rows};
use crate::base::error::{Error, Exit, Result};
use crate::commands::signals::SignalReach;
use crate::commands::signals::{runtime, spawn};
use crate::engine::{AnswerRules, Engine, Stop, StopRules, input_reason};
use crate::ledger::{LedgerWriter, RunningLedger, ServerWait};
use crate::observe::{
    EventLog, MetricsThread, ProgressSettings, ProgressThread, Style, tell_error,
};
use crate::output::Writer;
use crate::pace::{Gate, GiveUpPolicy, PaceAsk, PaceReply, PaceStore, Rate, RetryPolicy};
use crate::service::Client;
use crate::telemetry::counts::{Counts, Events};
use crate::telemetry::event::{CancelReason, Event};

/// Starts the run, lets its rows run, and says how it went.
///
/// # Errors
/// What kept the first call from being made.
pub(super) fn drive(mut run: PreparedRun, start: Start) -> Result<Exit> {
    let runtime = runtime()?;
    let (events, progress) = start_progress(&runtime, &run, start.server_wait);
    let metrics = start.metrics;
    let metrics = metrics.map(|file| MetricsThread::start(file, events.clone()));
    emit_unrun(&run.files, &events);
    let mut ended = EndedFiles::of(&run.files);
    let parts = std::mem::take(&mut run.files.parts);
    let any = parts.iter().any(|part| part.to_run().is_some());
    // A run that was stopped just before its end is ended.
    let ledger = start.ledger.as_ref();
    let continues = ledger.is_some_and(|ledger| ledger.open.facts.run.continues);
    let ledger = if any || continues && events.with_counts(Counts::exit) == Exit::Complete {
        let lookup = Arc::new(Mutex::new(look_up_in_run(start.ledger.as_ref())?));
        run.signals.run_starts(SignalReach {
            stops: start.stops.0.clone(),
            last_words: start.ledger.as_ref().map(PreparedLedger::last_words),
            ask_progress: Box::new(progress.asker()),
        });
        let stops = start.stops.0.clone();
        let new_requests = new_requests(&run, start.ledger.as_ref(), start.count.as_ref());
        let (ledger, engine) = start_engine(
            &run,
            start.ledger,
            start.client,
            start.gate,
            new_requests,
            &events,
            stops,
        )?;
        ended.real_input = parts.first().and_then(RunPart::real_input);
        let mut runner = PartRunner {
            run: &run,
            is_only: run.files.directory.is_none(),
            runtime: &runtime,
            engine: &engine,
            ledger: ledger.as_ref(),
            stops: start.stops,
            lookup,
            before: 0,
            ended: &mut ended,
        };
        for (file, part) in (1..).zip(parts) {
            runner.next(file, part)?;
        }
        // Look-ups close the ledger before the engine does, because the last to close it merges its log.
        drop(runner);
        engine.end(events.with_counts(run_end));
        ledger
    } else {
        // The ledger stays as it is: no run has started.
        for part in parts {
            ended.add_unrun(part);
        }
        None
    };
    progress.finish();
    let stopped = events.with_counts(|counts| counts.cancelled.is_some());
    run.signals.rows_ended(stopped);
    // A look-up of a name that hangs must not hold up the end.
    runtime.shutdown_background();
    Ok(finish(run, ended, ledger, &events, metrics))
}

/// Counts the parts whose rows do not run.
fn emit_unrun(files: &Files, events: &Events) {
    for part in &files.parts {
        match &part.state {
            PartState::None | PartState::Run(_) => {}
            PartState::Skip => events.emit(Event::FileSkipped {
                has_rejects: part.rejects.is_some(),
            }),
            PartState::Unusable(error) => events.emit(Event::FileFailed(input_reason(error))),
        }
    }
}

/// Runs the parts in order through the shared services.
struct PartRunner<'a> {
    run: &'a PreparedRun,
    /// An input that cannot be used stops the run, as there is no other.
    is_only: bool,
    runtime: &'a Runtime,
    engine: &'a Engine<Client>,
    ledger: Option<&'a RunningLedger>,
    stops: StopChannel,
    lookup: SharedLookup,
    /// The bytes of the inputs that are done.
    before: u64,
    ended: &'a mut EndedFiles,
}

impl PartRunner<'_> {
    /// Runs the rows of a part, unless it is skipped or the run is stopping.
    ///
    /// # Errors
    /// A thread cannot be started.
    fn next(&mut self, file: u64, mut part: RunPart) -> Result<()> {
        let events = self.engine.events();
        let open = match std::mem::replace(&mut part.state, PartState::None) {
            PartState::Run(open) if events.with_counts(|counts| counts.cancelled.is_none()) => open,
            state => {
                self.ended.add_unrun(RunPart { state, ..part });
                return Ok(());
            }
        };
        if !self.is_only {
            self.engine.start_file(file, self.before);
        }
        self.before += open.opened.size.unwrap_or_default();
        let (reader, opened, files) = match open.open(&part.input) {
            Ok(open) => open,
            Err(error) => {
                self.cannot_open(&part, error);
                return Ok(());
            }
        };
        let mut writer = Writer::new(opened.layout.clone(), self.run.config.policy.clone(), files);
        if self.run.files.report.is_some() {
            writer = writer.counting();
        }
        let stages = RowStages {
            reader,
            stops_at_broken: self.is_only,
            lookup: Arc::clone(&self.lookup),
            writer,
        };
        let earlier = events.with_counts(Counts::of_rows);
        let record = recorder(self.ledger, part.real_input());
        let end = run_rows(self.runtime, self.engine, stages, &mut self.stops, record)?;
        let stats = events.with_counts(Clone::clone);
        let rows = stats.of_rows().since(earlier);
        let error = end.error.as_ref();
        // A run that stops for another reason stops in the middle of a sound input.
        let of_input = [
            None,
            Some(CancelReason::Input),
            Some(CancelReason::InputChanged),
        ];
        let of_part = error.filter(|_| of_input.contains(&stats.cancelled));
        self.ended
            .add_run(&part.input, &opened, end.written, rows, &stats, of_part);
        self.ended.tally = end.tally;
        match (end.error, stats.cancelled) {
            (error, Some(_)) => self.ended.error = error,
            (Some(error), None) => self.part_failed(&error),
            (None, None) => {}
        }
        Ok(())
    }

    /// A part's input cannot be used, or its output cannot be made.
    fn cannot_open(&mut self, part: &RunPart, error: Error) {
        let reason = match input_reason(&error) {
            // The next output would not have a place either.
            _ if error.is_disk_full() => CancelReason::Output,
            reason => reason,
        };
        let words = error.in_a_line();
        if self.is_only || error.is_disk_full() {
            self.engine.events().emit(Event::CancelBegan(reason));
            self.ended.error = Some(error);
        } else {
            self.part_failed(&error);
        }
        self.ended.add_failed(&part.input, words);
    }

    /// The run continues without this part, or without its end.
    fn part_failed(&self, error: &Error) {
        let reason = input_reason(error);
        self.engine.events().emit(Event::FileFailed(reason));
        tell_error(error);
    }
}

fn start_progress(
    runtime: &Runtime,
    run: &PreparedRun,
    server_wait: ServerWait,
) -> (Events, ProgressThread) {
    let (files, watch) = (&run.files, &run.config.watch);
    let style = if watch.quiet { Style::Off } else { watch.style };
    let settings = ProgressSettings {
        identity: run.identity.clone(),
        size: files.size(),
        files: files.names(),
        limit: files.selection.limit,
        concurrency: run.concurrency.get(),
        timeout: run.config.timeout,
        ledger_wait: Box::new(move || server_wait.why()),
    };
    // The runtime's clock is the run's clock.
    let events = runtime.block_on(async { Events::new() });
    if watch.log.is_some() {
        events.add_observer(EventLog);
    }
    let progress = ProgressThread::start(style, settings, events.clone());
    (events, progress)
}

/// How many requests have no answer, if the run finishes at a limit and the budget does not leave a call for each request.
fn new_requests(
    run: &PreparedRun,
    ledger: Option<&PreparedLedger>,
    count: Option<&FirstCount>,
) -> Option<u64> {
    let left = ledger?.calls_left(&run.config.call_limits)?;
    let count = count.filter(|count| run.config.budget.finishes_at_limit && left < count.calls)?;
    Some(count.new_calls)
}

/// Starts the run in its ledger, if it has one, and makes the engine, which gives the ledger new answers.
///
/// # Errors
/// Exit code 2 or 3: the ledger cannot be written, or a thread cannot be started.
fn start_engine(
    run: &PreparedRun,
    ledger: Option<PreparedLedger>,
    client: Client,
    gate: Gate,
    new_requests: Option<u64>,
    events: &Events,
    stops: UnboundedSender<Stop>,
) -> Result<(Option<RunningLedger>, Engine<Client>)> {
    let (budget, pace) = (&run.config.budget, run.config.pace);
    let mut give_up = GiveUpPolicy::new(budget.keep_going);
    let rules = StopRules {
        retries: RetryPolicy {
            retries: pace.retries,
            resends: pace.resends,
        },
        max_wait: pace.max_wait,
        max_failures: budget.max_failures,
        finishes: budget.finishes_at_limit,
        new_requests,
        host: run.endpoint.host().to_owned(),
    };
    let answers = AnswerRules {
        decisions: run.config.policy.clone(),
        fields: run.config.captured.clone(),
    };
    let (ledger, writer, gate) = if let Some(PreparedLedger { open, .. }) = ledger {
        give_up.worked_before = open.facts.has_usable;
        let record = &open.facts.run;
        let calls = record.spending.earlier;
        let (ledger, writer) = open.start()?;
        let gate = share_pace(gate, pace.rate, &ledger, stops)?;
        if calls > 0 {
            events.emit(Event::EarlierStarts { calls });
        }
        (Some(ledger), writer, gate)
    } else {
        let writer = LedgerWriter::in_memory(run.config.call_limits.clone());
        (None, writer, gate)
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
    let (Some(mut in_ledger), Rate::Auto | Rate::Share(_)) = (ledger.pace_exchange()?, rate) else {
        return Ok(gate);
    };
    let (asks, asked) = std::sync::mpsc::channel();
    let (reply_to, replies) = unbounded_channel();
    let mut exchange = move |ask: &PaceAsk| -> Result<PaceReply> {
        let ask = serde_json::to_string(ask).map_err(|_| Error::internal("a pace is no JSON"))?;
        serde_json::from_str(&in_ledger(&ask)?).map_err(|_| {
            Error::usage("the pace in the ledger is one of another version of rescore")
                .hint("use the same version everywhere, or name a `--rate` for each run")
        })
    };
    let ask_always = move || {
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
    spawn("pace", ask_always)?;
    Ok(gate.sharing(PaceStore { asks, replies }))
}
