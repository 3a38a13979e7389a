//! Claiming requests for the worker of this process, beside those of other processes on the same machine.
//!
//! All is done within transactions that write, so nobody else claims meanwhile. A worker is gone if nobody holds its lock,
//! or if its lease has ended: a process that was stopped holds its lock for ever.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use super::claim_rows::{self, ClaimedKey};
use super::other_claims::OtherClaims;
use super::own_claims::OwnClaims;
use super::request_reader::RequestReader;
use crate::ledger::clock::millis;
use crate::ledger::request_key::RequestKey;
use crate::ledger::store::{ClaimRequest, ClaimResult, LeaseRenewal, Payload, Record, Work};
use crate::ledger::worker_lock::{self, WorkerId, WorkerLock};

/// How long what a worker that is gone had claimed is known as perhaps billed, in milliseconds: a day.
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
        self.remove_dead(connection, now)?;
        claim_rows::add_worker(connection, worker, alive_until)?;
        let before = self.own.replace((OwnClaims::new(worker), lock));
        // Nothing of it is left.
        self.dead.extend(before.map(|(_, lock)| lock));
        Ok(LeaseRenewal::NewWorker)
    }

    /// Removes all workers whose locks are free.
    fn remove_dead(&mut self, connection: &Connection, now: i64) -> Result<(), ClaimError> {
        for worker in worker_lock::all(&self.ledger)? {
            if let Some(lock) = WorkerLock::of_dead(&self.ledger, worker) {
                self.others.abandon(connection, worker, now)?;
                self.dead.push(lock);
            }
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
        let is_answer = |record: &&Record| matches!(record.payload, Payload::Answer(_));
        let Some((own, _)) = &mut self.own else {
            return Ok(());
        };
        let answers = records.iter().filter(is_answer);
        own.settle(connection, answers.map(|it| ClaimedKey::from(&it.key)))?;
        // Only this run knows of its failures: others may ask.
        let failures = records.iter().filter(|it| !is_answer(it));
        let failures: Vec<_> = failures.map(|it| ClaimedKey::from(&it.key)).collect();
        if !failures.is_empty() {
            self.reader.expect_failures();
        }
        own.release(connection, failures.into_iter())
    }

    /// Ends claims without a record.
    fn release(&mut self, connection: &Connection, keys: &[RequestKey]) -> rusqlite::Result<()> {
        match &mut self.own {
            Some((own, _)) => own.release(connection, keys.iter().map(ClaimedKey::from)),
            None => Ok(()),
        }
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
        for request in requests {
            let result = self.claim_one(connection, request, &mut checked)?;
            if matches!(result, ClaimResult::Ours { .. }) {
                new.push(ClaimedKey::from(&request.key));
            }
            results.push(result);
        }
        self.reader.answers.leave();
        if let Some((own, _)) = &mut self.own {
            let mut seen = HashSet::new();
            new.retain(|key| !own.has(*key) && seen.insert(*key));
            own.add(connection, &new)?;
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
        let key = ClaimedKey::from(key);
        if let Some(owner) = self.others.owner(key) {
            if !self.is_dead(connection, owner, checked)? {
                return Ok(ClaimResult::Taken);
            }
            let now = millis(SystemTime::now());
            self.others.abandon(connection, owner, now)?;
        }
        let taken_over = self.others.was_abandoned(key);
        Ok(ClaimResult::Ours { taken_over })
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
    }

    /// Removes the worker of this process, with all that it has claimed.
    pub(super) fn end(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let Some((own, lock)) = self.own.take() else {
            return Ok(());
        };
        self.dead.push(lock);
        claim_rows::remove_worker(connection, own.worker)
    }
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
