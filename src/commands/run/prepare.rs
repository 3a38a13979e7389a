//! The first phase: opens and checks everything that a run needs. Nothing is sent here, and every refusal that can be known
//! comes before an output is made or replaced.

use std::num::NonZeroUsize;

use super::super::files::SummaryFile;
use super::super::lock_wait::LockWait;
use super::fd_limit;
use super::identity;
use super::ledger::{CallShape, LedgerPlan, PreparedLedger};
use super::log::LogPlan;
use super::metrics;
use super::run_files::{FilesPlace, OpeningSettings, PreparedFiles, ReadyFiles};
use super::run_wide_files::RunWideFiles;
use super::service::Answerer;
use super::stop_signals::StopSignals;
use super::threads::StopChannel;
use crate::base::error::Result;
use crate::config::{BudgetConfig, PaceConfig, RunConfig, WatchConfig};
use crate::ledger::KnownLimit;
use crate::observe::{MetricsFile, RunIdentity, RunLog};
use crate::output::Document;
use crate::pace::{Gate, PaceLimits};
use crate::raw_json::Pointer;
use crate::sandbox::Sandbox;
use crate::service::{Client, Endpoint, Service as _};
use crate::telemetry::pace::Limit;
use crate::verdict::DecisionPolicy;

/// A run that is ready to start.
pub(super) struct PreparedRun {
    pub(super) context: Context,
    pub(super) ledger: PreparedLedger,
    pub(super) files: PreparedFiles,
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
    /// Where the summary goes as JSON.
    pub(super) summary: Option<SummaryFile>,
    /// Where metrics go for Prometheus.
    pub(super) metrics: Option<MetricsFile>,
    /// Where it is logged what happens.
    pub(super) log: Option<RunLog>,
    /// Where the report goes.
    pub(super) report: Option<Document>,
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
    let identity = identity::of(&config);
    let log = LogPlan::of(&config);
    // Before anything is opened.
    let fit = fd_limit::fit(&config)?;
    let mut answerer = Answerer::new(config.service, config.plan, config.timeouts)?;
    let stops = StopChannel::new();
    // Before anything is waited for: another run may last for hours, and the header may never come.
    let signals = StopSignals::start(stops.sender.clone(), log.signals())?;
    let wait = LockWait::new(config.wait_lock, !config.watch.quiet, || signals.check());
    let place = wait.until_free(|| FilesPlace::check(config.files.clone(), &config.ledger))?;
    let mut ledger = LedgerPlan::new(&config.ledger, place.written(), answerer.is_sandbox());
    ledger.lock_early(&wait)?;
    let reading = OpeningSettings::of(config.plan, config.limits, &config.ledger, &config.watch);
    let files = place.read(reading)?;
    files.refuse_clashes(&RunWideFiles::of(&config.watch, &answerer, &ledger))?;
    let log = log.open(files.opened(), &ledger, fit.concurrency)?;
    let warnings = vec![answerer.warning.take(), fit.warning];
    let account = answerer.account();
    let service = answerer.connect()?;
    let metrics = metrics::of_run(identity.job.clone(), &service, &config.watch)?;
    // Before any file is touched: another run may be writing them.
    files.make_directory()?;
    let input = files.identifying_input();
    let places = (input.as_deref(), files.identifying_file());
    let calls = CallShape {
        in_flight: fit.concurrency,
        longest: service.client.longest_call(),
        outage: config.pace.patience.outage,
    };
    let mut ledger = ledger.open(account, places, &config.captured, calls, &wait)?;
    let ReadyFiles {
        files,
        summary,
        report,
    } = files.open(&mut ledger, &config.watch, &wait)?;
    drop(wait);
    Ok(PreparedRun {
        files,
        calls: CallParts {
            client: service.client,
            gate: gate(config.pace, fit.concurrency, ledger.facts.known_limit),
            concurrency: fit.concurrency,
            pace: config.pace,
            budget: config.budget,
            policy: config.policy,
            captured: config.captured,
        },
        context: Context {
            identity,
            endpoint: service.endpoint,
            stand_in: service.stand_in,
            summary,
            metrics,
            log,
            report,
            watch: config.watch,
        },
        ledger,
        stops,
        signals,
        warnings: warnings.into_iter().flatten().collect(),
    })
}

fn gate(pace: PaceConfig, in_flight: NonZeroUsize, known: Option<KnownLimit>) -> Gate {
    let bounds = PaceLimits {
        rate: pace.rate,
        in_flight,
        known: known.map_or(Limit::NONE, |known| known.limit),
        wait: pace.patience.wait,
        outage: pace.patience.outage,
    };
    Gate::new(bounds, fastrand::Rng::new())
}
