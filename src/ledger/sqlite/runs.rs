//! The lease of a run, which each group of answers renews.

use rusqlite::{Connection, params};

use super::claims::Claimant;

/// Notes the calls of all starts, and extends the lease, if it has not ended.
pub(super) fn renew(
    connection: &Connection,
    us: Claimant,
    calls: u64,
    (now, until): (i64, i64),
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE runs SET calls = ?, until = iif(until >= ?2, ?3, until) WHERE id = ? AND start = ?",
        )?
        .execute(params![calls.cast_signed(), now, until, us.run, us.start])
        .map(drop)
}
