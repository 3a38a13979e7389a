//! `rescore ledger prune`: removing old answers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::lock_wait::LockWait;
use crate::base::error::Result;
use crate::ledger::{Keeper, NamedLedger, RemainingTraces};
use crate::observe::{count, counted, moment};

/// Removes answers that are older; the result as text.
pub(super) fn prune(
    ledger: &NamedLedger,
    older_than: Duration,
    wait: &LockWait<'_>,
) -> Result<String> {
    let before = SystemTime::now()
        .checked_sub(older_than)
        .unwrap_or(UNIX_EPOCH);
    let keeper = wait.until_free(|| Keeper::open(ledger))?;
    let bytes = keeper.bytes()?;
    let removed = keeper.prune(before)?;
    let result = keeper.finish(removed > 0)?;
    let mut text = format!(
        "{ledger}: removed {} from before {}, {} left\n{} before, {} now",
        counted(removed, "answer"),
        moment(before),
        count(result.answers),
        counted(bytes, "byte"),
        count(result.bytes),
    );
    match result.traces {
        RemainingTraces::None => {}
        _ if removed == 0 => {}
        RemainingTraces::InFile => text.push_str(
            "\nanother program is using the ledger: the free space is used for new answers; run this again later to shrink the file",
        ),
        RemainingTraces::OnServer => text.push_str("\nthe server uses the free space for new answers"),
    }
    Ok(text)
}
