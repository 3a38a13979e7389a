//! Runs one of the commands and prints its result.

use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::lock_wait::LockWait;
use super::{forget, stats};
use crate::base::error::{Exit, Result};
use crate::base::stdout;
use crate::config::{AdminConfig, AdminTask};
use crate::ledger::{self, LedgerAdmin, LedgerLocation};
use crate::observe::{count, counted, moment};

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
            let made = if ledger::init(&ledger)? {
                "made the ledger"
            } else {
                "the ledger is there already"
            };
            print(&format!("{}: {made}", ledger.shown()));
            Ok(Exit::Complete)
        }
        AdminTask::Stats(ledger) => {
            stdout::print(&stats::stats(&ledger)?)?;
            Ok(Exit::Complete)
        }
        AdminTask::Prune { ledger, older_than } => {
            print(&prune(&ledger, older_than, &wait)?);
            Ok(Exit::Complete)
        }
        AdminTask::Forget { ledger, users } => {
            let (text, exit) = forget::forget(&ledger, *users, &wait)?;
            print(&text);
            Ok(exit)
        }
    }
}

/// Removes answers that are older; the result as text.
fn prune(ledger: &LedgerLocation, older_than: Duration, wait: &LockWait<'_>) -> Result<String> {
    let before = SystemTime::now()
        .checked_sub(older_than)
        .unwrap_or(UNIX_EPOCH);
    let mut admin = wait.until_free(|| LedgerAdmin::open(ledger))?;
    let bytes = admin.stats()?.bytes;
    let removed = admin.prune(before)?;
    admin.rewrite()?;
    let left = admin.stats()?;
    Ok(format!(
        "{}: removed {} from before {}, {} left\n{} before, {} now",
        ledger.shown(),
        counted(removed, "answer"),
        moment(before),
        count(left.answers),
        counted(bytes, "byte"),
        count(left.bytes),
    ))
}

/// Prints what was done. A failure to print it undoes nothing.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
