//! The commands beside `rescore run`.

use std::path::PathBuf;
use std::time::Duration;

use super::run::{FilesConfig, InputLimits, LedgerConfig};
use crate::base::money::Tariff;
use crate::input;
use crate::ledger::LedgerLocation;
use crate::observe::Style;
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
    /// How progress is shown.
    pub(crate) style: Style,
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
    pub(crate) policy: DecisionPolicy,
    /// The column with the level, if levels decide: its name, or a JSON pointer.
    pub(crate) level: Option<String>,
    /// Where rows go.
    pub(crate) output: DecideOutput,
    /// Nothing but warnings and errors is shown.
    pub(crate) quiet: bool,
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
    /// The column by which rows are paired.
    pub(crate) key: String,
}

/// What is to be done with a ledger.
#[derive(Debug)]
pub(crate) struct AdminConfig {
    /// How long to wait for a run that uses it; `None` is not at all.
    pub(crate) wait_lock: Option<Duration>,
    /// What is to be done.
    pub(crate) task: AdminTask,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum AdminTask {
    /// Make a ledger on a server.
    Init(LedgerLocation),
    /// Show what is in this ledger.
    Stats(LedgerLocation),
    /// Remove old answers.
    Prune {
        /// The ledger.
        ledger: LedgerLocation,
        /// The age above which they are removed.
        older_than: Duration,
    },
    /// Remove answers about the users of a file.
    Forget {
        /// The ledger.
        ledger: LedgerLocation,
        /// The file.
        users: Box<input::ReaderSettings>,
    },
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
