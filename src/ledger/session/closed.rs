//! How a ledger ends, and what is left of it.

use crate::ledger::store::AnswerCounts;

/// When the run's own ledger is removed at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Every row has its verdict, from so many answers: the ledger is removed, with what is left of rows that were edited
    /// meanwhile. It stays when another account has paid for some of it, or when most of it was not used: then it belongs
    /// to another file, used by mistake, and was paid for as well.
    WhenUsed(u64),
    /// There is nothing to continue but the answers that may be in it.
    WhenEmpty,
    /// The next run continues with rows that are there.
    Never,
}

impl Removal {
    /// Whether a ledger with so many answers is removed.
    pub(super) const fn applies_to(self, counts: AnswerCounts) -> bool {
        match self {
            Self::Never => false,
            Self::WhenUsed(used) => !counts.others_paid && counts.all <= used.saturating_mul(2),
            Self::WhenEmpty => counts.all == 0,
        }
    }
}

/// What is left of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedLedger {
    /// Nothing.
    Removed,
    /// Nothing here: somebody has removed or moved the file during the run.
    Gone,
    /// The file, with so many answers of the run's address and service ID, where that is known.
    Kept(Option<u64>),
}
