//! Only valid values: what a run is to do, with nothing left to parse or to doubt.
//!
//! `cli` makes these, `commands` hands each stage its piece.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fields::UserRequest;
use crate::input;
use crate::ledger::{LedgerLocation, Reuse};
use crate::observe::Style;
use crate::output::Target;
use crate::pace::{FailureBudget, GiveUpAfter, Rate, Resends};
use crate::raw_json::Pointer;
use crate::scorer::Patience;
use crate::service::{ClientSettings, Plan};
use crate::verdict::DecisionPolicy;

/// `rescore run`.
#[derive(Debug)]
pub struct RunConfig {
    /// What is read, and how.
    pub input: input::Settings,
    /// Where rows go.
    pub output: OutputConfig,
    /// Who answers.
    pub service: ServiceConfig,
    /// The plan, with its flags.
    pub plan: Plan,
    /// When calls are made.
    pub pace: PaceConfig,
    /// What the run may spend.
    pub budget: BudgetConfig,
    /// Which answers are stored and used.
    pub ledger: LedgerConfig,
    /// Scores to decisions.
    pub policy: DecisionPolicy,
    /// Further fields of the answer, in the order of their columns.
    pub captured: Box<[Pointer]>,
    /// What people see.
    pub watch: WatchConfig,
    /// What should be said before the run begins.
    pub warnings: Vec<String>,
}

/// Where rows go.
#[derive(Debug)]
pub struct OutputConfig {
    /// The output; `None` is standard output.
    pub target: Option<Target>,
    /// Where failed rows go.
    pub rejects: RejectsConfig,
    /// Where rows go whose decision changed, if anywhere.
    pub changes: Option<PathBuf>,
    /// Output, rejects and changes that exist may be replaced.
    pub overwrite: bool,
}

impl OutputConfig {
    /// The file that a run which was stopped is known by when it goes on; `None` where it writes to standard output alone.
    #[must_use]
    pub(crate) fn known_by(&self) -> Option<&Path> {
        let target = self.target.as_ref().map(Target::path);
        target.or(self.changes.as_deref())
    }
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

/// Which answers are stored and used.
#[derive(Debug, Clone)]
pub struct LedgerConfig {
    /// Where they are; `None` stores none.
    pub location: Option<LedgerLocation>,
    /// Which of those that are there are used.
    pub reuse: Reuse,
    /// Equal rows share one call and its answer.
    pub dedupe: bool,
}

/// Where failed rows go.
#[derive(Debug)]
pub enum RejectsConfig {
    /// Beside the output, named after it and the format.
    Beside(PathBuf),
    /// To this file.
    At(PathBuf),
    /// Nowhere: the output is a stream and no file was named.
    Nowhere,
}

/// Who answers.
#[derive(Debug)]
pub enum ServiceConfig {
    /// The service.
    Real(Box<ClientSettings>),
    /// The built-in stand-in.
    Sandbox {
        /// From the request's begin to the answer's last byte.
        timeout: Duration,
        /// For the connection alone.
        connect_timeout: Duration,
    },
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
    Users(Box<input::Settings>),
    /// Everybody's.
    Everybody,
}
