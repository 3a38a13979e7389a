//! `rescore check`.

use std::path::PathBuf;

use super::run::{InputLimits, LedgerConfig};
use crate::base::money::Tariff;
use crate::input;
use crate::observe::Style;
use crate::pace::Rate;
use crate::raw_json::Pointer;
use crate::service::{Account, Plan};

/// `rescore check`: the run to come, as far as it changes a count, and how the result is shown.
#[derive(Debug)]
pub(crate) struct CheckConfig {
    /// What is read, and how. A name may be a pattern for several files. The first rows are not judged: all are counted.
    pub(crate) inputs: Vec<input::ReaderSettings>,
    /// The run refuses a file whose first rows all fail for the same reason.
    pub(crate) judges_first_rows: bool,
    /// What the input must be like for the run to send anything.
    pub(crate) limits: InputLimits,
    /// The plan, with its flags.
    pub(crate) plan: Plan,
    /// Where the run's rows go, `-` for standard output; `None` where the user does not say so.
    pub(crate) output: Option<PathBuf>,
    /// The directory of its outputs.
    pub(crate) directory: Option<PathBuf>,
    /// The run's output and the rejects of the check may be replaced.
    pub(crate) overwrite: bool,
    /// Where answers are looked up, and which of them the run uses.
    pub(crate) ledger: LedgerConfig,
    /// Whose answers; `None` is the only account that the ledger has.
    pub(crate) account: Option<Account>,
    /// The further fields that an answer must have.
    pub(crate) captured: Box<[Pointer]>,
    /// The most calls per second.
    pub(crate) rate: Rate,
    /// What calls cost, if the user says so.
    pub(crate) tariff: Option<Tariff>,
    /// Where rows go that cannot be sent, if anywhere.
    pub(crate) rejects: Option<PathBuf>,
    /// The result is for programs.
    pub(crate) json: bool,
    /// How progress is shown.
    pub(crate) style: Style,
}
