//! What a run learns of a ledger when it opens it, wherever that is. Nothing is opened here.

use std::path::PathBuf;

use super::known_limit::KnownLimit;
use super::run::{PreviousRun, RunPlan};

/// What is known of a ledger that is open for a run.
#[derive(Debug, Default)]
pub(crate) struct LedgerFacts {
    /// Whether the ledger was there when it was opened.
    pub(crate) existed: bool,
    /// Where it is, for people; `None` for one that is gone with the run.
    pub(crate) place: Option<PathBuf>,
    /// What was recorded about the previous run to this output.
    pub(crate) previous_run: PreviousRun,
    /// Whether this run continues it.
    pub(crate) continues: bool,
    /// Answers of this address and service ID that the run may use.
    pub(crate) usable: u64,
    /// Those that are too old for it.
    pub(crate) too_old: u64,
    /// The limit that an earlier run found, unless that was too long ago.
    pub(crate) known_limit: Option<KnownLimit>,
    /// Calls of the run's earlier starts.
    pub(crate) calls_before: u64,
    /// Calls that a kill may have lost: their rows may be billed twice.
    pub(crate) lost_calls: u64,
    /// The addresses whose answers it has, if it has none of this address and service ID.
    pub(crate) other_accounts: Vec<String>,
}

impl LedgerFacts {
    /// Notes what is known of the run.
    pub(super) fn of_run(&mut self, plan: &RunPlan) {
        self.previous_run = plan.previous;
        self.continues = plan.continues;
        self.calls_before = plan.calls_before;
        self.lost_calls = plan.lost_calls;
    }
}

/// Which run would use a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreviewedRun {
    /// The one that makes it.
    First,
    /// Any new one.
    New,
    /// The one that was stopped and continues.
    Continued,
}
