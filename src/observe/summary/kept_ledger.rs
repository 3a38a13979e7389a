//! A ledger that stays after its run.

use std::path::PathBuf;

/// What is left of a run's ledger.
#[derive(Debug)]
pub(crate) enum LedgerLeft {
    /// Nothing: it was removed, or there was none.
    Nothing,
    /// It was to stay, and somebody has removed or moved it during the run.
    Gone,
    /// It stays.
    Kept(KeptLedger),
}

impl LedgerLeft {
    /// The ledger, if it stays.
    pub(super) const fn kept(&self) -> Option<&KeptLedger> {
        match self {
            Self::Kept(ledger) => Some(ledger),
            Self::Nothing | Self::Gone => None,
        }
    }
}

/// A ledger that stays.
#[derive(Debug, Clone)]
pub(crate) struct KeptLedger {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The number of this service's answers in it, if known.
    pub(crate) answers: Option<u64>,
    /// Whose it is.
    pub(crate) kind: KeptKind,
    /// The run was started with `--fresh`; with it, the next one would pay again.
    pub(crate) fresh: bool,
    /// It is damaged: no run can continue with it.
    pub(crate) damaged: bool,
}

/// Whose a ledger is that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptKind {
    /// It belongs to this run alone, and is deleted once every row has a verdict and a decision.
    Own,
    /// A file that runs share.
    Shared,
}
