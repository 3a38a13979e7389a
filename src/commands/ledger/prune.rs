//! `rescore ledger prune`: removing old answers.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::lock_wait::LockWait;
use crate::base::error::{Result, shown};
use crate::ledger::{self, Eraser};
use crate::observe::{count, counted, moment};

/// Removes answers that are older; the result as text.
pub(super) fn prune(ledger: &Path, older_than: Duration, wait: &LockWait<'_>) -> Result<String> {
    let before = SystemTime::now()
        .checked_sub(older_than)
        .unwrap_or(UNIX_EPOCH);
    let eraser = wait.until_free(|| Eraser::open(ledger))?;
    let bytes = eraser.bytes();
    let removed = ledger::prune(&eraser, before)?;
    let result = eraser.finish(removed > 0)?;
    let mut text = format!(
        "{}: removed {} from before {}, {} left\n{} before, {} now",
        shown(ledger),
        counted(removed, "answer"),
        moment(before),
        count(result.answers),
        counted(bytes, "byte"),
        count(result.bytes),
    );
    if removed > 0 && !result.is_without_trace() {
        text.push_str(
            "\nanother program is using the ledger: the free space is used for new answers; run this again later to shrink the file",
        );
    }
    Ok(text)
}
