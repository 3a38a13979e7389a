//! A ledger that stays after its run.

use std::path::PathBuf;

/// A ledger that stays.
#[derive(Debug, Clone)]
pub(crate) struct KeptLedger {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The number of this service's answers in it, if known.
    pub(crate) answers: Option<u64>,
    /// It belongs to this run alone, and is deleted once every row has a verdict and a decision.
    pub(crate) own: bool,
    /// The run was started with `--fresh`; with it, the next one would pay again.
    pub(crate) fresh: bool,
    /// It is damaged: no run can continue with it.
    pub(crate) damaged: bool,
}
