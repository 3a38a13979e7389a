//! The commands beside `rescore run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::run::{FILES, FilesConfig, InputLimits, LedgerConfig};
use super::values;
use crate::base::money::Tariff;
use crate::input;
use crate::ledger::LedgerLocation;
use crate::raw_json::Pointer;
use crate::service::{Account, Plan};
use crate::verdict::{DecisionPolicy, Thresholds};

/// `rescore check`: the run to come, as far as it changes a count, and how the result is shown.
#[derive(Debug)]
pub(crate) struct CheckConfig {
    /// What the run reads and writes.
    pub(crate) files: FilesConfig,
    /// What the input must be like for the run to send anything.
    pub(crate) limits: InputLimits,
    /// The plan, with its flags.
    pub(crate) plan: Plan,
    /// Where answers are looked up, and which of them the run uses.
    pub(crate) ledger: LedgerConfig,
    /// Whose answers; `None` is the only account that the ledger has.
    pub(crate) account: Option<Account>,
    /// The further fields that an answer must have.
    pub(crate) captured: Box<[Pointer]>,
    /// What calls cost, if the user says so.
    pub(crate) tariff: Option<Tariff>,
    /// The result is for programs.
    pub(crate) json: bool,
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
    Rewrite {
        /// How decisions are made.
        policy: DecisionPolicy,
        /// The column with the level, if levels decide: its name, or a JSON pointer.
        level: Option<String>,
        /// Where rows go.
        output: DecideOutput,
    },
    /// Count what other thresholds would do.
    WhatIf {
        /// The thresholds that are marked.
        today: Thresholds,
        /// For programs.
        json: bool,
    },
}

/// Where the rows of a scored file go, and what is said of them.
#[derive(Debug, Args)]
pub(crate) struct DecideOutput {
    /// Write the rows to this file, compressed if it ends in .gz or .zst; `-` or nothing is standard output
    #[arg(short, long, value_name = "FILE", display_order = 0)]
    pub(crate) output: Option<PathBuf>,
    /// Also write the rows whose decision changed to this file
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = FILES)]
    pub(crate) changes: Option<PathBuf>,
    /// Replace existing output and changes
    #[arg(long, help_heading = FILES)]
    pub(crate) overwrite: bool,
    /// Show only warnings and errors
    #[arg(short, long, help_heading = "Summary")]
    pub(crate) quiet: bool,
    /// Write the summary to this file as JSON
    #[arg(long, value_name = "FILE", value_parser = values::file(), help_heading = "Summary")]
    pub(crate) summary: Option<PathBuf>,
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
    /// The column by which rows are paired.
    pub(crate) key: String,
}

/// `rescore ledger`.
#[derive(Debug)]
pub(crate) struct AdminConfig {
    /// The ledger.
    pub(crate) ledger: LedgerLocation,
    /// How long to wait for a run that uses it; `None` is not at all.
    pub(crate) wait_lock: Option<Duration>,
    /// What is to be done.
    pub(crate) task: AdminTask,
}

/// What is to be done with a ledger.
#[derive(Debug)]
pub(crate) enum AdminTask {
    /// Make it on a server.
    Init,
    /// Show what is in it.
    Stats,
    /// Remove old answers.
    Prune {
        /// The age above which they are removed.
        older_than: Duration,
    },
    /// Remove answers about the users of this file.
    Forget(Box<input::ReaderSettings>),
}
