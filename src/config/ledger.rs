//! `rescore ledger`.

use std::time::Duration;

use crate::fields::UserRequest;
use crate::input;
use crate::ledger::NamedLedger;
#[cfg(feature = "postgres")]
use crate::ledger::{ImportSettings, InitSettings};

/// `rescore ledger`.
#[derive(Debug)]
pub(crate) struct AdminConfig {
    /// How long to wait for another process that is using it; `None` is not at all.
    pub(crate) wait_lock: Option<Duration>,
    /// What to do with it.
    pub(crate) task: AdminTask,
}

/// What to do with a ledger.
#[derive(Debug)]
pub(crate) enum AdminTask {
    /// Make one on a server, and grant rights on it.
    #[cfg(feature = "postgres")]
    Init(Box<InitSettings>),
    /// Bring the answers of a file to one on a server.
    #[cfg(feature = "postgres")]
    Import(Box<ImportSettings>),
    /// Show what is in it.
    Stats(NamedLedger),
    /// Remove old answers.
    Prune {
        /// The ledger.
        ledger: NamedLedger,
        /// Those that are older than this.
        older_than: Duration,
    },
    /// Remove answers about people, so that nothing of them stays.
    Forget {
        /// The ledger.
        ledger: NamedLedger,
        /// Whose.
        target: ForgetTarget,
    },
}

/// Whose answers are to be removed.
#[derive(Debug)]
pub(crate) enum ForgetTarget {
    /// This user's.
    User(Box<UserRequest<'static>>),
    /// Those of all users of a file.
    Users(Box<input::ReaderSettings>),
    /// Everybody's.
    Everybody,
}
