//! What a command is to do: valid values only, with nothing left to parse.
//!
//! `cli` makes a config from arguments and variables, without looking at a file. `commands` looks at the files and gives each
//! stage its part. The config is between them and the stages: it is made of the stages' types, no stage knows it, and
//! `cli` and `commands` share nothing else. Benchmarks build a [`RunConfig`] without a command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use crate::base::money::Tariff;
use crate::base::secret::Secret;
use crate::fields::UserRequest;
use crate::input;
use crate::ledger::Reuse;
use crate::observe::Style;
use crate::pace::{CallLimit, FailureBudget, GiveUpAfter, Rate, Resends};
use crate::raw_json::Pointer;
use crate::scorer::Patience;
use crate::service::{Endpoint, KeyFile, Plan, Proxy, ServiceId};
use crate::verdict::DecisionPolicy;

/// `rescore run`.
#[derive(Debug)]
pub struct RunConfig {
    /// What is read, and how.
    pub input: input::ReaderSettings,
    /// Where rows go.
    pub output: OutputConfig,
    /// Who answers.
    pub service: ServiceConfig,
    /// How long the client waits for it.
    pub timeouts: TimeoutConfig,
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
    /// What people see.
    pub watch: WatchConfig,
}

/// Where rows go.
#[derive(Debug)]
pub struct OutputConfig {
    /// The output; `None` is standard output.
    pub path: Option<PathBuf>,
    /// Where failed rows go; `None` is a file next to the output, where that is a file.
    pub rejects: Option<PathBuf>,
    /// Where rows go whose decision changed, if anywhere.
    pub changes: Option<PathBuf>,
    /// Output, rejects and changes that exist may be replaced.
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
    /// In this file, which other runs may use as well.
    Shared(PathBuf),
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
    /// What calls cost; `None` where the user does not say so, and no cost is shown.
    pub tariff: Option<Tariff>,
}

impl WatchConfig {
    /// Whether words for people are shown besides warnings and errors.
    #[must_use]
    pub(crate) fn shows_text(&self) -> bool {
        !self.quiet && self.style != Style::Json
    }
}

/// `rescore ledger`.
#[derive(Debug)]
pub(crate) struct AdminConfig {
    /// The ledger.
    pub(crate) ledger: PathBuf,
    /// What to do with it.
    pub(crate) task: AdminTask,
}

/// What to do with a ledger.
#[derive(Debug)]
pub(crate) enum AdminTask {
    /// Show what is in it.
    Stats,
    /// Remove old answers.
    Prune {
        /// Those that are older than this.
        older_than: Duration,
    },
    /// Remove answers about people, so that nothing of them stays.
    Forget(ForgetTarget),
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
