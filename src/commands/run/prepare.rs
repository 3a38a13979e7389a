//! The first phase: opens and checks everything that a run needs. Nothing is sent here, and every refusal that can be known
//! comes before an output is made or replaced.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::files::NamedFile;
use super::super::lock_wait::LockWait;
use super::files::{Files, RunPart};
use super::ledger::{PreparedLedger, lock_output, reading};
use super::log::open_log;
use super::signals::StopSignals;
use super::threads::StopChannel;
use crate::base::error::{Error, Result, shown};
use crate::base::own_file;
use crate::base::secret::Secret;
use crate::config::{
    DEFAULT_CONCURRENCY, KeySource, PaceConfig, RealService, RunConfig, ServiceConfig, WatchConfig,
};
use crate::ledger::{KnownLimit, LedgerLocation, OutputLock, ServerWait, lock_of};
use crate::observe::{DecisionRule, MetricsFile, RunIdentity, RunLog};
use crate::pace::{Gate, PaceLimits};
use crate::sandbox::{self, Sandbox};
use crate::service::{
    Account, Client, ClientSettings, Endpoint, KeyFile, Plan, SANDBOX_ID, Service as _, ServiceId,
};
use crate::telemetry::pace::Limit;

/// What a job is called that writes to standard output.
const NAMELESS: &str = "rescore";

/// A run, in all its phases.
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
    /// Where metrics go for Prometheus, until the run starts.
    pub(super) metrics: Option<MetricsFile>,
    /// Where it is logged what happens.
    pub(super) log: Option<RunLog>,
    pub(super) signals: StopSignals,
}

/// What is used up when rows start to run.
pub(super) struct Start {
    pub(super) ledger: PreparedLedger,
    pub(super) client: Client,
    pub(super) gate: Gate,
    pub(super) stops: StopChannel,
    /// What to say before the first call.
    pub(super) warnings: Vec<String>,
}

/// Opens and checks everything.
///
/// # Errors
/// What keeps the run from starting. No output has been replaced then.
pub(super) fn prepare(config: RunConfig) -> Result<(PreparedRun, Start)> {
    let mut identity = identity_of(&config);
    // Before anything is opened.
    let (concurrency, fewer) = fit_fd_limit(&config);
    let (watch, pace) = (&config.watch, config.pace);
    let answerer = Answerer::new(&config.service, config.plan, config.timeout)?;
    let stops: StopChannel = tokio::sync::mpsc::unbounded_channel();
    // Before anything is waited for: another run may last for hours, and the header may never come.
    let signals = StopSignals::start()?;
    let wait = LockWait::new(config.wait_lock, !watch.quiet);
    let mut files = Files::find(config.files.clone(), config.ledger.reuse)?;
    wait.until_free(|| files.check_output())?;
    let lock = read_inputs(&mut files, &config, &wait)?;
    let is_sandbox = answerer.stand_in.is_some();
    let mut ledger = files.ledger_settings(&config.ledger, is_sandbox, &config.captured);
    let (read, written) = run_wide_files(watch, &answerer, &ledger.location, files.written());
    files.refuse_clashes(&read, &written)?;
    identity.mapping = common_mapping(&files.parts);
    let parts = (&*files.parts, config.files.name());
    let ledger_path = ledger.location.path();
    let log = { watch.log.as_deref() }
        .map(|path| open_log(path, &identity, parts, ledger_path.as_deref(), concurrency))
        .transpose()?;
    let account = answerer.account();
    let endpoint = answerer.settings.endpoint.clone();
    let client = Client::new(answerer.settings)?;
    identity.endpoint = Some(endpoint.to_string());
    let metrics = { watch.metrics.clone() }
        .map(|path| metrics_file(path, identity.clone()))
        .transpose()?;
    files.make_directory()?;
    ledger.read = reading(&config.captured, client.keys());
    ledger.in_flight = concurrency;
    ledger.longest_call = client.longest_call();
    ledger.wait = ServerWait::new(pace.max_wait);
    let mut ledger = PreparedLedger::open(ledger, &account, lock, &wait)?;
    files.open(&mut ledger, watch.summary.as_deref(), &wait)?;
    let start = Start {
        gate: gate(pace, concurrency, ledger.facts.known_limit),
        ledger,
        client,
        stops,
        warnings: answerer.warning.into_iter().chain(fewer).collect(),
    };
    let run = PreparedRun {
        config,
        identity,
        endpoint,
        stand_in: answerer.stand_in,
        concurrency,
        files,
        metrics,
        log,
        signals,
    };
    Ok((run, start))
}

/// Reads the inputs up to their first rows, and takes the lock of the output.
///
/// # Errors
/// Exit code 2: an input cannot be used. Exit code 75: another run writes the output.
fn read_inputs(
    files: &mut Files,
    config: &RunConfig,
    wait: &LockWait,
) -> Result<Option<OutputLock>> {
    // A run that may wait for another one looks at what that one has left. A run that does not wait takes the lock later, so
    // that it blocks no other run while it waits for its input.
    let is_early = config.wait_lock.is_some();
    let early = lock_output(files.written().filter(|_| is_early), wait)?;
    files.refuse_broken(config.limits)?;
    files.read(config.plan)?;
    if is_early {
        return Ok(early);
    }
    lock_output(files.written(), wait)
}

fn gate(pace: PaceConfig, in_flight: NonZeroUsize, known: Option<KnownLimit>) -> Gate {
    let limits = PaceLimits {
        rate: pace.rate,
        in_flight,
        known: known.map_or(Limit::NONE, |known| known.limit),
        wait: pace.max_wait,
        outage: pace.max_wait,
    };
    Gate::new(limits, fastrand::Rng::new())
}

/// The service or the stand-in, before there is a client.
struct Answerer {
    settings: ClientSettings,
    /// The built-in stand-in, where it answers instead of the service.
    stand_in: Option<Sandbox>,
    /// A warning about the key's file.
    warning: Option<String>,
}

impl Answerer {
    /// Reads the key of the service, or starts the stand-in.
    ///
    /// # Errors
    /// Exit code 2: there is no usable key. Exit code 3: the stand-in cannot be started.
    fn new(config: &ServiceConfig, plan: Plan, timeout: Duration) -> Result<Self> {
        match config {
            ServiceConfig::Real(service) => Self::of_service(service, timeout),
            ServiceConfig::Sandbox => Self::of_stand_in(plan, timeout),
        }
    }

    fn of_service(service: &RealService, timeout: Duration) -> Result<Self> {
        let (api_key, key_file) = match &service.key {
            KeySource::Variable(key) => (key.clone(), None),
            KeySource::Nowhere => return Err(no_key()),
            KeySource::Credential(file) if !file.path().exists() => return Err(no_key()),
            KeySource::File(file) | KeySource::Credential(file) => {
                (file.read()?, Some(file.clone()))
            }
        };
        Ok(Self {
            warning: key_file.as_ref().and_then(KeyFile::warning),
            settings: ClientSettings {
                endpoint: service.endpoint.clone(),
                api_key,
                key_file,
                service_id: service.service_id.clone(),
                timeout,
                ca_file: service.ca_file.clone(),
            },
            stand_in: None,
        })
    }

    fn of_stand_in(plan: Plan, timeout: Duration) -> Result<Self> {
        let stand_in = Sandbox::start(sandbox::SandboxSettings {
            plan: match plan {
                Plan::Paid { .. } => sandbox::SandboxPlan::Paid,
                Plan::Free => sandbox::SandboxPlan::Free,
            },
            ..sandbox::SandboxSettings::default()
        })
        .map_err(|e| Error::stopped("cannot start the sandbox").because(e))?;
        let settings = ClientSettings {
            endpoint: Endpoint::new(&format!("http://{}", stand_in.address()), false)?,
            api_key: Secret::new("sandbox"),
            key_file: None,
            service_id: ServiceId::new(SANDBOX_ID)?,
            timeout,
            ca_file: None,
        };
        Ok(Self {
            settings,
            stand_in: Some(stand_in),
            warning: None,
        })
    }

    /// The account that it is asked for.
    fn account(&self) -> Account {
        match &self.stand_in {
            Some(_) => Account::of_sandbox(),
            None => Account::of_service(&self.settings.endpoint, &self.settings.service_id),
        }
    }
}

/// Nothing names a key, and systemd's credentials have none.
fn no_key() -> Error {
    Error::usage("no API key")
        .detail(
            "API key: give `--api-key-file FILE`, set the variable `RESCORE_API_KEY`, or load the systemd credential `rescore-api-key`",
        )
        .hint("`--sandbox` uses a built-in stand-in, which needs no key")
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

/// What a run is called where several are watched: by the name of its output, which is the same every night.
pub(super) fn job_name(output: Option<&Path>) -> String {
    let name = output.and_then(Path::file_name);
    name.map_or_else(
        || NAMELESS.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// The files that a run reads and those that it writes once, however many inputs it has: no other file may have their names.
fn run_wide_files(
    watch: &WatchConfig,
    answerer: &Answerer,
    ledger: &LedgerLocation,
    output: Option<&Path>,
) -> (Vec<NamedFile>, Vec<NamedFile>) {
    let named = |what, path: Option<&Path>| path.map(|path| NamedFile::new(what, path));
    let ledger = match ledger {
        LedgerLocation::File(path) => Some(path.as_path()),
        LedgerLocation::Server(_) | LedgerLocation::Temporary => None,
    };
    let lock = output.map(lock_of);
    let (key, ca) = (&answerer.settings.key_file, &answerer.settings.ca_file);
    let read = [
        named("API key file", key.as_ref().map(KeyFile::path)),
        named("certificate authority", ca.as_deref()),
    ];
    let written = [
        named("summary", watch.summary.as_deref()),
        named("metrics", watch.metrics.as_deref()),
        named("log", watch.log.as_deref()),
        named("output's lock", lock.as_deref()),
        named("ledger", ledger),
    ];
    let all = |files: &[Option<NamedFile>]| files.iter().flatten().cloned().collect();
    (all(&read), all(&written))
}

/// The file of metrics.
///
/// # Errors
/// Exit code 2: there is a file that is not ours.
pub(super) fn metrics_file(path: PathBuf, identity: RunIdentity) -> Result<MetricsFile> {
    let named = path.clone();
    MetricsFile::new(path, identity).map_err(|error| {
        let cannot = Error::usage(format!("cannot write the metrics to `{}`", shown(&named)));
        own_file::cannot_make(&named, cannot.because(error))
    })
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

/// Raises the limit towards `needed`, and returns what it is then; `None` where there is none.
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
