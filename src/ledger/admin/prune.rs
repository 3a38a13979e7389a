//! Removing everything that is older than some time.

use std::time::SystemTime;

use super::eraser::Eraser;
use crate::base::error::Result;
use crate::ledger::clock::millis;
use crate::ledger::db::answer_removal::Piece;
use crate::ledger::db::{captures, limits, runs};

/// Blocks that are gone through in one transaction, side by side in the table: some ten milliseconds of work.
const PIECE: u32 = 256;

/// Removes answers that arrived before this: how many there were.
///
/// # Errors
/// Exit code 2 or 3: the ledger cannot be written.
pub(crate) fn prune(eraser: &Eraser, before: SystemTime) -> Result<u64> {
    remove_before(eraser, millis(before))
}

/// Removes everything from before this time, in milliseconds since 1970: how many answers there were.
pub(super) fn remove_before(eraser: &Eraser, before: i64) -> Result<u64> {
    let mut removed = 0;
    let next =
        |piece: Option<&Piece>| eraser.read(|connection, _| Piece::next(connection, piece, PIECE));
    let mut piece = next(None)?;
    while let Some(this) = &piece {
        removed += eraser.remove_piece(|connection, checksums| {
            this.remove_before(connection, checksums, before)
        })?;
        piece = next(Some(this))?;
    }
    if removed > 0 {
        eraser.clean_index()?;
    }
    // A run that was stopped so long ago will not be continued, fields that were used then no longer are, and the service
    // may have changed.
    eraser.remove_piece(|connection, _| {
        runs::remove_before(connection, before)?;
        limits::remove_before(connection, before)?;
        captures::remove_before(connection, before)?;
        Ok(0)
    })?;
    Ok(removed)
}
