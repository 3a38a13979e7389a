//! The first phase: opens and checks everything that a run needs. Nothing is sent here, and every refusal that can be known
//! comes before an output is made or replaced.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::before_paying::{before_paying, expected};
use super::files::{Files, RunPart};
use super::first_pass::FirstCount;
use super::ledger::{PreparedLedger, lock_output, reading};
use super::threads::StopChannel;
use crate::base::error::{Error, Result};
use crate::base::money::Money;
use crate::base::private_file;
use crate::base::secret::Secret;
use crate::base::text::display;
use crate::commands::files::LockWait;
use crate::commands::inputs::refuse_stream;
use crate::commands::signals::{RecordFailure, StopSignals};
use crate::config::{
    DEFAULT_CONCURRENCY, KeySource, PaceConfig, RunConfig, ServiceConfig, WatchConfig,
};
use crate::ledger::{LedgerSettings, OutputLock, ServerWait, lock_of};
use crate::observe::{DecisionRule, LogLine, MetricsFile, RunIdentity, log_line, start_log};
use crate::pace::{Gate, PaceLimits};
use crate::sandbox::{Sandbox, SandboxPlan, SandboxSettings};
use crate::service::{
    Account, Client, ClientSettings, Endpoint, KeyFile, Plan, SANDBOX_ID, Service as _, ServiceId,
    quotes_in_variables,
};
use crate::telemetry::pace::Limit;

/// The name of a job that writes to standard output.
const NAMELESS: &str = "rescore";

/// A run, from its start to its end.
pub(super) struct PreparedRun {
    pub(super) config: RunConfig,
    /// Which run it is.
    pub(super) identity: RunIdentity,
    pub(super) endpoint: Endpoint,
    /// The built-in stand-in, where it answers instead of the service.
    pub(super) stand_in: Option<Sandbox>,
    /// How many calls there are at a time at most.
    pub(super) concurrency: NonZeroUsize,
    pub(super) files: Files,
    /// Held to the very end; `None` where rows go to a stream.
    pub(super) lock: Option<OutputLock>,
    pub(super) signals: StopSignals,
}

/// The parts of a run that are consumed when rows start to run.
pub(super) struct Start {
    /// `None` with `--no-ledger`.
    pub(super) ledger: Option<PreparedLedger>,
    /// Says whether a ledger's server is waited for.
    pub(super) server_wait: ServerWait,
    pub(super) client: Client,
    pub(super) gate: Gate,
    pub(super) stops: StopChannel,
    /// Where metrics go for Prometheus.
    pub(super) metrics: Option<MetricsFile>,
    /// The counts of the first pass; `None` for a stream.
    pub(super) count: Option<FirstCount>,
    /// Warnings before the first call.
    pub(super) warnings: Vec<String>,
}

/// Opens and checks everything.
///
/// # Errors
/// What keeps the run from starting. No output has been replaced then.
pub(super) fn prepare(config: RunConfig, record: &RecordFailure) -> Result<(PreparedRun, Start)> {
    let mut identity = identity_of(&config);
    // Before anything is opened.
    let (concurrency, fewer) = fit_fd_limit(&config);
    // Before anything is waited for: another run may last for hours, and the header or the key may never come.
    let signals = StopSignals::start(true)?;
    let (client, stand_in) = answerer(&config)?;
    let wait = LockWait::new(config.wait_lock, !config.watch.quiet);
    let (mut files, lock) = find_files(&config, &wait, &signals, record)?;
    let account = match stand_in {
        Some(_) => Account::of_sandbox(),
        None => Account::of_service(&client.endpoint, &client.service_id),
    };
    let settings = files.ledger_settings(&config.ledger, Some(&account), &config.captured)?;
    let found = settings.as_ref();
    refuse_clashes(&files, &config.watch, &client, found)?;
    identity.mapping = common_mapping(&files.parts);
    open_log(&config, &identity, &files.parts, found, concurrency)?;
    let readable_key = client.key_file.as_ref().and_then(KeyFile::warning);
    let endpoint = client.endpoint.clone();
    let client = Client::new(client)?;
    identity.endpoint = Some(endpoint.to_string());
    let of_user = found.and_then(|it| it.location.file());
    let of_user = of_user.filter(|_| config.ledger.named.is_none());
    files.make_directories(of_user)?;
    let server_wait = ServerWait::new(config.pace.max_wait);
    let open = |settings| {
        let settings = of_run(settings, &config, &client, concurrency, &server_wait);
        PreparedLedger::open(&settings, account.sandbox, &wait)
    };
    let mut ledger = settings.map(open).transpose()?;
    let (count, unused) = before_paying(&mut files, &config, &account, ledger.as_mut())?;
    let unclear = files.read_replaced(config.policy.thresholds(), ledger.as_ref())?;
    identity.expected = expected(count.as_ref(), identity.tariff.as_ref());
    let metrics = config.watch.metrics.clone();
    let metrics = metrics
        .map(|path| metrics_file(path, identity.clone()))
        .transpose()?;
    files.open(ledger.as_mut(), config.watch.summary.as_deref(), &wait)?;
    let start = Start {
        gate: gate(config.pace, concurrency, ledger.as_ref()),
        stops: tokio::sync::mpsc::unbounded_channel(),
        warnings: [quotes_in_variables(), readable_key, fewer, unused, unclear]
            .into_iter()
            .flatten()
            .collect(),
        ledger,
        count,
        server_wait,
        client,
        metrics,
    };
    let run = PreparedRun {
        config,
        identity,
        endpoint,
        stand_in,
        concurrency,
        files,
        lock,
        signals,
    };
    Ok((run, start))
}

/// The files of the run, with the lock of its output.
///
/// # Errors
/// Exit code 2: they are not as they must be. Exit code 75: another run writes there.
fn find_files(
    config: &RunConfig,
    wait: &LockWait,
    signals: &StopSignals,
    record: &RecordFailure,
) -> Result<(Files, Option<OutputLock>)> {
    let mut files = Files::find(config.files.clone(), config.ledger.reuse)?;
    wait.until_free(|| files.check_output())?;
    // From here on no other run writes there, however long the input takes.
    let lock = lock_output(files.written(), wait)?;
    signals.output_is_locked(Arc::clone(record));
    for part in &files.parts {
        refuse_stream(config.limits, &part.input)?;
    }
    files.read(config.plan)?;
    Ok((files, lock))
}

/// The settings of a ledger, completed with those of the run.
fn of_run(
    settings: LedgerSettings,
    config: &RunConfig,
    client: &Client,
    in_flight: NonZeroUsize,
    wait: &ServerWait,
) -> LedgerSettings {
    let tariff = config.budget.price.as_ref();
    LedgerSettings {
        read: reading(&config.captured, client.keys()),
        longest_call: client.longest_call(),
        in_flight,
        wait: wait.clone(),
        limits: config.call_limits.clone(),
        price: tariff.map_or(Money::default(), |tariff| tariff.price),
        ..settings
    }
}

fn gate(pace: PaceConfig, in_flight: NonZeroUsize, ledger: Option<&PreparedLedger>) -> Gate {
    let known = ledger.and_then(|ledger| ledger.open.facts.known_limit);
    let limits = PaceLimits {
        rate: pace.rate,
        in_flight,
        known: known.map_or(Limit::NONE, |known| known.limit),
        max_wait: pace.max_wait,
    };
    Gate::new(limits, fastrand::Rng::new())
}

/// How the service is reached, with its key, or the built-in stand-in, which is started.
///
/// # Errors
/// Exit code 2: there is no usable key. Exit code 3: the stand-in cannot be started.
fn answerer(config: &RunConfig) -> Result<(ClientSettings, Option<Sandbox>)> {
    let service = match &config.service {
        ServiceConfig::Real(service) => service,
        ServiceConfig::Sandbox => return stand_in(config),
    };
    let (api_key, key_file) = match &service.key {
        KeySource::Variable(key) => (key.clone(), None),
        KeySource::File(file) => (file.read()?, Some(file.clone())),
    };
    let settings = ClientSettings {
        endpoint: service.endpoint.clone(),
        api_key,
        key_file,
        service_id: service.service_id.clone(),
        timeout: config.timeout,
        ca_file: service.ca_file.clone(),
    };
    Ok((settings, None))
}

fn stand_in(config: &RunConfig) -> Result<(ClientSettings, Option<Sandbox>)> {
    let stand_in = Sandbox::start(SandboxSettings {
        plan: match config.plan {
            Plan::Paid { .. } => SandboxPlan::Paid,
            Plan::Free => SandboxPlan::Free,
        },
        ..SandboxSettings::default()
    })
    .map_err(|e| Error::stopped("cannot start the sandbox").because(e))?;
    let settings = ClientSettings {
        endpoint: Endpoint::new(&format!("http://{}", stand_in.address()), false)?,
        api_key: Secret::new("sandbox"),
        key_file: None,
        service_id: ServiceId::new(SANDBOX_ID)?,
        timeout: config.timeout,
        ca_file: None,
    };
    Ok((settings, Some(stand_in)))
}

/// The identity of the run that starts now.
pub(super) fn identity_of(config: &RunConfig) -> RunIdentity {
    let (sandbox, endpoint) = match &config.service {
        ServiceConfig::Real(service) => (false, Some(service.endpoint.to_string())),
        ServiceConfig::Sandbox => (true, None),
    };
    RunIdentity {
        profile: config.profile.clone(),
        sandbox,
        endpoint,
        rule: DecisionRule::of(&config.policy, &config.captured),
        tariff: config.budget.price.clone(),
        options: config.options.clone(),
        ..RunIdentity::new(job_name(config.files.name()))
    }
}

/// Which column is which field, where it is the same in all inputs that are to run.
fn common_mapping(parts: &[RunPart]) -> Option<String> {
    let to_run = parts.iter().filter_map(RunPart::to_run);
    let mut mappings = to_run.map(|open| &open.opened.mapping);
    let first = mappings.next()?;
    mappings.all(|other| other == first).then(|| first.clone())
}

/// The name of a job for monitoring: the name of its output, which is the same every night.
fn job_name(output: Option<&Path>) -> String {
    let name = output.and_then(Path::file_name);
    name.map_or_else(
        || NAMELESS.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Fails when any two of the run's files would be the same file.
///
/// # Errors
/// Exit code 2: they would, or the name of a file does not fit its format.
fn refuse_clashes(
    files: &Files,
    watch: &WatchConfig,
    client: &ClientSettings,
    ledger: Option<&LedgerSettings>,
) -> Result<()> {
    let lock = files.written().map(lock_of);
    files.refuse_clashes(&[
        ("API key file", client.key_file.as_ref().map(KeyFile::path)),
        ("certificate authority", client.ca_file.as_deref()),
        ("summary", watch.summary.as_deref()),
        ("metrics", watch.metrics.as_deref()),
        ("log", watch.log.as_deref()),
        ("output's lock", lock.as_deref()),
        ("ledger", ledger.and_then(|it| it.location.file())),
    ])
}

/// The file of metrics.
///
/// # Errors
/// Exit code 2: there is a file that is not ours.
pub(super) fn metrics_file(path: PathBuf, identity: RunIdentity) -> Result<MetricsFile> {
    let named = path.clone();
    MetricsFile::new(path, identity).map_err(|error| {
        let cannot = Error::usage(format!("cannot write the metrics to `{}`", display(&named)));
        private_file::cannot_make(&named, cannot.because(error))
    })
}

/// Opens the log, if the run keeps one, and logs the start of the run.
///
/// # Errors
/// Exit code 2: it cannot be opened, or rescore did not write it.
pub(super) fn open_log(
    config: &RunConfig,
    identity: &RunIdentity,
    parts: &[RunPart],
    ledger: Option<&LedgerSettings>,
    concurrency: NonZeroUsize,
) -> Result<()> {
    let Some(path) = config.watch.log.as_deref() else {
        return Ok(());
    };
    start_log(path).map_err(|error| {
        let not_ours = private_file::is_foreign_file(&error);
        let cannot = Error::usage(format!("cannot write the log to `{}`", display(path)));
        match cannot.because(error) {
            cannot if not_ours => {
                cannot.hint("give `--log` another name: rescore adds only to logs of its own")
            }
            cannot => private_file::cannot_make(path, cannot),
        }
    })?;
    let inputs: Vec<_> = parts.iter().filter_map(input).collect();
    log_line(LogLine::RunStarted(json!({
        "run": identity,
        "inputs": inputs,
        "output": config.files.name().map(text_of),
        "ledger": ledger.map(|it| text_of(it.location.path())),
        "concurrency": concurrency,
    })));
    Ok(())
}

/// A file's name for programs; JSON escapes it.
fn text_of(path: &Path) -> String {
    path.display().to_string()
}

/// An input that was opened, and which of its columns is which field.
fn input(part: &RunPart) -> Option<Value> {
    let opened = &part.to_run()?.opened;
    Some(json!({
        "path": part.input.file.input.path().map(text_of),
        "format": opened.layout.format.extension(),
        "bytes": opened.size,
        "mapping": opened.mapping,
    }))
}

/// Descriptors besides those of connections: files, pipes, timers and name look-ups.
const OTHERS: usize = 48;

/// Connections for each call. A call that waits for its connection takes another that is free sooner, and its own then stays
/// idle. With 64 calls to a stand-in that answers within a millisecond there were 100 connections, with 512 there were 770.
const CONNECTIONS: usize = 2;

/// How many calls in flight the limit on open files has room for, and a warning where that is less than was asked for.
fn fit_fd_limit(config: &RunConfig) -> (NonZeroUsize, Option<String>) {
    let asked = config.pace.concurrency;
    let concurrency = asked.unwrap_or(DEFAULT_CONCURRENCY);
    // The stand-in lives in this process and holds the other end of every connection.
    let ends = match config.service {
        ServiceConfig::Sandbox => 2,
        ServiceConfig::Real(_) => 1,
    };
    let needed = concurrency.get() * CONNECTIONS * ends + OTHERS;
    let Some(limit) = raise(needed).filter(|limit| *limit < needed) else {
        return (concurrency, None);
    };
    let room = limit.saturating_sub(OTHERS) / (CONNECTIONS * ends);
    let room = NonZeroUsize::new(room).unwrap_or(NonZeroUsize::MIN);
    let warning = asked.map(|asked| {
        format!("at most {room} calls in flight instead of {asked}: this process may open only {limit} files (`ulimit -n`)")
    });
    (room, warning)
}

/// Raises the limit towards `needed`, and returns the new limit; `None` if there is none.
fn raise(needed: usize) -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let (now, needed) = (limit.current?, needed as u64);
    let target = limit.maximum.map_or(needed, |most| most.min(needed));
    let raised = Rlimit {
        current: Some(target),
        maximum: limit.maximum,
    };
    let is_raised = target > now && setrlimit(Resource::Nofile, raised).is_ok();
    usize::try_from(if is_raised { target } else { now }).ok()
}
