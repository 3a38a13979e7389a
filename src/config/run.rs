//! `rescore run`.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::money::Tariff;
use crate::base::secret::Secret;
use crate::base::tolerance::Tolerance;
use crate::engine::Patience;
use crate::input;
use crate::ledger::{LedgerLocation, Reuse, ledger_in};
use crate::observe::Style;
use crate::pace::{CallLimit, FailureBudget, GiveUpAfter, Rate, Resends};
use crate::raw_json::Pointer;
use crate::service::{Endpoint, KeyFile, Plan, ServiceId};
use crate::telemetry::part::AcceptedFailures;
use crate::verdict::DecisionPolicy;

/// `rescore run`.
#[derive(Debug)]
pub(crate) struct RunConfig {
    /// What is read and written.
    pub(crate) files: FilesConfig,
    /// What the input must be like.
    pub(crate) limits: InputLimits,
    /// What answers the calls.
    pub(crate) service: ServiceConfig,
    /// From a call's start to its answer's end.
    pub(crate) timeout: Duration,
    /// The plan, with its flags.
    pub(crate) plan: Plan,
    /// When calls are made.
    pub(crate) pace: PaceConfig,
    /// What the run may spend.
    pub(crate) budget: BudgetConfig,
    /// Which answers are stored and used.
    pub(crate) ledger: LedgerConfig,
    /// How decisions are made.
    pub(crate) policy: DecisionPolicy,
    /// Further fields of the answer: those of the columns in their order, then a level that only decides.
    pub(crate) captured: Box<[Pointer]>,
    /// How long to wait for another run that holds the output or the ledger; `None` is not at all.
    pub(crate) wait_lock: Option<Duration>,
    /// What people see.
    pub(crate) watch: WatchConfig,
}

/// A run whose arguments, variables or settings file are wrong: what is known of it, so that its failure can be left where
/// somebody looks for it.
#[derive(Debug)]
pub(crate) struct UnconfiguredRun {
    /// Where its rows would go, a file or a directory; `None` is standard output.
    pub(crate) output: Option<PathBuf>,
    /// Where its summary would go.
    pub(crate) summary: Option<PathBuf>,
    /// Where its metrics would go.
    pub(crate) metrics: Option<PathBuf>,
    /// Where its log would go.
    pub(crate) log: Option<PathBuf>,
    /// The profile of the settings file.
    pub(crate) profile: Option<String>,
}

/// The most calls in flight where the user gives no number. Few services take more from one client, and each call takes
/// some 60 KB. It is only a ceiling: the search for what a service can take starts far below.
pub(crate) const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(512).expect("above 0");

/// What the input must be like for anything to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct InputLimits {
    /// The least number of rows.
    pub(crate) min_rows: Option<NonZeroU64>,
    /// How many rows may be such that they cannot be sent.
    pub(crate) max_invalid: Option<Tolerance>,
}

/// What a run reads and writes: one input to one output, or several, each to a file of its name in a directory.
#[derive(Debug, Clone)]
pub(crate) struct FilesConfig {
    /// What is read, and how: one input, or where there is a directory any number, and a name may be a pattern.
    pub(crate) inputs: Vec<input::ReaderSettings>,
    /// The output of one input; `None` is standard output.
    pub(crate) output: Option<PathBuf>,
    /// The directory of the outputs; `None` for one input to one output.
    pub(crate) directory: Option<PathBuf>,
    /// Where failed rows go; `None` is a file next to each output, where that is a file.
    pub(crate) rejects: Option<PathBuf>,
    /// Where rows go whose decision changed, if anywhere.
    pub(crate) changes: Option<PathBuf>,
    /// Where a page about the rows goes, if anywhere.
    pub(crate) report: Option<PathBuf>,
    /// Files that exist may be replaced.
    pub(crate) overwrite: bool,
}

impl FilesConfig {
    /// What the run is known by: the output, or the directory of its outputs; `None` for standard output.
    #[must_use]
    pub(crate) fn name(&self) -> Option<&Path> {
        self.directory.as_deref().or(self.output.as_deref())
    }

    /// The input of a run that has one output.
    #[must_use]
    pub(crate) fn only_input(&self) -> Option<&input::ReaderSettings> {
        self.inputs.first().filter(|_| self.directory.is_none())
    }
}

/// What a run may spend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BudgetConfig {
    /// The most calls, also those that the most cost pays for.
    pub(crate) calls: Option<CallLimit>,
    /// How many rows may fail.
    pub(crate) failures: FailureBudget,
    /// How many rows in a row may end without a verdict.
    pub(crate) give_up_after: GiveUpAfter,
}

/// Which answers are stored and used.
#[derive(Debug, Clone)]
pub(crate) struct LedgerConfig {
    /// Where they are kept.
    pub(crate) choice: LedgerChoice,
    /// Which answers of earlier runs are used.
    pub(crate) reuse: Reuse,
}

/// Where answers are kept.
#[derive(Debug, Clone)]
pub(crate) enum LedgerChoice {
    /// In the ledger of the output's folder.
    Folder,
    /// In this one.
    Named(LedgerLocation),
    /// Nowhere.
    Nowhere,
}

impl LedgerConfig {
    /// Where the ledger of a run is that writes to this folder.
    #[must_use]
    pub(crate) fn location(&self, folder: &Path, sandbox: bool) -> LedgerLocation {
        match &self.choice {
            LedgerChoice::Named(location) => location.clone(),
            LedgerChoice::Folder => LedgerLocation::File(ledger_in(folder, sandbox)),
            LedgerChoice::Nowhere => LedgerLocation::Temporary,
        }
    }
}

/// What answers the calls of a run.
#[derive(Debug)]
pub(crate) enum ServiceConfig {
    /// The service.
    Real(Box<RealService>),
    /// The built-in stand-in.
    Sandbox,
}

/// The service, and how it is reached.
#[derive(Debug)]
pub(crate) struct RealService {
    /// Where requests go.
    pub(crate) endpoint: Endpoint,
    /// Where the API key is.
    pub(crate) key: KeySource,
    /// The calling application's identifier.
    pub(crate) service_id: ServiceId,
    /// A further certificate authority, or a server's certificate that signed itself, PEM.
    pub(crate) ca_file: Option<PathBuf>,
}

/// Where the API key is.
#[derive(Debug)]
pub(crate) enum KeySource {
    /// In a variable, which cannot change during the run.
    Variable(Secret),
    /// In a file that an option names.
    File(KeyFile),
    /// Among systemd's credentials, if they have one.
    Credential(KeyFile),
    /// Nowhere. It is the run that fails for it and not the command line: a key that was not loaded tonight must not leave
    /// yesterday's success in the summary and the metrics.
    Nowhere,
}

/// When calls are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaceConfig {
    /// The most calls in flight; `None` where the user gives no number.
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// The most calls per second.
    pub(crate) rate: Rate,
    /// Further attempts for each row.
    pub(crate) retries: u32,
    /// Further attempts after one whose outcome is unknown.
    pub(crate) resends: Resends,
    /// How long the service may keep the run waiting.
    pub(crate) patience: Patience,
}

/// What people see.
#[derive(Debug)]
pub(crate) struct WatchConfig {
    /// How progress is shown.
    pub(crate) style: Style,
    /// Nothing but warnings and errors is shown.
    pub(crate) quiet: bool,
    /// Where the summary goes as JSON.
    pub(crate) summary: Option<PathBuf>,
    /// Where metrics go for Prometheus.
    pub(crate) metrics: Option<PathBuf>,
    /// Where the log goes.
    pub(crate) log: Option<PathBuf>,
    /// The profile of the settings file.
    pub(crate) profile: Option<String>,
    /// Failed rows with which the exit code is 0 all the same.
    pub(crate) accepted: AcceptedFailures,
    /// What calls cost; `None` where the user does not say so, and no cost is shown.
    pub(crate) tariff: Option<Tariff>,
}

impl WatchConfig {
    /// Whether words for people are shown besides warnings and errors.
    #[must_use]
    pub(crate) fn shows_text(&self) -> bool {
        !self.quiet && self.style != Style::Json
    }
}
