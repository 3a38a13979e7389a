//! The lease of a run, which each group of answers renews.

use rusqlite::{Connection, params};

use super::claims::Claimant;

/// Extends a lease that has not ended, and notes the calls of all starts; whether it had not.
pub(super) fn renew(
    connection: &Connection,
    us: Claimant,
    calls: u64,
    (now, until): (i64, i64),
) -> rusqlite::Result<bool> {
    let renewed = connection
        .prepare_cached(
            "UPDATE runs SET calls = ?, until = ? WHERE id = ? AND start = ? AND until >= ?",
        )?
        .execute(params![calls.cast_signed(), until, us.run, us.start, now])?;
    Ok(renewed > 0)
}
