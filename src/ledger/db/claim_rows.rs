//! The tables of workers and of what they have claimed.
//!
//! A batch of claims is one row, which is written with the first and removed with the last of them. No batch ever changes:
//! what is left of one becomes another batch, so that a number always stands for the same claims. The batches of a worker
//! that is gone stay: it may have called for what is in them.

use rusqlite::{Connection, OptionalExtension, params};

use super::errors::damaged;
use crate::ledger::request_key::RequestKey;
use crate::ledger::worker_lock::WorkerId;

/// What is stored of a claimed request: 64 bits of its key. If two requests ever had the same, one would wait for the
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::ledger) struct ClaimedKey(u64);

/// The worker that has what was called for and got no answer, so that it may have been billed. It is never there, so the
/// next one that asks takes that over.
pub(super) const NOBODY: WorkerId = WorkerId(0);

/// Claims that were made together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    /// When they were made, in milliseconds since 1970: a request that was answered since then is settled.
    pub(super) at: i64,
    /// What was claimed.
    pub(super) keys: Vec<ClaimedKey>,
}

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

impl Batch {
    /// As it is stored.
    fn bytes(&self) -> Vec<u8> {
        { self.keys.iter() }
            .flat_map(|key| key.0.to_le_bytes())
            .collect()
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

/// Removes a worker that is gone. What it had claimed stays.
pub(crate) fn abandon(connection: &Connection, worker: WorkerId) -> rusqlite::Result<()> {
    connection
        .execute("DELETE FROM workers WHERE id = ?", [worker.0])
        .map(drop)
}

/// Removes what workers that are gone had claimed before this time: how many batches there were.
pub(crate) fn remove_abandoned(connection: &Connection, before: i64) -> rusqlite::Result<usize> {
    connection.execute(
        "DELETE FROM claims WHERE at < ? AND id >> 32 NOT IN (SELECT id FROM workers)",
        [before],
    )
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

/// A batch; one without claims if it is not there.
pub(super) fn read_batch(connection: &Connection, batch: BatchNumber) -> rusqlite::Result<Batch> {
    let mut statement = connection.prepare_cached("SELECT at, keys FROM claims WHERE id = ?")?;
    let mut rows = statement.query([batch.0])?;
    let Some(row) = rows.next()? else {
        return Ok(Batch {
            at: 0,
            keys: Vec::new(),
        });
    };
    let (keys, rest) = row.get_ref(1)?.as_blob()?.as_chunks();
    if !rest.is_empty() {
        return Err(damaged());
    }
    let key = |key: &[u8; 8]| ClaimedKey(u64::from_le_bytes(*key));
    Ok(Batch {
        at: row.get(0)?,
        keys: keys.iter().map(key).collect(),
    })
}

/// Adds a batch.
pub(super) fn add_batch(
    connection: &Connection,
    number: BatchNumber,
    batch: &Batch,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO claims VALUES (?, ?, ?)")?
        .execute(params![number.0, batch.at, batch.bytes()])
        .map(drop)
}

/// Adds a batch of a worker that is not there, with a number that no other batch has and hardly any has had: a batch whose
/// number is known is not read again.
pub(super) fn add_abandoned(
    connection: &Connection,
    worker: WorkerId,
    batch: &Batch,
) -> rusqlite::Result<BatchNumber> {
    loop {
        let some: u32 = connection
            .prepare_cached("SELECT random() & 0xffffffff")?
            .query_row([], |row| row.get(0))?;
        let number = BatchNumber::new(worker, some);
        if add_if_free(connection, number, batch)? {
            return Ok(number);
        }
    }
}

/// Adds a batch if no other has its number; whether none has.
fn add_if_free(
    connection: &Connection,
    number: BatchNumber,
    batch: &Batch,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO claims VALUES (?, ?, ?)")?
        .execute(params![number.0, batch.at, batch.bytes()])
        .map(|added| added == 1)
}

/// Removes a batch.
pub(super) fn remove_batch(connection: &Connection, batch: BatchNumber) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM claims WHERE id = ?")?
        .execute([batch.0])
        .map(drop)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ledger::db::schema;
    use crate::ledger::file::LedgerKind;

    #[test]
    fn a_number_that_is_taken_is_left_alone() {
        let connection = Connection::open_in_memory().unwrap();
        schema::create(&connection, LedgerKind::Shared).unwrap();
        let number = BatchNumber::new(NOBODY, 7);
        let batch = |key| Batch {
            at: 1,
            keys: vec![ClaimedKey(key)],
        };
        assert!(add_if_free(&connection, number, &batch(1)).unwrap());
        assert!(!add_if_free(&connection, number, &batch(2)).unwrap());
        assert_eq!(read_batch(&connection, number).unwrap(), batch(1));
        let other = add_abandoned(&connection, NOBODY, &batch(2)).unwrap();
        assert_eq!(read_batch(&connection, other).unwrap(), batch(2));
        assert_eq!(batches(&connection).unwrap().len(), 2);
    }
}
