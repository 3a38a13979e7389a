//! `rescore ledger`.

use std::time::Duration;

use crate::input;
use crate::ledger::LedgerLocation;

/// What is to be done with a ledger.
#[derive(Debug)]
pub(crate) struct AdminConfig {
    /// How long to wait for a run that uses it; `None` is not at all.
    pub(crate) wait_lock: Option<Duration>,
    /// What is to be done.
    pub(crate) task: AdminTask,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum AdminTask {
    /// Make a ledger on a server.
    Init(LedgerLocation),
    /// Show what is in this ledger.
    Stats(LedgerLocation),
    /// Remove old answers.
    Prune {
        /// The ledger.
        ledger: LedgerLocation,
        /// The age above which they are removed.
        older_than: Duration,
    },
    /// Remove answers about the users of a file.
    Forget {
        /// The ledger.
        ledger: LedgerLocation,
        /// The file.
        users: Box<input::ReaderSettings>,
    },
}
