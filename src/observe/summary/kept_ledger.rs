//! A ledger after its run.

use std::path::PathBuf;

/// What is left of a run's ledger.
#[derive(Debug)]
pub(crate) enum LedgerLeft {
    /// Nothing: there was none.
    Nothing,
    /// Somebody has removed or moved it during the run.
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
    /// It is damaged: no run can continue with it.
    pub(crate) damaged: bool,
}
