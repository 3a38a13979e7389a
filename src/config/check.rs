//! `rescore check`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::run::InputLimits;
use crate::base::money::Tariff;
use crate::input;
use crate::ledger::{LedgerLocation, Reuse};
use crate::observe::Style;
use crate::pace::Rate;
use crate::raw_json::Pointer;
use crate::service::{Account, Plan};

/// `rescore check`.
#[derive(Debug)]
pub(crate) struct CheckConfig {
    /// What is read, and how. A name may be a pattern for several files. The first rows are not judged: all are counted.
    pub(crate) inputs: Vec<input::ReaderSettings>,
    /// The plan of the run to come, with its flags.
    pub(crate) plan: Plan,
    /// Where answers are looked up, if anywhere.
    pub(crate) ledger: Option<CheckLedger>,
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
    /// The ledger that is named; `None` is that of the output's folder.
    pub(crate) ledger: Option<LedgerLocation>,
    /// Whose answers; `None` is the only account that the ledger has.
    pub(crate) account: Option<Account>,
    /// Which answers the run uses.
    pub(crate) reuse: Reuse,
    /// Whether the built-in stand-in answers, whose answers are kept apart.
    pub(crate) sandbox: bool,
    /// The further fields that an answer must have.
    pub(crate) captured: Box<[Pointer]>,
}
