//! The load that a service was found to accept, so that the next run starts near it and need not search for it again.
//!
//! A limit belongs to an address and a service ID, as answers do; the flags of a run make no difference to it.

use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::ledger::clock::{millis, time};
use crate::ledger::known_limit::{KnownLimit, LimitRecorder};
use crate::telemetry::pace::{FoundLimit, Limit};

fn of_row(row: &Row<'_>) -> rusqlite::Result<KnownLimit> {
    let found = |value, times| {
        let (value, times): (Option<f64>, Option<u32>) = (row.get(value)?, row.get(times)?);
        let found = value.zip(times);
        Ok::<_, rusqlite::Error>(found.map(|(value, times)| FoundLimit { value, times }))
    };
    Ok(KnownLimit {
        limit: Limit {
            rate: found("rate", "rate_times")?,
            in_flight: found("in_flight", "in_flight_times")?,
        },
        found: time(row.get("at")?),
    })
}

/// The limit of an account, unless it is too old to be used.
pub(super) fn known(
    connection: &Connection,
    account: i64,
    now: SystemTime,
) -> rusqlite::Result<Option<KnownLimit>> {
    let known = connection
        .query_row("SELECT * FROM limits WHERE account = ?", [account], of_row)
        .optional()?;
    Ok(known.filter(|known| known.is_recent(now)))
}

/// The limit of each account, however old.
pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<(i64, KnownLimit)>> {
    connection
        .prepare("SELECT * FROM limits")?
        .query_map([], |row| Ok((row.get("account")?, of_row(row)?)))?
        .collect()
}

/// Stores what a run has found, if that is worth it; at the end of the run, more is.
pub(super) fn record(
    connection: &Connection,
    account: i64,
    recorder: &mut LimitRecorder,
    at_end: bool,
) -> rusqlite::Result<()> {
    let Some(KnownLimit { limit, found }) = recorder.take(at_end) else {
        return Ok(());
    };
    if limit == Limit::NONE {
        connection.execute("DELETE FROM limits WHERE account = ?", [account])?;
        return Ok(());
    }
    let value = |found: Option<FoundLimit>| found.map(|found| found.value);
    let times = |found: Option<FoundLimit>| found.map(|found| found.times);
    connection.execute(
        "INSERT OR REPLACE INTO limits VALUES (?, ?, ?, ?, ?, ?)",
        params![
            account,
            value(limit.rate),
            times(limit.rate),
            value(limit.in_flight),
            times(limit.in_flight),
            millis(found)
        ],
    )?;
    Ok(())
}
