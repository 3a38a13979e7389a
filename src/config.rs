//! What a command is to do: valid values only, with nothing left to parse.
//!
//! `cli` makes these from arguments and variables, without looking at any file. `commands` looks at the files and hands each
//! stage its part. This stands between the stages and the commands, as it is made of the stages' own types and no stage
//! knows it; benchmarks build a [`RunConfig`] without arguments.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use crate::base::secret::Secret;
use crate::fields::UserRequest;
use crate::input;
use crate::ledger::Reuse;
use crate::observe::Style;
use crate::pace::{FailureBudget, GiveUpAfter, Rate, Resends};
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
    /// Which answers are kept and used.
    pub ledger: LedgerConfig,
    /// Scores to decisions.
    pub policy: DecisionPolicy,
    /// Further fields of the answer, in the order of their columns.
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
    /// Calls at most.
    pub calls: Option<NonZeroU64>,
    /// Rows that may fail.
    pub failures: FailureBudget,
    /// Rows in a row that may bring no verdict.
    pub give_up_after: GiveUpAfter,
}

/// Which answers are kept and used.
#[derive(Debug, Clone)]
pub struct LedgerConfig {
    /// Where they are kept.
    pub choice: LedgerChoice,
    /// Which of those that are there are used.
    pub reuse: Reuse,
    /// Equal rows are asked once.
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
    /// In a variable, which cannot change while the run is on.
    Variable(Secret),
    /// In a file that an option names.
    File(KeyFile),
    /// Among systemd's credentials, if they have one.
    Credential(KeyFile),
}

/// When calls are made.
#[derive(Debug, Clone, Copy)]
pub struct PaceConfig {
    /// Calls in flight at most; `None` where the user leaves it to us.
    pub concurrency: Option<NonZeroUsize>,
    /// Calls a second at most.
    pub rate: Rate,
    /// Further attempts a row.
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
    /// Only errors are said.
    pub quiet: bool,
    /// Where the summary goes as JSON.
    pub summary: Option<PathBuf>,
}

impl WatchConfig {
    /// Whether people see more than warnings, errors and JSON.
    #[must_use]
    pub(crate) fn speaks(&self) -> bool {
        !self.quiet && self.style != Style::Json
    }
}

/// `rescore ledger`.
#[derive(Debug)]
pub(crate) struct CareConfig {
    /// The ledger.
    pub(crate) ledger: PathBuf,
    /// What to do with it.
    pub(crate) task: Task,
}

/// What to do with a ledger.
#[derive(Debug)]
pub(crate) enum Task {
    /// Say what is in it.
    Stats,
    /// Remove answers that are older.
    Prune {
        /// Than this.
        than: Duration,
    },
    /// Remove answers about people, so that nothing of them stays.
    Forget(Forgotten),
}

/// Whose answers are to be forgotten.
#[derive(Debug)]
pub(crate) enum Forgotten {
    /// This user's.
    User(Box<UserRequest<'static>>),
    /// Those of all users of a file.
    Users(Box<input::ReaderSettings>),
    /// Everybody's.
    Everybody,
}
