//! Requests over which the service failed while it answered others, so that the next run does not take them for an outage.
//!
//! A run that goes on asks nothing but what failed before: then such requests stand side by side. Of each there is its key
//! and when it failed last; nothing of a user is in it.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, params};

use super::millis;
use super::request_key::RequestKey;

/// How long a request is known for it after it failed last: the job of a month must know again what failed in the one
/// before. To be wrong about some costs little, as they are asked all the same.
const KNOWN: Duration = Duration::from_secs(40 * 24 * 60 * 60);

/// How many are believed at most, which is some megabytes: a service that fails over more has another trouble.
const MOST: u32 = 100_000;

/// What is known of a context.
pub(super) fn known(
    connection: &Connection,
    context: i64,
    now: SystemTime,
) -> rusqlite::Result<HashSet<RequestKey>> {
    // What was answered since is none.
    const QUERY: &str = "SELECT key, row FROM failing_requests WHERE context = ? AND at > ? AND NOT EXISTS (
        SELECT 1 FROM answers WHERE answers.key = failing_requests.key AND answers.row = failing_requests.row AND answers.at >= failing_requests.at
    ) LIMIT ?";
    connection
        .prepare(QUERY)?
        .query_map(params![context, oldest(now), MOST], key)?
        .collect()
}

/// All that there is, however old.
#[cfg(test)]
pub(super) fn all(connection: &Connection) -> rusqlite::Result<HashSet<RequestKey>> {
    connection
        .prepare("SELECT key, row FROM failing_requests")?
        .query_map([], key)?
        .collect()
}

/// How much there is of each context, however old.
pub(super) fn counts(connection: &Connection) -> rusqlite::Result<HashMap<i64, u64>> {
    connection
        .prepare("SELECT context, count(DISTINCT key) FROM failing_requests GROUP BY context")?
        .query_map([], |row| {
            let count: i64 = row.get(1)?;
            Ok((row.get(0)?, count.unsigned_abs()))
        })?
        .collect()
}

/// Notes what failed now, and forgets what did so long ago.
pub(super) fn note(
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

fn key(row: &rusqlite::Row<'_>) -> rusqlite::Result<RequestKey> {
    let number: i64 = row.get(1)?;
    Ok(RequestKey {
        hash: row.get(0)?,
        row: number.unsigned_abs(),
    })
}

fn oldest(now: SystemTime) -> i64 {
    millis(now.checked_sub(KNOWN).unwrap_or(SystemTime::UNIX_EPOCH))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::file::Kind;
    use super::super::sqlite;
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn a_request_is_known_for_a_month_after_it_failed_last_and_by_its_own_service() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("answers.ledger");
        std::fs::write(&path, "").unwrap();
        let connection = sqlite::open(&path, Kind::Shared, true).unwrap();
        let now = SystemTime::now();
        let [one, other] = [1, 2].map(RequestKey::some);
        note(&connection, 1, &[one, other], now).unwrap();
        note(&connection, 1, &[one], now + DAY * 30).unwrap();
        let known = |context, days| known(&connection, context, now + DAY * days).unwrap();
        assert_eq!(known(1, 31), HashSet::from([one, other]));
        assert_eq!(known(1, 45), HashSet::from([one]));
        assert_eq!(known(1, 75), HashSet::new());
        assert_eq!(known(2, 31), HashSet::new());
        // What was answered since is none.
        connection
            .execute(
                "INSERT INTO answers (key, row, context, transaction_id, score, at, checksum) VALUES (?, 0, 1, 't', '1', ?, 0)",
                params![other.hash, millis(now + DAY)],
            )
            .unwrap();
        assert_eq!(known(1, 31), HashSet::from([one]));
        // What is too old goes with the next one that is noted.
        note(&connection, 1, &[one], now + DAY * 60).unwrap();
        assert_eq!(all(&connection).unwrap(), HashSet::from([one]));
        assert_eq!(counts(&connection).unwrap(), HashMap::from([(1, 1)]));
    }
}
