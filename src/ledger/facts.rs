//! What a run learns of a ledger when it opens it, wherever that is. Nothing is opened here.

use std::path::{Path, PathBuf};

use super::account::{FoundAccount, StoredAccount};
use super::key::RequestHasher;
use super::known_limit::KnownLimit;
use super::outcome::ReadAnswer;
use super::run::{PreviousRun, RunPlan};
use super::settings::{LedgerAccount, LedgerLocation, Reuse};
use super::store::{Lookup, Store};

/// What is known of a ledger that is open for a run.
#[derive(Debug, Default)]
pub(crate) struct LedgerFacts {
    /// Whether the ledger was there when it was opened.
    pub(crate) existed: bool,
    /// Where it is, for people; `None` for one that is gone with the run.
    pub(crate) place: Option<PathBuf>,
    /// What was recorded about the previous run to this output.
    pub(crate) previous_run: PreviousRun,
    /// Whether that had the same input.
    pub(crate) same_input: bool,
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
    /// What a run of this account learns of a ledger with these accounts, where so many answers of all are recent enough.
    pub(super) fn of_accounts(accounts: Vec<StoredAccount>, account: i64, recent: u64) -> Self {
        let ours = { accounts.iter() }
            .find(|found| found.id == account)
            .map_or(0, |found| found.answers);
        let others = accounts
            .into_iter()
            .filter(|other| ours == 0 && other.answers > 0);
        Self {
            usable: ours.min(recent),
            too_old: ours.saturating_sub(recent),
            other_accounts: others.map(|other| other.address).collect(),
            ..Self::default()
        }
    }

    /// Notes what is known of the run.
    pub(super) fn of_run(&mut self, plan: &RunPlan) {
        self.previous_run = plan.previous;
        self.same_input = plan.same_input;
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

/// What a database gives for a run.
pub(super) struct OpenedStore {
    pub(super) store: Box<dyn Store>,
    pub(super) hasher: RequestHasher,
    /// Answers that arrive from now on are dated no earlier, in milliseconds since 1970.
    pub(super) earliest: i64,
    pub(super) facts: LedgerFacts,
}

/// What must be known of a run to come to say what it would find in a ledger.
pub(crate) struct PreviewSettings<'a> {
    /// The ledger.
    pub(crate) ledger: &'a LedgerLocation,
    /// What the run writes.
    pub(crate) output: Option<&'a Path>,
    /// What it reads.
    pub(crate) input: Option<&'a Path>,
    /// Who would be asked; `None` is the only account that the ledger has answers of.
    pub(crate) account: Option<LedgerAccount<'a>>,
    /// Which answers it would use.
    pub(crate) reuse: Reuse,
    /// Reads the bodies of answers.
    pub(crate) read: ReadAnswer,
}

/// What a run would find in a ledger.
pub(crate) struct LedgerPreview {
    /// Finds answers.
    pub(crate) lookup: Box<dyn Lookup>,
    /// Makes the keys that they are found by.
    pub(crate) hasher: RequestHasher,
    /// The address whose answers are found; `None` if there are answers of none.
    pub(crate) endpoint: Option<String>,
    /// The limit that an earlier run found.
    pub(crate) known_limit: Option<KnownLimit>,
    /// Which run would use it.
    pub(crate) run: PreviewedRun,
    /// The addresses whose answers the ledger has instead, if it has none of the given account.
    pub(crate) others: Vec<String>,
}

impl LedgerPreview {
    /// What a run of this plan would find of this account.
    pub(super) fn of(
        plan: &RunPlan,
        found: FoundAccount,
        lookup: Box<dyn Lookup>,
        known_limit: Option<KnownLimit>,
    ) -> Self {
        Self {
            lookup,
            hasher: found.hasher,
            endpoint: found.endpoint,
            known_limit,
            run: if plan.continues {
                PreviewedRun::Continued
            } else {
                PreviewedRun::New
            },
            others: found.others,
        }
    }
}
