//! Removing the answers about some users, or about everybody.

use std::path::Path;

use super::eraser::{CleanupResult, Eraser};
use super::prune::remove_before;
use crate::base::error::{Error, Result};
use crate::ledger::db::{answer_removal, claim_rows, contexts, failures};
use crate::ledger::request_key::{KeyHash, RequestHasher};
use crate::ledger::worker_lock;

/// Requests whose answers are removed in one transaction: they are all over the file.
const SCATTERED: usize = 512;

/// A ledger that answers about users are removed from.
pub(crate) struct Forget {
    eraser: Eraser,
    /// For each address and service ID that was ever asked.
    hashers: Vec<RequestHasher>,
    /// Requests that the index knows.
    answered: Vec<KeyHash>,
    /// Requests that failed.
    failed: Vec<KeyHash>,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ForgetCounts {
    /// Answers.
    pub(crate) answers: u64,
    /// Requests that the service had failed on.
    pub(crate) failed: u64,
}

impl Forget {
    /// Opens an existing ledger.
    ///
    /// # Errors
    /// As [`Eraser::open`].
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let eraser = Eraser::open(path)?;
        let hashers = eraser.read(contexts::hashers)?;
        eraser.complete_index()?;
        Ok(Self {
            eraser,
            hashers,
            answered: Vec::new(),
            failed: Vec::new(),
        })
    }

    /// Marks every answer to one of these bodies, whichever address and service ID was asked, and of all rows: how many
    /// there are.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn mark<'a>(
        &mut self,
        bodies: &(impl Iterator<Item = &'a [u8]> + Clone),
    ) -> Result<u64> {
        let Self {
            eraser,
            hashers,
            answered,
            failed,
        } = self;
        eraser.read(|connection, checksums| {
            // One state of the ledger for all lookups, which costs less for each.
            let reading = connection.unchecked_transaction()?;
            let mut all = 0;
            for hasher in hashers {
                for body in bodies.clone() {
                    let hash = hasher.key(body).hash;
                    let count = answer_removal::count_to(&reading, checksums, &hash)?;
                    all += count.unwrap_or_default();
                    // Also where there are only entries: an answer that was replaced or pruned may have left one.
                    answered.extend(count.map(|_| hash));
                    let has_failed = failures::any_to(&reading, &hash)?;
                    failed.extend(has_failed.then_some(hash));
                }
            }
            Ok(all)
        })
    }

    /// Removes what was marked.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(crate) fn remove_marked(&mut self) -> Result<ForgetCounts> {
        let (answered, failed) = (sorted(&mut self.answered), sorted(&mut self.failed));
        let mut removed = 0;
        for hashes in answered.chunks(SCATTERED) {
            removed += self.eraser.remove_piece(|connection, checksums| {
                hashes.iter().try_fold(0, |sum, hash| {
                    Ok(sum + answer_removal::remove_to(connection, checksums, hash)?)
                })
            })?;
        }
        for hashes in failed.chunks(SCATTERED) {
            self.eraser.remove_piece(|connection, _| {
                hashes.iter().try_fold(0, |sum, hash| {
                    Ok(sum + failures::remove_to(connection, hash)?)
                })
            })?;
        }
        Ok(ForgetCounts {
            answers: removed,
            failed: u64::try_from(failed.len()).unwrap_or(u64::MAX),
        })
    }

    /// Removes every answer.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(crate) fn remove_all(&self) -> Result<ForgetCounts> {
        Ok(ForgetCounts {
            answers: remove_before(&self.eraser, i64::MAX)?,
            failed: 0,
        })
    }

    /// Rewrites the file, as [`Eraser::finish`]. Also when nothing was removed: an earlier attempt may have left traces.
    ///
    /// # Errors
    /// As [`Eraser::finish`].
    pub(crate) fn finish(self) -> Result<CleanupResult> {
        // A run that was killed is still listed.
        let dead = worker_lock::all_dead(self.eraser.real()).map_err(|error| {
            Error::stopped("cannot tell which runs on the ledger are gone").because(error)
        })?;
        // About whom runs were that are gone cannot be told from what they had claimed.
        self.eraser.remove_piece(|connection, _| {
            for (worker, _) in &dead {
                claim_rows::abandon(connection, *worker)?;
            }
            claim_rows::remove_abandoned(connection, i64::MAX)
        })?;
        for (_, lock) in dead {
            lock.remove();
        }
        self.eraser.finish(true)
    }
}

#[cfg(test)]
impl Forget {
    /// Marks every answer to a request.
    pub(in crate::ledger) fn mark_hash(&mut self, hash: KeyHash) {
        self.answered.push(hash);
    }

    pub(super) const fn eraser(&mut self) -> &mut Eraser {
        &mut self.eraser
    }
}

/// The different ones, in the order that they have in the file.
fn sorted(hashes: &mut Vec<KeyHash>) -> Vec<KeyHash> {
    let mut hashes = std::mem::take(hashes);
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}
