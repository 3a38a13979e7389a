//! What this process has claimed, in memory and in its rows.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::claim_rows::{self, Batch, BatchNumber, ClaimedKey};
use crate::ledger::worker_lock::WorkerId;

/// The claims of one worker.
pub(super) struct OwnClaims {
    pub(super) worker: WorkerId,
    /// The number of the next batch.
    next: u32,
    /// Each claim with its batch.
    batches: HashMap<ClaimedKey, BatchNumber>,
    /// Each batch with its time, and how many claims it still has.
    left: HashMap<BatchNumber, (i64, usize)>,
    /// Those that were another worker's.
    taken_over: HashSet<ClaimedKey>,
}

impl OwnClaims {
    /// None yet.
    pub(super) fn new(worker: WorkerId) -> Self {
        Self {
            worker,
            next: 0,
            batches: HashMap::new(),
            left: HashMap::new(),
            taken_over: HashSet::new(),
        }
    }

    /// Makes the claims of the worker that this process was before its own, as far as nobody has taken them over.
    pub(super) fn keep(&mut self, connection: &Connection, before: &Self) -> rusqlite::Result<()> {
        for number in claim_rows::batches(connection)? {
            if number.worker() == before.worker {
                let mut batch = claim_rows::read_batch(connection, number)?;
                claim_rows::remove_batch(connection, number)?;
                batch.keys.retain(|key| before.has(*key));
                self.add(connection, &batch)?;
            }
        }
        self.taken_over.clone_from(&before.taken_over);
        Ok(())
    }

    /// Whether a request is claimed.
    pub(super) fn has(&self, key: ClaimedKey) -> bool {
        self.batches.contains_key(&key)
    }

    /// Adds claims, all different, as one batch.
    pub(super) fn add(&mut self, connection: &Connection, batch: &Batch) -> rusqlite::Result<()> {
        if batch.keys.is_empty() {
            return Ok(());
        }
        let number = BatchNumber::new(self.worker, self.next);
        self.next = self.next.wrapping_add(1);
        claim_rows::add_batch(connection, number, batch)?;
        self.batches
            .extend(batch.keys.iter().map(|key| (*key, number)));
        self.left.insert(number, (batch.at, batch.keys.len()));
        Ok(())
    }

    /// Notes claims that were another worker's, which may have called for them.
    pub(super) fn were_taken_over(&mut self, keys: impl IntoIterator<Item = ClaimedKey>) {
        self.taken_over.extend(keys);
    }

    /// These are answered, or need no other call, and their claims end with the worker.
    pub(super) fn have_ended(&mut self, keys: impl IntoIterator<Item = ClaimedKey>) {
        for key in keys {
            self.taken_over.remove(&key);
        }
    }

    /// What the next worker is to count if it calls for it: claims that were another worker's and that no call was made for.
    pub(super) fn to_count(&self) -> Vec<ClaimedKey> {
        let taken_over = self.taken_over.iter().copied();
        taken_over.filter(|key| self.has(*key)).collect()
    }

    /// Ends claims of requests whose answers are stored: a look-up finds those first, so a batch stays as it is until
    /// it has none left.
    pub(super) fn settle(
        &mut self,
        connection: &Connection,
        keys: impl Iterator<Item = ClaimedKey>,
    ) -> rusqlite::Result<()> {
        for key in keys {
            if let Some((batch, _)) = self.end(key).filter(|(_, left)| *left == 0) {
                claim_rows::remove_batch(connection, batch)?;
            }
        }
        Ok(())
    }

    /// Ends claims of requests that others may ask from now on.
    pub(super) fn release(
        &mut self,
        connection: &Connection,
        keys: impl Iterator<Item = ClaimedKey>,
    ) -> rusqlite::Result<()> {
        for key in keys {
            let Some((batch, _)) = self.end(key) else {
                continue;
            };
            claim_rows::remove_batch(connection, batch)?;
            if let Some((at, _)) = self.left.remove(&batch) {
                let keys = { self.batches.iter() }
                    .filter_map(|(key, of)| (*of == batch).then_some(*key))
                    .collect();
                self.add(connection, &Batch { at, keys })?;
            }
        }
        Ok(())
    }

    /// Ends a claim; returns its batch, and how many are left in it.
    fn end(&mut self, key: ClaimedKey) -> Option<(BatchNumber, usize)> {
        self.taken_over.remove(&key);
        let batch = self.batches.remove(&key)?;
        let (_, left) = self.left.get_mut(&batch)?;
        *left -= 1;
        let left = *left;
        if left == 0 {
            self.left.remove(&batch);
        }
        Some((batch, left))
    }
}
