//! What a run that starts now would find in a ledger. Nothing is opened here.

use super::known_limit::KnownLimit;
use super::lookup::Lookup;
use super::request_key::RequestHasher;

/// What a run would find in a ledger.
pub(crate) struct LedgerPreview {
    /// Finds answers.
    pub(crate) lookup: Lookup,
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

/// Which run would use a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PreviewedRun {
    /// The one that makes it.
    First,
    /// Any new one.
    New,
    /// The one that was stopped and continues.
    Continued,
    /// One that retries what failed in the finished one.
    Retry,
}
