//! The tables of workers, of what they have claimed, and of what they had claimed that are gone.
//!
//! A batch of claims is one row, which is written with the first and removed with the last of them. No batch ever changes:
//! what is left of one becomes another batch, so that who knows a batch by its number knows what is in it.

use rusqlite::{Connection, OptionalExtension, params};

use super::errors::damaged;
use crate::ledger::request_key::RequestKey;
use crate::ledger::worker_lock::WorkerId;

/// What is stored of a claimed request: 64 bits of its key. If two requests ever had the same, one would wait for the
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClaimedKey(u64);

impl From<&RequestKey> for ClaimedKey {
    fn from(key: &RequestKey) -> Self {
        let (hash, _) = key.hash.split_at(8);
        let mut bytes = [0; 8];
        bytes.copy_from_slice(hash);
        // Equal rows that are each asked on their own have one hash. The constant is that of Fibonacci hashing.
        let row = key.row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(u64::from_le_bytes(bytes) ^ row)
    }
}

/// The number of a batch: its worker's and its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct BatchNumber(i64);

impl BatchNumber {
    /// The batch of a worker with this number of its own.
    pub(super) fn new(worker: WorkerId, number: u32) -> Self {
        Self((i64::from(worker.0) << u32::BITS) | i64::from(number))
    }

    /// Whose it is.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was made of 32 bits"
    )]
    pub(super) const fn worker(self) -> WorkerId {
        WorkerId((self.0 >> u32::BITS) as u32)
    }
}

/// Adds a worker, which is alive until this time.
pub(super) fn add_worker(
    connection: &Connection,
    worker: WorkerId,
    alive_until: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO workers VALUES (?, ?)")?
        .execute(params![worker.0, alive_until])
        .map(drop)
}

/// A worker is alive until this time; `false` if there is no such worker any more.
pub(super) fn renew_worker(
    connection: &Connection,
    worker: WorkerId,
    alive_until: i64,
) -> rusqlite::Result<bool> {
    let changed = connection
        .prepare_cached("UPDATE workers SET alive_until = ? WHERE id = ?")?
        .execute(params![alive_until, worker.0])?;
    Ok(changed == 1)
}

/// Until when a worker is alive; `None` if there is no such worker.
pub(super) fn alive_until(
    connection: &Connection,
    worker: WorkerId,
) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT alive_until FROM workers WHERE id = ?")?
        .query_row([worker.0], |row| row.get(0))
        .optional()
}

/// Removes a worker and all that it has claimed.
pub(super) fn remove_worker(connection: &Connection, worker: WorkerId) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM workers WHERE id = ?", [worker.0])?;
    connection
        .execute(
            "DELETE FROM claims WHERE id BETWEEN ? AND ?",
            batches_of(worker),
        )
        .map(drop)
}

/// Removes a worker that is gone, and notes what it had claimed.
pub(super) fn abandon(connection: &Connection, worker: WorkerId, now: i64) -> rusqlite::Result<()> {
    let batches: Vec<Vec<u8>> = connection
        .prepare_cached("SELECT keys FROM claims WHERE id BETWEEN ? AND ?")?
        .query_map(batches_of(worker), |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if !batches.is_empty() {
        connection
            .prepare_cached("INSERT OR REPLACE INTO abandoned VALUES (?, ?, ?)")?
            .execute(params![worker.0, now, batches.concat()])?;
    }
    remove_worker(connection, worker)
}

/// The workers that are gone whose claims are noted.
pub(super) fn abandoners(connection: &Connection) -> rusqlite::Result<Vec<WorkerId>> {
    connection
        .prepare_cached("SELECT worker FROM abandoned")?
        .query_map([], |row| row.get(0).map(WorkerId))?
        .collect()
}

/// What a worker that is gone had claimed.
pub(super) fn read_abandoned(
    connection: &Connection,
    worker: WorkerId,
) -> rusqlite::Result<Vec<ClaimedKey>> {
    read_keys(
        connection,
        "SELECT keys FROM abandoned WHERE worker = ?",
        i64::from(worker.0),
    )
}

/// Removes what was noted of workers before this time: how many there were.
pub(crate) fn remove_abandoned(connection: &Connection, before: i64) -> rusqlite::Result<usize> {
    connection.execute("DELETE FROM abandoned WHERE at < ?", [before])
}

/// The first and last number that a batch of a worker may have.
fn batches_of(worker: WorkerId) -> [i64; 2] {
    [0, u32::MAX].map(|number| BatchNumber::new(worker, number).0)
}

/// The numbers of all batches.
pub(super) fn batches(connection: &Connection) -> rusqlite::Result<Vec<BatchNumber>> {
    connection
        .prepare_cached("SELECT id FROM claims")?
        .query_map([], |row| row.get(0).map(BatchNumber))?
        .collect()
}

/// What is in a batch.
pub(super) fn read_batch(
    connection: &Connection,
    batch: BatchNumber,
) -> rusqlite::Result<Vec<ClaimedKey>> {
    read_keys(connection, "SELECT keys FROM claims WHERE id = ?", batch.0)
}

/// The keys in a row; none if it is not there.
fn read_keys(
    connection: &Connection,
    statement: &str,
    id: i64,
) -> rusqlite::Result<Vec<ClaimedKey>> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut rows = statement.query([id])?;
    let Some(row) = rows.next()? else {
        return Ok(Vec::new());
    };
    let (keys, rest) = row.get_ref(0)?.as_blob()?.as_chunks();
    if !rest.is_empty() {
        return Err(damaged());
    }
    let key = |key: &[u8; 8]| ClaimedKey(u64::from_le_bytes(*key));
    Ok(keys.iter().map(key).collect())
}

/// Adds a batch.
pub(super) fn add_batch(
    connection: &Connection,
    batch: BatchNumber,
    keys: &[ClaimedKey],
) -> rusqlite::Result<()> {
    let keys: Vec<_> = keys.iter().flat_map(|key| key.0.to_le_bytes()).collect();
    connection
        .prepare_cached("INSERT INTO claims VALUES (?, ?)")?
        .execute(params![batch.0, keys])
        .map(drop)
}

/// Removes a batch.
pub(super) fn remove_batch(connection: &Connection, batch: BatchNumber) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM claims WHERE id = ?")?
        .execute([batch.0])
        .map(drop)
}
