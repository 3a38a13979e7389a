//! What a command is to do: valid values only, with nothing left to parse.
//!
//! `cli` makes a config from arguments and variables, without looking at a file. `commands` looks at the files and gives each
//! stage its part. The config is between them and the stages: it is made of the stages' types, no stage knows it, and
//! `cli` and `commands` share nothing else.

mod check;
mod decide;
mod ledger;
mod man;
mod report;
mod run;

pub(crate) use check::CheckConfig;
pub(crate) use decide::{DecideConfig, DecideOutput, DecideTask, RewriteTask};
pub(crate) use ledger::{AdminConfig, AdminTask};
pub(crate) use man::{ManConfig, ManPage};
pub(crate) use report::{EarlierFile, ReportConfig};
pub(crate) use run::{
    BudgetConfig, DEFAULT_CONCURRENCY, FilesConfig, InputLimits, KeySource, LedgerChoice,
    LedgerConfig, PaceConfig, RealService, RunConfig, ServiceConfig, UnconfiguredRun, WatchConfig,
};
