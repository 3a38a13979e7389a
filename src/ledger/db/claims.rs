//! Claiming requests for the worker of this process, beside those of other processes on the same machine.
//!
//! All is done within transactions that write, so nobody else claims meanwhile. A worker is gone if nobody holds its lock,
//! or if its lease has ended: a process that was stopped holds its lock for ever.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use super::claim_rows::{self, Batch, ClaimedKey};
use super::found_answer::AnswerState;
use super::other_claims::OtherClaims;
use super::own_claims::OwnClaims;
use super::request_reader::RequestReader;
use crate::ledger::clock::millis;
use crate::ledger::request_key::RequestKey;
use crate::ledger::store::{ClaimRequest, ClaimResult, LeaseRenewal, Record, Work};
use crate::ledger::worker_lock::{self, WorkerId, WorkerLock};

/// How long it is known what a worker that is gone had claimed, and so may have been billed, in milliseconds: a day.
const KNOWN_FOR: i64 = 24 * 60 * 60 * 1000;

/// The claims of a ledger that runs share.
pub(crate) struct SharedClaims {
    /// The ledger's real path: whatever others call it, they look for locks in the same place.
    ledger: PathBuf,
    /// How long a lease lasts.
    lease: Duration,
    reader: RequestReader,
    own: Option<(OwnClaims, WorkerLock)>,
    others: OtherClaims,
    /// The locks of workers that are removed in this transaction.
    dead: Vec<WorkerLock>,
}

/// Whether workers are gone, each asked once.
#[derive(Default)]
struct Checked(HashMap<WorkerId, bool>);

impl SharedClaims {
    /// Nothing is claimed yet, and there is no worker.
    pub(super) fn new(ledger: PathBuf, lease: Duration, reader: RequestReader) -> Self {
        Self {
            ledger,
            lease,
            reader,
            own: None,
            others: OtherClaims::default(),
            dead: Vec::new(),
        }
    }

    /// Renews the lease of this process's worker. One that has none, or that others have removed, becomes another worker.
    pub(super) fn renew(&mut self, connection: &Connection) -> Result<LeaseRenewal, ClaimError> {
        let now = millis(SystemTime::now());
        let lease = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        let alive_until = now.saturating_add(lease);
        if let Some((own, _)) = &self.own
            && claim_rows::renew_worker(connection, own.worker, alive_until)?
        {
            return Ok(LeaseRenewal::Kept);
        }
        let (worker, lock) = WorkerLock::new(&self.ledger)?;
        self.others.add_own(worker);
        claim_rows::remove_abandoned(connection, now - KNOWN_FOR)?;
        self.others.update(connection)?;
        self.remove_dead(connection)?;
        claim_rows::add_worker(connection, worker, alive_until)?;
        let mut own = OwnClaims::new(worker);
        if let Some((before, _)) = &self.own {
            own.keep(connection, before)?;
        }
        let before = self.own.replace((own, lock));
        // Nothing of it is left.
        self.dead.extend(before.map(|(_, lock)| lock));
        Ok(LeaseRenewal::NewWorker)
    }

    /// Removes all workers whose locks are free.
    fn remove_dead(&mut self, connection: &Connection) -> Result<(), ClaimError> {
        for (worker, lock) in worker_lock::all_dead(&self.ledger)? {
            claim_rows::abandon(connection, worker)?;
            self.dead.push(lock);
        }
        Ok(())
    }

    /// Ends claims and makes new ones, in the transaction that stores the records.
    pub(super) fn handle(
        &mut self,
        connection: &Connection,
        work: Work<'_>,
    ) -> rusqlite::Result<Vec<ClaimResult>> {
        self.settle(connection, work.records)?;
        self.release(connection, work.releases)?;
        if work.claims.is_empty() {
            return Ok(Vec::new());
        }
        self.claim(connection, work.claims)
    }

    /// Ends the claims of requests that have a record now.
    fn settle(&mut self, connection: &Connection, records: &[Record]) -> rusqlite::Result<()> {
        // Only this run knows of its failures. Their claims are released next.
        if !records.iter().all(Record::is_answer) {
            self.reader.expect_failures();
        }
        let Some((own, _)) = &mut self.own else {
            return Ok(());
        };
        let answers = records.iter().filter(|it| it.is_answer());
        own.settle(connection, answers.map(|it| ClaimedKey::from(&it.key)))
    }

    /// Answers are stored in the last space on the disk, and the claims that end are left to [`Self::end`].
    pub(super) fn end_without_space(&mut self, work: &Work<'_>) {
        let Some((own, _)) = &mut self.own else {
            return;
        };
        let answers = work.records.iter().filter(|it| it.is_answer());
        own.have_ended(answers.map(|it| ClaimedKey::from(&it.key)));
        own.have_ended(work.releases.iter().map(ClaimedKey::from));
    }

    /// Ends claims without an answer.
    fn release(
        &mut self,
        connection: &Connection,
        releases: &[RequestKey],
    ) -> rusqlite::Result<()> {
        let Some((own, _)) = &mut self.own else {
            return Ok(());
        };
        own.release(connection, releases.iter().map(ClaimedKey::from))
    }

    /// Looks requests up, and claims those that nothing is known of and that nobody else calls for.
    fn claim(
        &mut self,
        connection: &Connection,
        requests: &[ClaimRequest],
    ) -> rusqlite::Result<Vec<ClaimResult>> {
        let taken = || requests.iter().map(|_| ClaimResult::Taken).collect();
        let Some((own, _)) = &self.own else {
            return Ok(taken());
        };
        let worker = own.worker;
        self.others.update(connection)?;
        // Others have taken it for dead: it must get another lease first.
        if claim_rows::alive_until(connection, worker)?.is_none() {
            return Ok(taken());
        }
        self.reader.answers.join(connection)?;
        let (mut checked, mut new, mut results) = (Checked::default(), Vec::new(), Vec::new());
        let mut taken_over = HashSet::new();
        for request in requests {
            let result = self.claim_one(connection, request, &mut checked)?;
            let key = ClaimedKey::from(&request.key);
            match result {
                ClaimResult::Ours { taken_over: true } => {
                    taken_over.insert(key);
                    new.push(key);
                }
                ClaimResult::Ours { .. } => new.push(key),
                ClaimResult::Known(..) | ClaimResult::Taken => {}
            }
            results.push(result);
        }
        self.reader.answers.leave();
        if let Some((own, _)) = &mut self.own {
            let mut seen = HashSet::new();
            new.retain(|key| !own.has(*key) && seen.insert(*key));
            // From now on only this claim counts.
            self.others.take(connection, &seen)?;
            own.add(connection, &new_batch(new))?;
            own.were_taken_over(taken_over);
        }
        Ok(results)
    }

    /// What one claim leads to. That it is ours is not stored yet.
    fn claim_one(
        &mut self,
        connection: &Connection,
        ClaimRequest { key, body }: &ClaimRequest,
        checked: &mut Checked,
    ) -> rusqlite::Result<ClaimResult> {
        let (found, run) = self.reader.find(connection, key, body)?;
        if found.known.is_some() {
            return Ok(ClaimResult::Known(found, run));
        }
        let Some((owner, at)) = self.others.owner(ClaimedKey::from(key)) else {
            return Ok(ClaimResult::Ours { taken_over: false });
        };
        if !self.is_dead(connection, owner, checked)? {
            return Ok(ClaimResult::Taken);
        }
        claim_rows::abandon(connection, owner)?;
        let is_settled = matches!(self.reader.answers.find(connection, key)?,
            AnswerState::Sound(answered) if answered.answer.at >= at);
        Ok(ClaimResult::Ours {
            taken_over: !is_settled,
        })
    }

    /// Whether a worker is gone.
    fn is_dead(
        &mut self,
        connection: &Connection,
        worker: WorkerId,
        Checked(checked): &mut Checked,
    ) -> rusqlite::Result<bool> {
        if let Some(is_dead) = checked.get(&worker) {
            return Ok(*is_dead);
        }
        let lock = WorkerLock::of_dead(&self.ledger, worker);
        let is_dead = lock.is_some() || {
            let alive_until = claim_rows::alive_until(connection, worker)?;
            alive_until.is_none_or(|until| until < millis(SystemTime::now()))
        };
        self.dead.extend(lock);
        checked.insert(worker, is_dead);
        Ok(is_dead)
    }

    /// What was written in this transaction is there now for others to see.
    pub(super) fn committed(&mut self) {
        self.dead.drain(..).for_each(WorkerLock::remove);
    }

    /// Nothing of what was written in this transaction is there: workers that were removed in it are still to be found gone.
    pub(super) fn rolled_back(&mut self) {
        self.dead.clear();
        self.others.rolled_back();
    }

    /// Removes the worker of this process, with all that it has claimed.
    pub(super) fn end(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let Some((own, lock)) = self.own.take() else {
            return Ok(());
        };
        self.dead.push(lock);
        let left = new_batch(own.to_count());
        claim_rows::remove_worker(connection, own.worker)?;
        self.others.leave_to_next(connection, left)
    }
}

/// A batch of now.
fn new_batch(keys: Vec<ClaimedKey>) -> Batch {
    let at = millis(SystemTime::now());
    Batch { at, keys }
}

/// Why a worker cannot be made, or its lease not renewed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    /// The database.
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    /// The worker's lock.
    #[error(transparent)]
    Lock(#[from] std::io::Error),
}
