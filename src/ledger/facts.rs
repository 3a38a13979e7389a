//! What a run learns of a ledger when it opens it, wherever that is. Nothing is opened here.

use std::path::PathBuf;
use std::time::SystemTime;

use super::db::captures::LackingAnswers;
use super::db::runs::PreviousRun;
use super::known_limit::KnownLimit;

/// What is known of a ledger that is open for a run. The default is that of a run without one.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is asked by itself")]
pub(crate) struct LedgerFacts {
    /// Whether the ledger was there when it was opened.
    pub(crate) existed: bool,
    /// Whether it is the run's own and stays until every row has a verdict.
    pub(crate) is_own: bool,
    /// Where it is, for people; `None` for one that is removed with the run.
    pub(crate) place: Option<PathBuf>,
    /// What was recorded about the previous run to this output.
    pub(crate) previous_run: PreviousRun,
    /// Whether this run continues the previous one, or retries what failed there.
    pub(crate) continues: bool,
    /// Whether that run has left only failed rows of the inputs that it could use.
    pub(crate) only_failed: bool,
    /// What the run's own ledger has of the run that this one continues.
    pub(crate) earlier_answers: Option<EarlierAnswers>,
    /// What the run's own ledger has and will lose with the run's first answer.
    pub(crate) replaced_answers: Option<EarlierAnswers>,
    /// Answers that could be used if they had all fields that the run needs.
    pub(crate) lacking_answers: Option<LackingAnswers>,
    /// The limit that an earlier run found, unless that was too long ago.
    pub(crate) known_limit: Option<KnownLimit>,
    /// The most calls whose answers an earlier run has lost when it was killed, where the ledger is the run's own.
    pub(crate) lost_calls: u32,
    /// Whether it has answers of this address and service ID, which the run does not replace.
    pub(crate) has_answers: bool,
    /// The addresses whose answers it has, if it has none of this address and service ID.
    pub(crate) other_accounts: Vec<String>,
}

/// Answers of an earlier run in a run's own ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EarlierAnswers {
    /// How many, of the run's address and service ID.
    pub(crate) answers: u64,
    /// When the run started that they come from.
    pub(crate) started: SystemTime,
}
