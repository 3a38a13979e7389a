//! What this process has claimed, in memory and in its rows.

use std::collections::HashMap;

use rusqlite::Connection;

use super::claim_rows::{self, BatchNumber, ClaimedKey};
use crate::ledger::worker_lock::WorkerId;

/// The claims of one worker.
pub(super) struct OwnClaims {
    pub(super) worker: WorkerId,
    /// The number of the next batch.
    next: u32,
    /// Each claim with its batch.
    batches: HashMap<ClaimedKey, BatchNumber>,
    /// How many claims each batch still has.
    left: HashMap<BatchNumber, usize>,
}

impl OwnClaims {
    /// None yet.
    pub(super) fn new(worker: WorkerId) -> Self {
        Self {
            worker,
            next: 0,
            batches: HashMap::new(),
            left: HashMap::new(),
        }
    }

    /// Whether a request is claimed.
    pub(super) fn has(&self, key: ClaimedKey) -> bool {
        self.batches.contains_key(&key)
    }

    /// Adds claims, all different, as one batch.
    pub(super) fn add(
        &mut self,
        connection: &Connection,
        keys: &[ClaimedKey],
    ) -> rusqlite::Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let batch = BatchNumber::new(self.worker, self.next);
        self.next = self.next.wrapping_add(1);
        claim_rows::add_batch(connection, batch, keys)?;
        self.batches.extend(keys.iter().map(|key| (*key, batch)));
        self.left.insert(batch, keys.len());
        Ok(())
    }

    /// Ends claims of requests whose answers are stored: a look-up finds those first, so a batch stays as it is until
    /// it has none left.
    pub(super) fn settle(
        &mut self,
        connection: &Connection,
        keys: impl Iterator<Item = ClaimedKey>,
    ) -> rusqlite::Result<()> {
        for key in keys {
            if let Some(batch) = self.end(key) {
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
            let Some(batch) = self.batches.get(&key).copied() else {
                continue;
            };
            self.end(key);
            claim_rows::remove_batch(connection, batch)?;
            if self.left.remove(&batch).is_some() {
                let rest: Vec<_> = { self.batches.iter() }
                    .filter_map(|(key, of)| (*of == batch).then_some(*key))
                    .collect();
                self.add(connection, &rest)?;
            }
        }
        Ok(())
    }

    /// Ends a claim; returns its batch if that was the last one in it.
    fn end(&mut self, key: ClaimedKey) -> Option<BatchNumber> {
        let batch = self.batches.remove(&key)?;
        let left = self.left.get_mut(&batch)?;
        *left -= 1;
        if *left > 0 {
            return None;
        }
        self.left.remove(&batch);
        Some(batch)
    }
}
