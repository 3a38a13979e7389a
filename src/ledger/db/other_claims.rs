//! What other workers have claimed, noted in memory: a request is compared with all of it.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::claim_rows::{self, BatchNumber, ClaimedKey};
use crate::ledger::worker_lock::WorkerId;

/// The claims of other workers.
#[derive(Default)]
pub(super) struct OtherClaims {
    batches: HashMap<BatchNumber, Vec<ClaimedKey>>,
    owners: HashMap<ClaimedKey, BatchNumber>,
    /// The version of the database that was seen last.
    version: Option<i64>,
    /// What workers had claimed that are gone: they may have called for it.
    orphans: HashSet<ClaimedKey>,
}

impl OtherClaims {
    /// Notes what others have claimed and what they are done with, within a transaction.
    pub(super) fn update(
        &mut self,
        connection: &Connection,
        own: WorkerId,
    ) -> rusqlite::Result<()> {
        let version = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if self.version == Some(version) {
            return Ok(());
        }
        self.version = Some(version);
        let mut gone: HashSet<_> = self.batches.keys().copied().collect();
        for batch in claim_rows::batches(connection)? {
            if batch.worker() != own && !gone.remove(&batch) {
                let keys = claim_rows::read_batch(connection, batch)?;
                self.owners.extend(keys.iter().map(|key| (*key, batch)));
                self.batches.insert(batch, keys);
            }
        }
        for batch in gone {
            self.forget(batch);
        }
        Ok(())
    }

    fn forget(&mut self, batch: BatchNumber) -> Vec<ClaimedKey> {
        let keys = self.batches.remove(&batch).unwrap_or_default();
        for key in &keys {
            // What is left of a batch may be in another one already.
            if self.owners.get(key) == Some(&batch) {
                self.owners.remove(key);
            }
        }
        keys
    }

    /// Who has claimed a request.
    pub(super) fn owner(&self, key: ClaimedKey) -> Option<WorkerId> {
        self.owners.get(&key).map(|batch| batch.worker())
    }

    /// Removes a worker that is gone, with all that it had claimed.
    pub(super) fn take_over(
        &mut self,
        connection: &Connection,
        worker: WorkerId,
    ) -> rusqlite::Result<()> {
        claim_rows::remove_worker(connection, worker)?;
        let batches: Vec<_> = { self.batches.keys().copied() }
            .filter(|batch| batch.worker() == worker)
            .collect();
        for batch in batches {
            let keys = self.forget(batch);
            self.orphans.extend(keys);
        }
        Ok(())
    }

    /// Whether a worker had claimed a request that is gone now. Each is told once.
    pub(super) fn was_orphan(&mut self, key: ClaimedKey) -> bool {
        self.orphans.remove(&key)
    }
}
