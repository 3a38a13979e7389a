//! `rescore ledger`.

use std::path::PathBuf;
use std::time::Duration;

use crate::fields::UserRequest;
use crate::input;

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
    /// Show what is in it.
    Stats(PathBuf),
    /// Remove old answers.
    Prune {
        /// The ledger.
        ledger: PathBuf,
        /// Those that are older than this.
        older_than: Duration,
    },
    /// Remove answers about people, so that nothing of them stays.
    Forget {
        /// The ledger.
        ledger: PathBuf,
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
