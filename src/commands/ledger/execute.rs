//! Runs one of the commands and prints its result.

use std::io::Write as _;

use super::super::lock_wait::LockWait;
use super::{forget, prune, stats};
use crate::base::error::{Exit, Result};
use crate::base::stdout;
use crate::config::{AdminConfig, AdminTask};
use crate::ledger;

/// Runs it and prints its result.
///
/// # Errors
/// Exit code 2: the file is not a usable ledger, or a file of users cannot be read; the ledger is as it was. Exit code 3: it
/// cannot be written, or what is in it cannot be printed. Exit code 75: another process is using it.
pub(crate) fn execute(config: AdminConfig) -> Result<Exit> {
    let AdminConfig { wait_lock, task } = config;
    // A signal ends this process by itself.
    let wait = LockWait::new(wait_lock, true, || Ok(()));
    match task {
        AdminTask::Init(ledger) => {
            let is_new = ledger::init(&ledger)?;
            let (place, made) = (
                ledger.shown(),
                if is_new {
                    "made the ledger"
                } else {
                    "the ledger is there already"
                },
            );
            print(&format!("{place}: {made}"));
            Ok(Exit::Complete)
        }
        AdminTask::Stats(ledger) => {
            stdout::print(&stats::stats(&ledger)?)?;
            Ok(Exit::Complete)
        }
        AdminTask::Prune { ledger, older_than } => {
            print(&prune::prune(&ledger, older_than, &wait)?);
            Ok(Exit::Complete)
        }
        AdminTask::Forget { ledger, users } => {
            let (text, exit) = forget::forget(&ledger, *users, &wait)?;
            print(&text);
            Ok(exit)
        }
    }
}

/// Prints what was done. A failure to print it undoes nothing.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
