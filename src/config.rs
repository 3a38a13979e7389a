//! What a command is to do: valid values only, with nothing left to parse.
//!
//! `cli` makes a config from arguments and variables, without looking at a file. `commands` looks at the files and gives each
//! stage its part. The config is between them and the stages: it is made of the stages' types, no stage knows it, and
//! `cli` and `commands` share nothing else. Benchmarks build a [`RunConfig`] without a command line.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::money::Tariff;
use crate::base::secret::Secret;
use crate::base::tolerance::Tolerance;
use crate::fields::UserRequest;
use crate::input;
use crate::ledger::{Freshness, NamedLedger, Reuse};
#[cfg(feature = "postgres")]
use crate::ledger::{ImportSettings, InitSettings};
use crate::observe::{LogLevel, LogTarget, Style};
use crate::pace::{CallLimit, FailureBudget, GiveUpAfter, Rate, Resends};
use crate::raw_json::Pointer;
use crate::scorer::Patience;
use crate::service::{Account, Endpoint, IdempotencyHeader, KeyFile, Plan, Proxy, ServiceId};
use crate::telemetry::accepted_failures::AcceptedFailures;
use crate::verdict::{DecisionPolicy, Levels, Thresholds};

/// `rescore run`.
#[derive(Debug)]
pub struct RunConfig {
    /// What is read and written.
    pub files: FilesConfig,
    /// What the input must be like.
    pub limits: InputLimits,
    /// Who answers.
    pub service: ServiceConfig,
    /// How long the client waits for it.
    pub timeouts: TimeoutConfig,
    /// The header by which the service recognises a request that is sent again; `None` if it does not.
    pub idempotency: Option<IdempotencyHeader>,
    /// The plan, with its flags.
    pub plan: Plan,
    /// When calls are made.
    pub pace: PaceConfig,
    /// What the run may spend.
    pub budget: BudgetConfig,
    /// Which answers are stored and used.
    pub ledger: LedgerConfig,
    /// How decisions are made.
    pub policy: DecisionPolicy,
    /// Further fields of the answer: those of the columns in their order, then a level that only decides.
    pub captured: Box<[Pointer]>,
    /// How long to wait for another run that holds the output or the ledger; `None` is not at all.
    pub wait_lock: Option<Duration>,
    /// What people see.
    pub watch: WatchConfig,
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
    pub(crate) log: Option<LogConfig>,
    /// What it is called.
    pub(crate) job: Option<String>,
    /// The profile of the settings file.
    pub(crate) profile: Option<String>,
}

/// The most calls in flight where the user gives no number. Few services take more from one client, and each call takes
/// some 60 KB. It is only a ceiling: the search for what a service can take starts far below.
pub(crate) const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(512).expect("above 0");

/// `rescore check`.
#[derive(Debug)]
pub(crate) struct CheckConfig {
    /// What is read, and how. A name may be a pattern for several files. The first rows are not judged: all are counted.
    pub(crate) inputs: Vec<input::ReaderSettings>,
    /// The plan of the run to come, with its flags.
    pub(crate) plan: Plan,
    /// Where answers are looked up, if anywhere.
    pub(crate) ledger: Option<CheckLedger>,
    /// Identical requests would be sent once.
    pub(crate) dedupe: bool,
    /// The run to come.
    pub(crate) run: RunToCome,
    /// What calls cost, if the user says so.
    pub(crate) tariff: Option<Tariff>,
    /// Where rows go that cannot be sent, if anywhere.
    pub(crate) rejects: Option<PathBuf>,
    /// Rejects that exist may be replaced.
    pub(crate) overwrite: bool,
    /// The result is for programs.
    pub(crate) json: bool,
    /// How progress is shown.
    pub(crate) style: Style,
}

/// The run that `rescore check` looks ahead to.
#[derive(Debug)]
pub(crate) struct RunToCome {
    /// The most calls per second.
    pub(crate) rate: Rate,
    /// The most calls in flight; `None` where the user gives no number.
    pub(crate) concurrency: Option<NonZeroUsize>,
    /// Where its rows go; `None` where the user does not say so.
    pub(crate) output: Option<OutputToCome>,
    /// It sends the failed rows of a finished run again.
    pub(crate) retries: bool,
    /// Outputs that exist may be replaced.
    pub(crate) overwrites: bool,
    /// It refuses a file whose first rows all fail for the same reason.
    pub(crate) judges_first_rows: bool,
    /// What the input must be like for anything to be sent.
    pub(crate) limits: InputLimits,
}

/// Where the rows of a run to come go.
#[derive(Debug)]
pub(crate) enum OutputToCome {
    /// To this file.
    File(PathBuf),
    /// To files in this directory.
    Directory(PathBuf),
    /// To standard output, by its name.
    Stdout,
}

/// Where answers are looked up without a run.
#[derive(Debug)]
pub(crate) struct CheckLedger {
    /// The ledger that is named; `None` is the one that a run to the same output has left, if it has left one.
    pub(crate) ledger: Option<NamedLedger>,
    /// Whose answers; `None` is the only account that the ledger has.
    pub(crate) account: Option<Account>,
    /// How recent answers must be.
    pub(crate) freshness: Option<Freshness>,
    /// The further fields that an answer must have.
    pub(crate) captured: Box<[Pointer]>,
}

/// What the input must be like for anything to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct InputLimits {
    /// The least number of rows.
    pub(crate) min_rows: Option<NonZeroU64>,
    /// How many rows may be such that they cannot be sent.
    pub(crate) max_invalid: Option<Tolerance>,
}

/// What a run reads and writes.
#[derive(Debug, Clone)]
pub enum FilesConfig {
    /// One input to one output.
    One(Box<OneFileConfig>),
    /// Several inputs, each to a file of its name in a directory.
    Parts(PartsConfig),
}

/// One input, and its output.
#[derive(Debug, Clone)]
pub struct OneFileConfig {
    /// What is read, and how.
    pub input: input::ReaderSettings,
    /// Where rows go.
    pub output: OutputConfig,
}

/// Several inputs, each to a file of its name in a directory.
#[derive(Debug, Clone)]
pub struct PartsConfig {
    /// What is read, and how. A name may be a pattern for several files.
    pub inputs: Vec<input::ReaderSettings>,
    /// Where the outputs go.
    pub directory: PathBuf,
    /// Outputs that exist may be replaced.
    pub overwrite: bool,
    /// The first input that cannot be used ends the run.
    pub fail_fast: bool,
}

impl FilesConfig {
    /// What the run is known by: the output, or the directory of its outputs; `None` for standard output.
    #[must_use]
    pub(crate) fn output(&self) -> Option<&Path> {
        match self {
            Self::One(one) => one.output.path.as_deref(),
            Self::Parts(parts) => Some(&parts.directory),
        }
    }
}

/// Where rows go.
#[derive(Debug, Clone)]
pub struct OutputConfig {
    /// The output; `None` is standard output.
    pub path: Option<PathBuf>,
    /// Where failed rows go; `None` is a file next to the output, where that is a file.
    pub rejects: Option<PathBuf>,
    /// Where rows go whose decision changed, if anywhere.
    pub changes: Option<PathBuf>,
    /// Where a page about the rows goes, if anywhere.
    pub report: Option<PathBuf>,
    /// Output, rejects, changes and report that exist may be replaced.
    pub overwrite: bool,
}

/// What a run may spend.
#[derive(Debug, Clone, Copy)]
pub struct BudgetConfig {
    /// The most calls, also those that the most cost pays for.
    pub calls: Option<CallLimit>,
    /// How many rows may fail.
    pub failures: FailureBudget,
    /// How many rows in a row may end without a verdict.
    pub give_up_after: GiveUpAfter,
}

/// Which answers are stored and used.
#[derive(Debug, Clone)]
pub struct LedgerConfig {
    /// Where they are kept.
    pub choice: LedgerChoice,
    /// Which answers of earlier runs are used.
    pub reuse: Reuse,
    /// Identical requests are sent once.
    pub dedupe: bool,
}

/// Where answers are kept.
#[derive(Debug, Clone)]
pub enum LedgerChoice {
    /// Next to the output, where that is a file.
    Own,
    /// In this one, which other runs may use as well.
    Shared(NamedLedger),
    /// Nowhere.
    Nowhere,
}

/// Who answers.
#[derive(Debug)]
pub enum ServiceConfig {
    /// The service.
    Real(Box<RealService>),
    /// The built-in stand-in.
    Sandbox,
}

/// The service, and how it is reached.
#[derive(Debug)]
pub struct RealService {
    /// Where requests go.
    pub endpoint: Endpoint,
    /// Where the API key is.
    pub key: KeySource,
    /// The calling application's identifier.
    pub service_id: ServiceId,
    /// The proxy that a variable names for the endpoint.
    pub proxy: Option<Proxy>,
    /// A further certificate authority, or the service's own certificate, PEM.
    pub ca_file: Option<PathBuf>,
}

/// How long the client waits.
#[derive(Debug, Clone, Copy)]
pub struct TimeoutConfig {
    /// For an answer, from the start of the call.
    pub call: Duration,
    /// For a connection.
    pub connect: Duration,
}

/// Where the API key is.
#[derive(Debug)]
pub enum KeySource {
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
pub struct PaceConfig {
    /// The most calls in flight; `None` where the user gives no number.
    pub concurrency: Option<NonZeroUsize>,
    /// The most calls per second.
    pub rate: Rate,
    /// Further attempts for each row.
    pub retries: u32,
    /// Further attempts after one whose outcome is unknown.
    pub resends: Resends,
    /// How long the service may keep the run waiting.
    pub patience: Patience,
}

/// What people see.
#[derive(Debug)]
pub struct WatchConfig {
    /// How progress is shown.
    pub style: Style,
    /// Time between lines.
    pub every: Duration,
    /// Nothing but warnings and errors is shown.
    pub quiet: bool,
    /// Where the summary goes as JSON.
    pub summary: Option<PathBuf>,
    /// Where metrics go for Prometheus.
    pub metrics: Option<PathBuf>,
    /// Where the log goes, and how much of it.
    pub log: Option<LogConfig>,
    /// What the run is called where several are watched.
    pub job: Option<String>,
    /// The profile of the settings file.
    pub profile: Option<String>,
    /// Failed rows with which the exit code is 0 all the same.
    pub accepted: AcceptedFailures,
    /// What calls cost; `None` where the user does not say so, and no cost is shown.
    pub tariff: Option<Tariff>,
}

/// Where the log goes, and how much of it.
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// Where it goes.
    pub(crate) target: LogTarget,
    /// The least important lines of it.
    pub(crate) level: LogLevel,
}

impl WatchConfig {
    /// Whether words for people are shown besides warnings and errors.
    #[must_use]
    pub(crate) fn shows_text(&self) -> bool {
        !self.quiet && self.style != Style::Json
    }
}

/// `rescore decide`.
#[derive(Debug)]
pub(crate) struct DecideConfig {
    /// The scored file.
    pub(crate) file: input::FileSettings,
    /// What the names of the verdict's columns start with.
    pub(crate) prefix: String,
    /// What to do with it.
    pub(crate) task: DecideTask,
}

/// What to do with a scored file.
#[derive(Debug)]
pub(crate) enum DecideTask {
    /// Write it again with other decisions.
    Rewrite(Box<RewriteTask>),
    /// Count what other thresholds would do.
    WhatIf {
        /// The thresholds that are marked.
        today: Thresholds,
        /// For programs.
        json: bool,
    },
}

/// A scored file that gets other decisions.
#[derive(Debug)]
pub(crate) struct RewriteTask {
    /// How decisions are made.
    pub(crate) policy: ColumnPolicy,
    /// Where rows go.
    pub(crate) output: DecideOutput,
    /// Nothing but warnings and errors is shown.
    pub(crate) quiet: bool,
}

/// How decisions about the rows of a scored file are made.
#[derive(Debug)]
pub(crate) enum ColumnPolicy {
    /// By the score.
    Score(Thresholds),
    /// By the level in a column.
    Level {
        /// The column's name, or a JSON pointer.
        column: String,
        /// What each level means.
        levels: Levels,
    },
}

/// Where the rows of a scored file go.
#[derive(Debug)]
pub(crate) struct DecideOutput {
    /// The output; `None` is standard output.
    pub(crate) path: Option<PathBuf>,
    /// Where rows go whose decision changed, if anywhere.
    pub(crate) changes: Option<PathBuf>,
    /// Where the summary goes as JSON.
    pub(crate) summary: Option<PathBuf>,
    /// Output and changes that exist may be replaced.
    pub(crate) overwrite: bool,
}

/// `rescore report`.
#[derive(Debug)]
pub(crate) struct ReportConfig {
    /// The scored file.
    pub(crate) scored: input::FileSettings,
    /// What stands before the names of the verdict's columns, also in the earlier file.
    pub(crate) prefix: String,
    /// What it is compared with, if with anything.
    pub(crate) against: Option<EarlierFile>,
    /// Columns by whose values decisions are counted.
    pub(crate) by: Vec<String>,
    /// The summary of the run that wrote the file.
    pub(crate) summary: Option<PathBuf>,
    /// Today's thresholds.
    pub(crate) thresholds: Thresholds,
    /// Where the report goes; `None` is standard output.
    pub(crate) output: Option<PathBuf>,
    /// A report that exists may be replaced.
    pub(crate) overwrite: bool,
}

/// An earlier scored file.
#[derive(Debug)]
pub(crate) struct EarlierFile {
    /// The file.
    pub(crate) file: input::FileSettings,
    /// The column by which rows are paired; `None` for all columns but the verdict's.
    pub(crate) key: Option<String>,
}

/// `rescore man DIR`.
#[derive(Debug)]
pub(crate) struct ManConfig {
    /// Where the pages go.
    pub(crate) directory: PathBuf,
    /// The pages.
    pub(crate) pages: Vec<ManPage>,
}

/// A manual page.
#[derive(Debug)]
pub(crate) struct ManPage {
    /// The name of its file.
    pub(crate) file: String,
    /// The page, as `man` reads it.
    pub(crate) text: String,
}

/// `rescore ledger`.
#[derive(Debug)]
pub(crate) struct AdminConfig {
    /// How long to wait for another process that is using it; `None` is not at all.
    pub(crate) wait_lock: Option<Duration>,
    /// What to do with it.
    pub(crate) task: AdminTask,
}

/// What to do with a ledger.
#[derive(Debug)]
pub(crate) enum AdminTask {
    /// Make one on a server, and grant rights on it.
    #[cfg(feature = "postgres")]
    Init(Box<InitSettings>),
    /// Bring the answers of a file to one on a server.
    #[cfg(feature = "postgres")]
    Import(Box<ImportSettings>),
    /// Show what is in it.
    Stats(NamedLedger),
    /// Remove old answers.
    Prune {
        /// The ledger.
        ledger: NamedLedger,
        /// Those that are older than this.
        older_than: Duration,
    },
    /// Remove answers about people, so that nothing of them stays.
    Forget {
        /// The ledger.
        ledger: NamedLedger,
        /// Whose.
        target: ForgetTarget,
    },
}

/// Whose answers are to be removed.
#[derive(Debug)]
pub(crate) enum ForgetTarget {
    /// This user's.
    User(Box<UserRequest<'static>>),
    /// Those of all users of a file.
    Users(Box<input::ReaderSettings>),
    /// Everybody's.
    Everybody,
}
