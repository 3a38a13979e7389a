//! The table of failing requests: those that the service failed on while it answered others, so that the next run does not
//! take them for an outage.
//!
//! A run that continues asks only about what failed before, so such requests follow each other closely. Each is stored with
//! its key and the time when it last failed, and nothing about a user.

use std::collections::HashMap;
#[cfg(test)]
use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Row, params};

use crate::ledger::clock::millis;
use crate::ledger::request_key::{KeyHash, RequestKey};

/// How long a request is remembered after it last failed: a monthly job must recognise what failed in the one before. To be
/// wrong about some costs little, as they are asked all the same.
const REMEMBERED: Duration = Duration::from_secs(40 * 24 * 60 * 60);

/// How many are used at most, which is some megabytes: a service that fails on more has another problem.
const MOST: u32 = 100_000;

/// The failing requests of a context, each with the time when it last failed. Some may have been answered since.
pub(crate) fn known(
    connection: &Connection,
    context: i64,
    now: SystemTime,
) -> rusqlite::Result<Vec<(RequestKey, i64)>> {
    const QUERY: &str =
        "SELECT key, row, at FROM failing_requests WHERE context = ? AND at > ? LIMIT ?";
    connection
        .prepare(QUERY)?
        .query_map(params![context, oldest(now), MOST], |row| {
            Ok((key(row)?, row.get(2)?))
        })?
        .collect()
}

/// All that are stored, however old.
#[cfg(test)]
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<HashSet<RequestKey>> {
    connection
        .prepare("SELECT key, row FROM failing_requests")?
        .query_map([], key)?
        .collect()
}

/// How many users each context has failing requests about, however old.
pub(crate) fn counts(connection: &Connection) -> rusqlite::Result<HashMap<i64, u64>> {
    connection
        .prepare("SELECT context, count(DISTINCT key) FROM failing_requests GROUP BY context")?
        .query_map([], |row| {
            let count: i64 = row.get(1)?;
            Ok((row.get(0)?, count.unsigned_abs()))
        })?
        .collect()
}

/// Stores what failed now, and removes what failed too long ago.
pub(super) fn record(
    connection: &Connection,
    context: i64,
    failed: &[RequestKey],
    now: SystemTime,
) -> rusqlite::Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    let mut insert =
        connection.prepare_cached("INSERT OR REPLACE INTO failing_requests VALUES (?, ?, ?, ?)")?;
    for key in failed {
        insert.execute(params![key.hash, key.stored_row(), context, millis(now)])?;
    }
    connection
        .prepare_cached("DELETE FROM failing_requests WHERE at <= ?")?
        .execute([oldest(now)])
        .map(drop)
}

/// Removes the failing requests of a context.
pub(super) fn remove_of(connection: &Connection, context: i64) -> rusqlite::Result<()> {
    connection
        .execute("DELETE FROM failing_requests WHERE context = ?", [context])
        .map(drop)
}

/// Removes those that last failed before this time.
pub(crate) fn remove_before(connection: &Connection, before: i64) -> rusqlite::Result<()> {
    connection
        .execute("DELETE FROM failing_requests WHERE at < ?", [before])
        .map(drop)
}

/// Whether a request is stored, of any row.
pub(crate) fn any_to(connection: &Connection, hash: &KeyHash) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM failing_requests WHERE key = ?")?
        .exists([hash])
}

/// Removes a request, of all rows: how many there were.
pub(crate) fn remove_to(connection: &Connection, hash: &KeyHash) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM failing_requests WHERE key = ?")?
        .execute([hash])
}

fn key(row: &Row<'_>) -> rusqlite::Result<RequestKey> {
    let number: i64 = row.get(1)?;
    Ok(RequestKey {
        hash: row.get(0)?,
        row: number.unsigned_abs(),
    })
}

fn oldest(now: SystemTime) -> i64 {
    millis(
        now.checked_sub(REMEMBERED)
            .unwrap_or(SystemTime::UNIX_EPOCH),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::connect::{Connect, Mode};
    use super::*;
    use crate::ledger::file::LedgerKind;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn a_failing_request_is_remembered_for_40_days_and_for_its_own_service_only() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("answers.ledger");
        std::fs::write(&path, "").unwrap();
        let connection = Connect::to(Mode::Create(LedgerKind::Shared))
            .open(&path)
            .unwrap();
        let now = SystemTime::now();
        let [one, other] = [1, 2].map(RequestKey::some);
        record(&connection, 1, &[one, other], now).unwrap();
        record(&connection, 1, &[one], now + DAY * 30).unwrap();
        let known = |context, days| -> HashSet<_> {
            let known = known(&connection, context, now + DAY * days).unwrap();
            known.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(known(1, 31), HashSet::from([one, other]));
        assert_eq!(known(1, 45), HashSet::from([one]));
        assert_eq!(known(1, 75), HashSet::new());
        assert_eq!(known(2, 31), HashSet::new());
        // What is too old is removed when the next one is stored.
        record(&connection, 1, &[one], now + DAY * 60).unwrap();
        assert_eq!(all(&connection).unwrap(), HashSet::from([one]));
        assert_eq!(counts(&connection).unwrap(), HashMap::from([(1, 1)]));
    }
}
