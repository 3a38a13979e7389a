//! What other workers have claimed, noted in memory: a request is compared with all of it.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::claim_rows::{self, BatchNumber, ClaimedKey};
use crate::ledger::worker_lock::WorkerId;

/// The claims of other workers.
#[derive(Default)]
pub(super) struct OtherClaims {
    /// The workers that this process is and was: their claims are not another's.
    own: HashSet<WorkerId>,
    batches: HashMap<BatchNumber, Vec<ClaimedKey>>,
    owners: HashMap<ClaimedKey, BatchNumber>,
    /// What workers had claimed that are gone: they may have called for it.
    abandoned: HashSet<ClaimedKey>,
    /// Whose claims those are.
    abandoners: HashSet<WorkerId>,
    /// The version of the database that was seen last.
    version: Option<i64>,
}

impl OtherClaims {
    /// This process is this worker from now on.
    pub(super) fn add_own(&mut self, worker: WorkerId) {
        self.own.insert(worker);
    }

    /// Notes what others have claimed and what they are done with, within a transaction.
    pub(super) fn update(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let version = connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if self.version != Some(version) {
            self.version = Some(version);
            self.read(connection)?;
        }
        Ok(())
    }

    fn read(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut ended: HashSet<_> = self.batches.keys().copied().collect();
        for batch in claim_rows::batches(connection)? {
            if !self.own.contains(&batch.worker()) && !ended.remove(&batch) {
                let keys = claim_rows::read_batch(connection, batch)?;
                self.owners.extend(keys.iter().map(|key| (*key, batch)));
                self.batches.insert(batch, keys);
            }
        }
        for batch in ended {
            self.forget(batch);
        }
        for worker in claim_rows::abandoners(connection)? {
            if !self.own.contains(&worker) && self.abandoners.insert(worker) {
                let keys = claim_rows::read_abandoned(connection, worker)?;
                self.abandoned.extend(keys);
            }
        }
        Ok(())
    }

    fn forget(&mut self, batch: BatchNumber) {
        for key in self.batches.remove(&batch).unwrap_or_default() {
            // What is left of a batch may be in another one already.
            if self.owners.get(&key) == Some(&batch) {
                self.owners.remove(&key);
            }
        }
    }

    /// Who has claimed a request.
    pub(super) fn owner(&self, key: ClaimedKey) -> Option<WorkerId> {
        self.owners.get(&key).map(|batch| batch.worker())
    }

    /// Removes a worker that is gone, and notes what it had claimed.
    pub(super) fn abandon(
        &mut self,
        connection: &Connection,
        worker: WorkerId,
        now: i64,
    ) -> rusqlite::Result<()> {
        claim_rows::abandon(connection, worker, now)?;
        self.read(connection)
    }

    /// Whether a worker that is gone had claimed a request.
    pub(super) fn was_abandoned(&self, key: ClaimedKey) -> bool {
        self.abandoned.contains(&key)
    }
}
