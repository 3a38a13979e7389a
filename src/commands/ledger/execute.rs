//! Runs one of the commands and prints its result.

use std::io::Write as _;

use super::super::lock_wait::LockWait;
use super::{forget, prune, stats};
use crate::base::error::{Exit, Result};
use crate::base::stdout;
use crate::config::{AdminConfig, AdminTask};

/// Runs it and prints its result.
///
/// # Errors
/// Exit code 2: the file is not a usable ledger, or a file of users cannot be read; the ledger is as it was. Exit code 3:
/// traces of what was forgotten may be left, or what is in a ledger cannot be printed. Exit code 75: another process is using it.
pub(crate) fn execute(config: AdminConfig) -> Result<Exit> {
    let AdminConfig { wait_lock, task } = config;
    // A signal ends this process by itself.
    let wait = LockWait::new(wait_lock, true, || Ok(()));
    match task {
        AdminTask::Stats(ledger) => stdout::print(&stats::stats(&ledger)?)?,
        AdminTask::Prune { ledger, older_than } => {
            print(&prune::prune(&ledger, older_than, &wait)?);
        }
        AdminTask::Forget { ledger, target } => {
            let done = forget::forget(&ledger, target, &wait)?;
            print(&done.text);
            return done.exit;
        }
    }
    Ok(Exit::Complete)
}

/// Prints what was done. A failure to print it undoes nothing.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
