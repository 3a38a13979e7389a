//! `rescore check`.

use super::run::{FilesConfig, InputLimits, LedgerConfig};
use crate::base::money::Tariff;
use crate::observe::Style;
use crate::pace::Rate;
use crate::raw_json::Pointer;
use crate::service::{Account, Plan};

/// `rescore check`: the run to come, as far as it changes a count, and how the result is shown.
#[derive(Debug)]
pub(crate) struct CheckConfig {
    /// What the run reads and writes; the rejects are those of the check.
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
    /// The most calls per second.
    pub(crate) rate: Rate,
    /// What calls cost, if the user says so.
    pub(crate) tariff: Option<Tariff>,
    /// The result is for programs.
    pub(crate) json: bool,
    /// How progress is shown.
    pub(crate) style: Style,
}
