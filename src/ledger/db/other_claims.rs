//! What other workers have claimed, noted in memory: a request is compared with all of it.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::claim_rows::{self, Batch, BatchNumber, ClaimedKey, NOBODY};
use super::connect;
use crate::ledger::worker_lock::WorkerId;

/// The claims of other workers, also of those that are gone.
#[derive(Default)]
pub(super) struct OtherClaims {
    /// The workers that this process is and was: their claims are not another's.
    own: HashSet<WorkerId>,
    batches: HashMap<BatchNumber, Batch>,
    owners: HashMap<ClaimedKey, BatchNumber>,
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
        let version = connect::data_version(connection)?;
        if self.version != Some(version) {
            self.version = Some(version);
            self.read(connection)?;
        }
        Ok(())
    }

    fn read(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let mut ended: HashSet<_> = self.batches.keys().copied().collect();
        for number in claim_rows::batches(connection)? {
            if !self.own.contains(&number.worker()) && !ended.remove(&number) {
                self.note(number, claim_rows::read_batch(connection, number)?);
            }
        }
        for batch in ended {
            self.forget(batch);
        }
        Ok(())
    }

    fn note(&mut self, number: BatchNumber, batch: Batch) {
        self.owners
            .extend(batch.keys.iter().map(|key| (*key, number)));
        self.batches.insert(number, batch);
    }

    fn forget(&mut self, number: BatchNumber) -> Option<Batch> {
        let batch = self.batches.remove(&number)?;
        for key in &batch.keys {
            // What is left of a batch may be in another one already.
            if self.owners.get(key) == Some(&number) {
                self.owners.remove(key);
            }
        }
        Some(batch)
    }

    /// Who has claimed a request, and when.
    pub(super) fn owner(&self, key: ClaimedKey) -> Option<(WorkerId, i64)> {
        let number = self.owners.get(&key)?;
        let batch = self.batches.get(number)?;
        Some((number.worker(), batch.at))
    }

    /// Takes what others had claimed that are gone: nobody counts it any more.
    pub(super) fn take(
        &mut self,
        connection: &Connection,
        keys: &HashSet<ClaimedKey>,
    ) -> rusqlite::Result<()> {
        let owners = keys.iter().filter_map(|key| self.owners.get(key));
        for number in owners.copied().collect::<HashSet<_>>() {
            claim_rows::remove_batch(connection, number)?;
            let Some(mut rest) = self.forget(number) else {
                continue;
            };
            rest.keys.retain(|key| !keys.contains(key));
            self.leave(connection, number.worker(), rest)?;
        }
        Ok(())
    }

    /// Leaves requests to the next run that asks about them: they may have been billed.
    pub(super) fn leave_to_next(
        &mut self,
        connection: &Connection,
        batch: Batch,
    ) -> rusqlite::Result<()> {
        self.leave(connection, NOBODY, batch)
    }

    fn leave(
        &mut self,
        connection: &Connection,
        worker: WorkerId,
        batch: Batch,
    ) -> rusqlite::Result<()> {
        if !batch.keys.is_empty() {
            let number = claim_rows::add_abandoned(connection, worker, &batch)?;
            self.note(number, batch);
        }
        Ok(())
    }

    /// Nothing of what was written in this transaction is there.
    pub(super) fn rolled_back(&mut self) {
        self.version = None;
    }
}
