//! `rescore run`: a file of users in, the same file with verdicts out.
//!
//! Builds reader, scorer, writer and observers, connects them, and when all is over says how it went. The reader and
//! the writer have threads of their own; calls, timers and the dispatcher share this one.

use std::cell::RefCell;
use std::fs::File;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::answers::{Answers, RunAnswers, Whom};
use super::desk::Desk;
use super::places::Targets;
use super::signals::Heeded;
use super::threads::{self, BATCHES, WriterEnd, stop_of};
use super::{descriptors, places, space};
use crate::base::error::{Error, Exit, Result, printable, quoted, shown, system_words};
use crate::base::say::say;
use crate::base::secret::Secret;
use crate::config::{PaceConfig, RunConfig, ServiceConfig, WatchConfig};
use crate::fields::UserRequest;
use crate::input::{self, Input, Opened, Reader};
use crate::layout::Format;
use crate::ledger::KnownLimit;
use crate::observe::{self, Progress, Setting, Style, Summary};
use crate::output::{Sealed, Target, Unfinished, Writer, Written, partial_of};
use crate::pace::{Bounds, CallBudget, Fuse, Gate, Rate, RetryPolicy};
use crate::pipeline::{self, Channels, Stop, Window};
use crate::sandbox::{self, Sandbox};
use crate::scorer::{Absent, Keyring, Outage, Scorer};
use crate::service::{self, Client, ClientSettings, Endpoint, Plan, Service, ServiceId};
use crate::telemetry::event::{CancelReason, Event, Limit};
use crate::telemetry::hub::Events;
use crate::telemetry::stats::Stats;

/// Said of a run whose output is a stream, and that has no ledger.
const NO_LEDGER: &str = "rescore: no ledger keeps the paid answers: a run that stops has to start over (`--ledger FILE` keeps them)";
/// Rows of the window: at 300 rows/s a row may wait for seven minutes before it holds up the others. Only while one waits
/// are there so many in memory, at 0.9 KB each.
const WINDOW_ROWS: usize = 128 * 1_024;
/// Bytes of the window, for files with huge records.
const WINDOW_BYTES: usize = 64 * 1024 * 1024;

/// Runs, and says how it went.
///
/// # Errors
/// Whatever kept the run from beginning. What ended it early has been told, and is in the exit code.
pub fn execute(config: RunConfig) -> Result<Exit> {
    // Before anything is opened.
    let (concurrency, lowered) = descriptors::fit(&config)?;
    let RunConfig {
        input,
        output,
        service,
        plan,
        pace,
        budget,
        ledger,
        policy,
        captured,
        watch,
        warnings,
    } = config;
    let stops = mpsc::unbounded_channel();
    // First of all: to read the header may take for ever.
    let signals = Heeded::start(stops.0.clone())?;
    let source = input.input.clone();
    let speaks = !watch.quiet && watch.style != Style::Json;
    let (reader, opened) = open(input, plan, speaks)?;
    let ignored_early = opened.ignored.any();
    let rejects = places::rejects(&output, &opened.layout)?;
    let (side, summary) = (rejects.as_deref(), watch.summary.as_deref());
    places::check(&source, &output, side, summary, &ledger, &service)?;
    places::check_names(&output, side, opened.layout.format)?;
    let (stand_in, client) = connect(service, plan)?;
    let (endpoint, sandbox) = (client.endpoint.clone(), stand_in.is_some());
    let whom = Whom::of(&client, sandbox);
    let client = Client::new(client)?;
    // Before any file is touched: another run may be at them.
    let known_by = output.known_by();
    let answers = Answers::open(ledger, known_by, whom, &source, &captured, concurrency)?;
    let targets = Targets::check(&output, rejects.as_deref(), &answers)?;
    let summary_file = places::summary(summary, opened.mode)?;
    space::for_the_next_rows(output.target.as_ref(), answers.go_on(), opened.size)?;
    let (sink, sides) = targets.open(opened.mode).map_err(space::at_the_start)?;

    let gate = gate(pace, concurrency, answers.known());
    if speaks {
        let service = (!sandbox).then_some(&endpoint);
        introduce(&source, &opened, service, concurrency, pace.rate);
        answers.introduce(gate.limit());
        let stream = output.target.as_ref().is_none_or(Target::is_special);
        if stream && !sandbox && !answers.stay() {
            say(NO_LEDGER);
        }
    }
    warn(warnings.into_iter().chain(lowered), ignored_early, &answers);
    let runtime = runtime()?;
    let (events, progress) = observe(&runtime, &watch, &opened, sandbox, concurrency);
    let writer = Writer::new(opened.layout, policy.clone(), sink, sides);
    let rows = (reader, answers.desk()?, writer);
    signals.run_begins(farewell(output.target.as_ref(), &answers))?;
    let (failing, columns) = (answers.failing_requests(), answers.fields(captured.clone()));
    // Last of all, as it throws away what `--fresh` starts over from.
    let (answers, keeper) = answers.start()?;
    let scorer = Scorer {
        service: client,
        gate,
        retries: RetryPolicy::new(pace.retries, pace.resends),
        patience: pace.patience,
        outage: Outage::with_poison(failing),
        fuse: RefCell::new(Fuse::new(budget.give_up_after)),
        calls: CallBudget::new(budget.calls),
        failures: budget.failures,
        keeper,
        keys: Keyring::default(),
        transactions: RefCell::default(),
        absent: RefCell::new(Absent::new(&captured)),
        policy,
        columns,
        host: endpoint.host().to_owned(),
        events: events.clone(),
    };
    let record = |files: &_| answers.record_outputs(files);
    let (written, error) = drive(&runtime, &scorer, rows, stops, record)?;
    scorer.end();
    progress.finish();
    // A look-up of a name that hangs must not hold up the end.
    runtime.shutdown_background();
    drop(scorer);

    let stats = events.with_stats(Clone::clone);
    let error = error.map(|error| answers.explain(error, opened.size, &stats));
    let (kept, left_over) = answers.close(&stats, written.output.is_some());
    let was_there = written.output.is_some();
    let output = places::still_there(written.output);
    let summary = Summary {
        stats: &stats,
        elapsed: events.elapsed(),
        sandbox,
        endpoint: &endpoint.to_string(),
        output_is_gone: was_there && output.is_none(),
        output,
        rejects: places::still_there(written.rejects),
        changes: places::still_there(written.changes),
        ledger: kept,
        sandbox_billed: stand_in.map(|stand_in| stand_in.stop().billed),
    };
    tell(&summary, error.as_ref(), summary_file, &watch);
    let unsynced = written.unsynced.as_deref().map(unsynced);
    let of_input = of_input(&source, !ignored_early && opened.ignored.any(), &stats);
    for warning in left_over.into_iter().chain(unsynced).chain(of_input) {
        say(&warning);
    }
    Ok(stats.exit())
}

/// Warnings of an input that was read to its end.
fn of_input(source: &Input, ignored: bool, stats: &Stats) -> impl Iterator<Item = String> + use<> {
    let ignored = ignored.then(|| format!("warning: {IGNORED}"));
    let no_rows = stats.input_ended && stats.read == 0;
    let no_rows = no_rows.then(|| format!("warning: {} has no rows", named(source)));
    ignored.into_iter().chain(no_rows)
}

/// Opens the input. One that is checked for long is said to be, unless nobody wants to hear it.
fn open(settings: input::Settings, plan: Plan, speaks: bool) -> Result<(Reader, Opened)> {
    if speaks && input::is_checked_for_long(&settings.input) {
        say("rescore: checking the compressed input before anything is sent");
    }
    let compose = move |request: &UserRequest<'_>, to: &mut BytesMut| {
        service::write_body(request, plan, to);
    };
    Reader::open(settings, Box::new(compose))
}

/// What gzip says as well.
const IGNORED: &str =
    "the compressed data of the input is followed by other bytes, which are ignored";

fn warn(warnings: impl Iterator<Item = String>, ignored: bool, answers: &Answers) {
    let of_input = ignored.then(|| IGNORED.to_owned());
    let of_ledger = answers.thrown_away().or_else(|| answers.aged());
    for warning in warnings.chain(of_input).chain(of_ledger) {
        say(&format!("warning: {}", printable(&warning)));
    }
}

fn gate(pace: PaceConfig, in_flight: NonZeroUsize, known: Option<KnownLimit>) -> Gate {
    let bounds = Bounds {
        rate: pace.rate,
        in_flight,
        known: known.map_or(Limit::NONE, |known| known.limit),
        outage: pace.patience.outage,
    };
    Gate::new(bounds, fastrand::Rng::new())
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::internal("cannot start the runtime").because(e))
}

/// What is said where names could not be made durable, as in a directory that files may only be put into.
fn unsynced(directory: &Path) -> String {
    format!(
        "warning: `{}` cannot be synced: the files in it are complete, but a power cut now may undo their names",
        directory.display()
    )
}

/// What the second signal says before it ends the program at once.
fn farewell(output: Option<&Target>, answers: &Answers) -> String {
    let stopped = match output.filter(|target| !target.is_special()) {
        Some(target) => format!(
            "rescore: stopped at once; `{}` has the rows that were written so far",
            shown(&partial_of(target.path()))
        ),
        None => "rescore: stopped at once".to_owned(),
    };
    match answers.farewell() {
        Some(kept) => format!("{stopped}\n         {kept}"),
        None => stopped,
    }
}

fn connect(service: ServiceConfig, plan: Plan) -> Result<(Option<Sandbox>, ClientSettings)> {
    match service {
        ServiceConfig::Real(settings) => Ok((None, *settings)),
        ServiceConfig::Sandbox {
            timeout,
            connect_timeout,
        } => {
            let settings = sandbox::Settings {
                plan: match plan {
                    Plan::Paid { .. } => sandbox::Plan::Paid,
                    Plan::Free => sandbox::Plan::Free,
                },
                ..sandbox::Settings::default()
            };
            let stand_in = Sandbox::start(settings)
                .map_err(|e| Error::stopped("cannot start the sandbox").because(e))?;
            let client = ClientSettings {
                endpoint: Endpoint::new(&format!("http://{}", stand_in.address()), false)?,
                api_key: Secret::new("sandbox"),
                key_file: None,
                service_id: ServiceId::new("sandbox")?,
                proxy: None,
                timeout,
                connect_timeout,
                ca_file: None,
            };
            Ok((Some(stand_in), client))
        }
    }
}

fn introduce(
    input: &Input,
    opened: &Opened,
    service: Option<&Endpoint>,
    concurrency: NonZeroUsize,
    rate: Rate,
) {
    let name = named(input);
    let service = match service {
        Some(endpoint) => endpoint.to_string(),
        None => "the built-in sandbox, a stand-in".to_owned(),
    };
    say(&format!(
        "rescore: {name} to {service}; at most {concurrency} in flight, {rate}"
    ));
    if !opened.mapping.is_empty() {
        say(&format!("         {}", printable(&opened.mapping)));
    }
    if !opened.replaced.is_empty() {
        let names: Vec<_> = opened.replaced.iter().map(|name| quoted(name)).collect();
        let columns = match opened.layout.format {
            Format::Delimited { .. } => "columns",
            Format::Jsonl => "members",
        };
        say(&format!(
            "         replacing the {columns} {} of the input",
            names.join(", ")
        ));
    }
}

/// The input's name for people.
fn named(input: &Input) -> String {
    match input {
        Input::Stdin => "standard input".to_owned(),
        Input::File(path) => shown(path),
    }
}

fn observe(
    runtime: &Runtime,
    watch: &WatchConfig,
    opened: &Opened,
    sandbox: bool,
    concurrency: NonZeroUsize,
) -> (Events, Progress) {
    let (notices, inbox) = observe::notices();
    let ender = notices.ender();
    let setting = Setting {
        style: if watch.quiet { Style::Off } else { watch.style },
        every: watch.every,
        size: opened.size,
        sandbox,
        concurrency: concurrency.get(),
    };
    // The runtime's clock is the run's clock.
    let events = runtime.block_on(async { Events::new(vec![Box::new(notices)]) });
    let progress = Progress::start(setting, events.clone(), inbox, ender);
    (events, progress)
}

/// Connects the parts and lets rows run until the end or a stop; then ends the files accordingly.
fn drive<S: Service>(
    runtime: &Runtime,
    scorer: &Scorer<S>,
    (reader, desk, writer): (Reader, Desk, Writer),
    (stop_sender, mut stops): (mpsc::UnboundedSender<Stop>, mpsc::UnboundedReceiver<Stop>),
    note: impl FnOnce(&[Sealed]),
) -> Result<(Written, Option<Error>)> {
    let (write_sender, write) = mpsc::channel(BATCHES);
    let writing = threads::writer(writer, write, scorer.events.clone(), stop_sender)?;
    let (read, reading) = threads::reader(reader, desk)?;
    let window = Window {
        rows: WINDOW_ROWS,
        bytes: WINDOW_BYTES,
    };
    let channels = Channels {
        read,
        write: write_sender,
        stops: &mut stops,
    };
    // Whatever breaks down in there, rows that are paid for still reach the disk.
    let run = AssertUnwindSafe(|| runtime.block_on(pipeline::run(scorer, channels, window)));
    let stop = catch_unwind(run).unwrap_or_else(|_| {
        let stop = Stop::internal("a part of the program broke down");
        scorer.events.emit(Event::CancelBegan(stop.reason));
        Some(stop)
    });
    let mut error = stop.and_then(|stop| stop.error);
    let writer = wait_for(&writing, &mut stops, &scorer.events, &mut error);
    // Whoever is last at the ledger puts the log into it, and that should be us. A reader that waits for a silent pipe
    // never ends.
    let _ = reading.recv_timeout(LOOK);
    let ended = end(&scorer.events, writer, error, note);
    if let Some(keeper) = &scorer.keeper
        && scorer.events.with_stats(|stats| stats.cancelled.is_none())
    {
        keeper.finish(scorer.events.with_stats(RunAnswers::finished));
    }
    Ok(ended)
}

/// How often it is looked whether the wait for the writer should end.
const LOOK: Duration = Duration::from_millis(100);
/// What the writer gets after a stop, beside what it had while calls finished: a reader of our standard output that has
/// stopped reading must not keep a service manager waiting.
const LAST_ROWS: Duration = Duration::from_secs(2);

/// Waits for the writer, and for a reason to wait no longer.
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
        // A writer that failed with the last rows said so when nobody listened any more; so did a signal.
        while let Ok(stop) = stops.try_recv() {
            if !cancelled() {
                events.emit(Event::CancelBegan(stop.reason));
            }
            *error = error.take().or(stop.error);
        }
        let told = match ended {
            Ok(end) => return end,
            Err(RecvTimeoutError::Timeout) if !cancelled() => continue,
            Err(RecvTimeoutError::Timeout) => {
                left = left.saturating_sub(LOOK);
                if !left.is_zero() {
                    continue;
                }
                Error::stopped("the output takes no more rows; the last ones are lost")
            }
            Err(RecvTimeoutError::Disconnected) => {
                events.emit(Event::CancelBegan(CancelReason::Internal));
                Error::internal("the writer's thread broke down")
            }
        };
        events.emit(Event::OutputFailed);
        error.get_or_insert(told);
        return Err(Written::NOTHING);
    }
}

/// Ends the files as the run ended, and finds the error to report.
fn end(
    events: &Events,
    writer: WriterEnd,
    error: Option<Error>,
    note: impl FnOnce(&[Sealed]),
) -> (Written, Option<Error>) {
    if let Err(broken) = events.with_stats(Stats::check_invariants) {
        events.emit(Event::CancelBegan(CancelReason::Internal));
        let error = Error::internal(broken)
            .hint("this is a bug: nothing in the partial file is to be trusted");
        let left = writer.map_or_else(|left| left, Writer::give_up);
        return (left, Some(error));
    }
    let writer = match writer {
        Ok(writer) => writer,
        Err(left) => return (left, error),
    };
    let ended = if events.with_stats(|stats| stats.cancelled.is_some()) {
        writer.keep_partial()
    } else {
        writer.commit(note)
    };
    match ended {
        Ok(written) => (written, error),
        Err(unfinished) => {
            let Unfinished {
                error: failed,
                left,
            } = *unfinished;
            let failed = stop_of(failed);
            events.emit(Event::CancelBegan(failed.reason));
            (left, error.or(failed.error))
        }
    }
}

/// The summary for people or for programs, the one for `--summary`, and what ended the run early.
fn tell(summary: &Summary<'_>, error: Option<&Error>, file: Option<File>, watch: &WatchConfig) {
    match watch.style {
        _ if watch.quiet => summary.warning().iter().for_each(|line| say(line)),
        Style::Json => say(&summary.json_line()),
        _ => say(&summary.text()),
    }
    if let Some(Err(failed)) = file.map(|file| summary.write_json(file)) {
        // The rows are safe: the exit code stays theirs.
        say(&format!(
            "warning: cannot write the summary: {}",
            system_words(&failed)
        ));
    }
    if let Some(error) = error {
        say(&error.report());
    }
}

#[cfg(test)]
mod tests;
