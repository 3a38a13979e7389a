//! The first phase: opens and checks everything that a run needs. Nothing is sent here, and every refusal that can be known
//! comes before an output is made or replaced.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::files::NamedFile;
use super::super::lock_wait::LockWait;
use super::checked_files::CheckedFiles;
use super::ledger::{CallShape, LedgerPlan, PreparedLedger};
use super::log::LogPlan;
use super::open_files::OpenFiles;
use super::part::RunPart;
use super::service::{Answerer, ConnectedService};
use super::signals::StopSignals;
use super::threads::StopChannel;
use crate::base::error::{Error, Result, shown};
use crate::base::money::Tariff;
use crate::base::own_file;
use crate::config::{
    BudgetConfig, DEFAULT_CONCURRENCY, PaceConfig, RunConfig, ServiceConfig, WatchConfig,
};
use crate::ledger::KnownLimit;
use crate::observe::{DecisionRule, MetricsFile, MetricsLabels, RunIdentity, RunLog};
use crate::pace::{Gate, PaceLimits};
use crate::raw_json::Pointer;
use crate::sandbox::Sandbox;
use crate::service::{Client, Endpoint, KeyFile, Service as _};
use crate::telemetry::pace::Limit;
use crate::verdict::DecisionPolicy;

/// What a job is called that writes to standard output and has no name.
const NAMELESS: &str = "rescore";

/// A run that is ready to start.
pub(super) struct PreparedRun {
    pub(super) context: Context,
    pub(super) ledger: PreparedLedger,
    pub(super) files: OpenFiles,
    pub(super) calls: CallParts,
    pub(super) stops: StopChannel,
    pub(super) signals: StopSignals,
    /// What to say before the first call.
    pub(super) warnings: Vec<String>,
}

/// What all phases need.
pub(super) struct Context {
    /// Which run it is.
    pub(super) identity: RunIdentity,
    pub(super) endpoint: Endpoint,
    /// The built-in stand-in, where it answers instead of the service.
    pub(super) stand_in: Option<Sandbox>,
    /// Where metrics go for Prometheus.
    pub(super) metrics: Option<MetricsFile>,
    /// Where it is logged what happens.
    pub(super) log: Option<RunLog>,
    pub(super) watch: WatchConfig,
}

/// What makes calls.
pub(super) struct CallParts {
    pub(super) client: Client,
    pub(super) gate: Gate,
    pub(super) concurrency: NonZeroUsize,
    pub(super) pace: PaceConfig,
    pub(super) budget: BudgetConfig,
    pub(super) policy: DecisionPolicy,
    pub(super) captured: Box<[Pointer]>,
}

impl Context {
    /// Whether the stand-in answers.
    pub(super) const fn is_sandbox(&self) -> bool {
        self.stand_in.is_some()
    }
}

/// Opens and checks everything.
///
/// # Errors
/// What keeps the run from starting. No output has been replaced then.
pub(super) fn prepare(config: RunConfig) -> Result<PreparedRun> {
    let identity = identity_of(&config);
    let log = LogPlan::of(&config, &identity.job);
    // Before anything is opened.
    let (concurrency, fewer) = fit_fd_limit(&config)?;
    let mut answerer = Answerer::new(config.service, config.plan, config.timeouts)?;
    let stops = StopChannel::new();
    // Before anything is waited for: another run may last for hours, and the header may never come.
    let log_signals = log.as_ref().map(LogPlan::signals);
    let signals = StopSignals::start(stops.sender.clone(), log_signals)?;
    let wait = LockWait::new(config.wait_lock, !config.watch.quiet, || signals.check());
    let files = wait.until_free(|| CheckedFiles::check(config.files.clone(), &config.ledger))?;
    let mut ledger = LedgerPlan::new(&config.ledger, files.written(), answerer.is_sandbox());
    ledger.lock_early(&wait)?;
    let files = files.read(config.plan, config.limits, config.watch.shows_text())?;
    let (read, written) = run_wide_files(&config.watch, &answerer, &ledger);
    files.refuse_clashes(&read, &written)?;
    let to_run = files.parts.iter().filter_map(RunPart::to_run);
    let log = { log.map(|log| log.open(to_run, &ledger, concurrency)) }.transpose()?;
    let warnings = vec![answerer.warning.take(), fewer];
    let account = answerer.account();
    let service = answerer.connect()?;
    let metrics = metrics_of_run(&identity.job, &service, &config.watch)?;
    // Before any file is touched: another run may be writing them.
    files.make_directory()?;
    let input = files.identifying_input();
    let places = (input.as_deref(), files.identifying_file());
    let calls = CallShape {
        in_flight: concurrency,
        longest: service.client.longest_call(),
        outage: config.pace.max_wait,
    };
    let mut ledger = ledger.open(account, places, &config.captured, calls, &wait)?;
    let files = files.open(config.watch.summary.as_deref(), &mut ledger, &wait)?;
    drop(wait);
    Ok(PreparedRun {
        files,
        calls: CallParts {
            client: service.client,
            gate: gate(config.pace, concurrency, ledger.facts.known_limit),
            concurrency,
            pace: config.pace,
            budget: config.budget,
            policy: config.policy,
            captured: config.captured,
        },
        context: Context {
            identity,
            endpoint: service.endpoint,
            stand_in: service.stand_in,
            metrics,
            log,
            watch: config.watch,
        },
        ledger,
        stops,
        signals,
        warnings: warnings.into_iter().flatten().collect(),
    })
}

/// The identity of the run that starts now.
pub(super) fn identity_of(config: &RunConfig) -> RunIdentity {
    RunIdentity {
        job: job_name(config.watch.job.clone(), config.files.name()),
        profile: config.watch.profile.clone(),
        start: SystemTime::now(),
        rule: DecisionRule::of(&config.policy, &config.captured),
    }
}

/// The job's name: that which was given for it, or the output's.
pub(super) fn job_name(named: Option<String>, output: Option<&Path>) -> String {
    let output = output.and_then(Path::file_name);
    named
        .or_else(|| output.map(|name| name.to_string_lossy().into_owned()))
        .unwrap_or_else(|| NAMELESS.to_owned())
}

/// The files that a run reads and those that it writes once, however many inputs it has: no other file may have their names.
fn run_wide_files(
    watch: &WatchConfig,
    answerer: &Answerer,
    ledger: &LedgerPlan,
) -> (Vec<NamedFile>, Vec<NamedFile>) {
    let named = |files: Vec<(&'static str, Option<PathBuf>)>| {
        let files = files.into_iter();
        files.filter_map(|(what, path)| Some(NamedFile::new(what, &path?)))
    };
    let key = answerer.settings.key_file.as_ref().map(KeyFile::path);
    let log = watch.log.as_ref().and_then(|log| log.target.file());
    let read = named(vec![
        ("API key file", key.map(Into::into)),
        ("certificate authority", answerer.settings.ca_file.clone()),
    ]);
    let written = named(vec![
        ("summary", watch.summary.clone()),
        ("metrics", watch.metrics.clone()),
        ("log", log.map(Into::into)),
        ("output's lock", ledger.lock_path()),
    ]);
    let ledger = ledger.file().map(|path| NamedFile::ledger(&path));
    (read.collect(), written.chain(ledger).collect())
}

fn gate(pace: PaceConfig, in_flight: NonZeroUsize, known: Option<KnownLimit>) -> Gate {
    let bounds = PaceLimits {
        rate: pace.rate,
        in_flight,
        known: known.map_or(Limit::NONE, |known| known.limit),
        wait: pace.max_wait,
        outage: pace.max_wait,
    };
    Gate::new(bounds, fastrand::Rng::new())
}

/// The file of metrics of a run that starts, if it keeps any.
fn metrics_of_run(
    job: &str,
    service: &ConnectedService,
    watch: &WatchConfig,
) -> Result<Option<MetricsFile>> {
    // The built-in stand-in has another port each time.
    let endpoint = match service.stand_in {
        Some(_) => "sandbox".to_owned(),
        None => service.endpoint.to_string(),
    };
    let file = |path| metrics_file(path, job.to_owned(), endpoint, watch.tariff.clone());
    watch.metrics.clone().map(file).transpose()
}

/// The file of metrics.
///
/// # Errors
/// Exit code 2: there is a file that is not ours.
pub(super) fn metrics_file(
    path: PathBuf,
    job: String,
    endpoint: String,
    tariff: Option<Tariff>,
) -> Result<MetricsFile> {
    let labels = MetricsLabels { job, endpoint };
    let named = path.clone();
    MetricsFile::new(path, labels, tariff).map_err(|error| {
        let cannot = Error::usage(format!("cannot write the metrics to `{}`", shown(&named)));
        own_file::cannot_make(&named, cannot.because(error))
    })
}

/// Descriptors besides those of connections: files, pipes, timers and name look-ups.
const OTHERS: usize = 48;

/// Connections for each call. A call that waits for its connection takes another that is free sooner, and its own then stays
/// idle. With 64 calls to a stand-in that answers within a millisecond there were 100 connections, with 512 there were 770.
const CONNECTIONS: usize = 2;

/// Descriptors of a run from a file to a file with one call at a time; 23 were counted.
const LEAST: usize = 24;
/// Further descriptors of the stand-in: its runtime, its listener and the other end of a connection.
const OF_SANDBOX: usize = 6;

/// How many calls in flight the limit on open files has room for, and a warning where that is less than was asked for.
///
/// # Errors
/// Exit code 2: there is not even room for one call.
fn fit_fd_limit(config: &RunConfig) -> Result<(NonZeroUsize, Option<String>)> {
    let asked = config.pace.concurrency;
    let concurrency = asked.unwrap_or(DEFAULT_CONCURRENCY);
    let sandbox = matches!(config.service, ServiceConfig::Sandbox);
    let extra = [
        config.files.changes.is_some(),
        config.watch.summary.is_some(),
    ];
    let extra = extra.into_iter().filter(|is_there| *is_there).count();
    let least = LEAST + extra + if sandbox { OF_SANDBOX } else { 0 };
    // The stand-in lives in this process and holds the other end of every connection.
    let ends = if sandbox { 2 } else { 1 };
    let needed = concurrency.get() * CONNECTIONS * ends + OTHERS;
    let Some(limit) = raise(needed).filter(|limit| *limit < needed) else {
        return Ok((concurrency, None));
    };
    if limit < least {
        return Err(Error::usage(format!(
            "this process may open only {limit} files (`ulimit -n`), and {least} are needed"
        ))
        .hint("raise the limit, as with `ulimit -n 1024`"));
    }
    let room = limit.saturating_sub(OTHERS) / (CONNECTIONS * ends);
    let room = NonZeroUsize::new(room).unwrap_or(NonZeroUsize::MIN);
    let warning = asked.map(|asked| {
        format!("at most {room} calls in flight instead of {asked}: this process may open only {limit} files (`ulimit -n`)")
    });
    Ok((room, warning))
}

/// Raises the limit towards `needed`, and returns what it is then; `None` where there is none.
fn raise(needed: usize) -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let now = limit.current?;
    let target = limit
        .maximum
        .map_or(needed as u64, |most| most.min(needed as u64));
    let raised = Rlimit {
        current: Some(target),
        maximum: limit.maximum,
    };
    let after = if target > now && setrlimit(Resource::Nofile, raised).is_ok() {
        target
    } else {
        now
    };
    usize::try_from(after).ok()
}
