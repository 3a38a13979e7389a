//! The tables of workers and of what they have claimed.
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
    let (first, last) = (
        BatchNumber::new(worker, 0),
        BatchNumber::new(worker, u32::MAX),
    );
    connection
        .execute(
            "DELETE FROM claims WHERE id BETWEEN ? AND ?",
            [first.0, last.0],
        )
        .map(drop)
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
    let mut statement = connection.prepare_cached("SELECT keys FROM claims WHERE id = ?")?;
    let mut rows = statement.query([batch.0])?;
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
