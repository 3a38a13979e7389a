//! `rescore ledger prune`: removing old answers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::lock_wait::LockWait;
use crate::base::error::Result;
use crate::ledger::{LedgerLocation, administer};
use crate::observe::{count, counted, moment};

/// Removes answers that are older; the result as text.
pub(super) fn prune(
    ledger: &LedgerLocation,
    older_than: Duration,
    wait: &LockWait<'_>,
) -> Result<String> {
    let before = SystemTime::now()
        .checked_sub(older_than)
        .unwrap_or(UNIX_EPOCH);
    let mut admin = wait.until_free(|| administer(ledger))?;
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
