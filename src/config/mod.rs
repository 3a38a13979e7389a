//! The config of each command: valid values only, with nothing left to parse.
//!
//! `cli` makes a config from arguments, variables and the settings file. What an option says by itself is here already as the
//! command line has it; its comment is its help. `commands` looks at the files and gives each stage its part. The config is made
//! of the stages' types, no stage knows it, and `cli` and `commands` share nothing else.

mod commands;
pub(crate) mod values;

pub(crate) use commands::{
    AdminConfig, AdminTask, AskedThresholds, BudgetConfig, CheckConfig, CountConfig,
    DEFAULT_CONCURRENCY, DecideConfig, DecideOutput, DecideTask, EarlierFile, FilesConfig,
    InputLimits, LedgerConfig, PaceConfig, ReportConfig, RunConfig, ServiceConfig, StatusConfig,
    WHAT_IF, WatchConfig,
};
