//! Claims of requests: which run calls for what.
//!
//! A claim belongs to one start of a run, and lasts for as long as that start renews its lease. What is left of it then may be
//! taken over by any run, and may have been billed.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::ledger::key::RequestKey;
use crate::ledger::run::ABANDONED;
use crate::ledger::store::ClaimResult;

/// The start of a run that claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claimant {
    /// The run.
    pub(super) run: i64,
    /// A random number of this start.
    pub(super) start: i64,
}

/// Claims a request about which nothing is known.
pub(super) fn claim(
    connection: &Connection,
    us: Claimant,
    key: &RequestKey,
    now: i64,
) -> rusqlite::Result<ClaimResult> {
    let holder = connection
        .prepare_cached("SELECT run, start FROM claims WHERE fp = ?")?
        .query_row([key.fingerprint], |row| {
            Ok(Claimant {
                run: row.get(0)?,
                start: row.get(1)?,
            })
        })
        .optional()?;
    let taken_over = match holder {
        None => false,
        Some(holder) if holder == us => return Ok(ClaimResult::Ours { taken_over: false }),
        Some(holder) if is_alive(connection, holder, now)? => return Ok(ClaimResult::Taken),
        // What an earlier start of this run has left is counted when the run starts.
        Some(holder) => holder.run != us.run,
    };
    connection
        .prepare_cached("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)")?
        .execute(params![key.fingerprint, us.run, us.start])?;
    Ok(ClaimResult::Ours { taken_over })
}

fn is_alive(connection: &Connection, holder: Claimant, now: i64) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM runs WHERE id = ? AND start = ? AND until >= ?)",
        )?
        .query_row(params![holder.run, holder.start, now], |row| row.get(0))
}

/// Ends our claims of requests.
pub(super) fn end<'k>(
    connection: &Connection,
    us: Claimant,
    requests: impl IntoIterator<Item = &'k RequestKey>,
) -> rusqlite::Result<()> {
    let mut end =
        connection.prepare_cached("DELETE FROM claims WHERE fp = ? AND run = ? AND start = ?")?;
    for key in requests {
        end.execute(params![key.fingerprint, us.run, us.start])?;
    }
    Ok(())
}

/// Leaves our claim of a request to nobody.
pub(super) fn abandon(
    connection: &Connection,
    us: Claimant,
    key: &RequestKey,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE claims SET start = ? WHERE fp = ? AND run = ? AND start = ?")?
        .execute(params![ABANDONED, key.fingerprint, us.run, us.start])
        .map(drop)
}

/// Ends all our claims.
pub(super) fn end_all(connection: &Connection, us: Claimant) -> rusqlite::Result<()> {
    connection
        .execute(
            "DELETE FROM claims WHERE run = ? AND start = ?",
            [us.run, us.start],
        )
        .map(drop)
}

/// Whether a run has a lease: then it may be calling.
pub(super) fn any_alive(connection: &Connection, now: i64) -> rusqlite::Result<bool> {
    let query = "SELECT EXISTS (SELECT 1 FROM runs WHERE until >= ?)";
    connection.query_row(query, [now], |row| row.get(0))
}
