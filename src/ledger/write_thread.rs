//! The ledger's thread: it alone writes, one group after the other, and renews the lease of a ledger that runs share.
//!
//! A failed write is never retried: after one, what the system says about the disk cannot be trusted.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::db::errors;
use super::group_commit::Receiver;
use super::known_limit::KnownLimit;
use super::lease::{Lease, WorkerNumber};
use super::request_key::RequestKey;
#[cfg(feature = "postgres")]
use super::store::Renewal;
use super::store::{
    AnswerCounts, ClaimRequest, ClaimResult, Contact, FinishedRun, Payload, Record, Store, Work,
};
use crate::base::error::Result;

/// How long after a store was found not to answer it is asked again.
#[cfg(feature = "postgres")]
const TRIED_AGAIN: Duration = Duration::from_millis(500);

/// What waits for the ledger's thread.
pub(super) enum Pending {
    /// A record that is to be durable, and the call that waits for it.
    Record {
        record: Record,
        done: oneshot::Sender<Result<Payload>>,
    },
    /// Requests to be claimed.
    Claims {
        requests: Vec<ClaimRequest>,
        done: oneshot::Sender<Result<Claimed>>,
    },
    /// A claim that ends without a record.
    Release(RequestKey),
}

/// What claims led to.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// Whose those are that are ours.
    pub(crate) worker: WorkerNumber,
    /// One for each request, in their order.
    pub(crate) results: Vec<ClaimResult>,
    /// Whether the store does not answer.
    pub(crate) away: bool,
}

/// What the thread gets besides answers and claims.
#[derive(Default)]
pub(super) struct Notes(Mutex<NewNotes>);

/// Notes that the thread has not taken yet.
#[derive(Default)]
pub(super) struct NewNotes {
    pub(super) limit: Option<KnownLimit>,
    pub(super) failing: Vec<RequestKey>,
    pub(super) finished: Option<FinishedRun>,
}

impl Notes {
    pub(super) fn lock(&self) -> MutexGuard<'_, NewNotes> {
        // A panic elsewhere cannot leave them half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread.
pub(super) struct WriteThread<S> {
    pub(super) store: S,
    /// The ledger's path, for messages.
    pub(super) path: PathBuf,
    pub(super) notes: Arc<Notes>,
    /// The lease; `None` where no other run writes to the ledger.
    pub(super) lease: Option<Arc<Lease>>,
}

/// A group that was received, by what is done with it.
#[derive(Default)]
struct Group {
    records: Vec<Record>,
    recorded: Vec<oneshot::Sender<Result<Payload>>>,
    releases: Vec<RequestKey>,
    claims: Vec<ClaimRequest>,
    /// How many of the claims belong together, and who waits for them.
    claimed: Vec<(usize, oneshot::Sender<Result<Claimed>>)>,
}

impl Group {
    fn of(pending: Vec<Pending>) -> Self {
        let mut group = Self {
            records: Vec::with_capacity(pending.len()),
            recorded: Vec::with_capacity(pending.len()),
            ..Self::default()
        };
        for pending in pending {
            match pending {
                Pending::Record { record, done } => {
                    group.records.push(record);
                    group.recorded.push(done);
                }
                Pending::Claims { requests, done } => {
                    group.claimed.push((requests.len(), done));
                    group.claims.extend(requests);
                }
                Pending::Release(key) => group.releases.push(key),
            }
        }
        group
    }

    fn work(&self) -> Work<'_> {
        Work {
            records: &self.records,
            releases: &self.releases,
            claims: &self.claims,
        }
    }

    /// Tells all who wait what has become of it. Those who were given up meanwhile miss it; it is done all the same.
    /// Claims learn whether the store answers.
    fn done(self, worker: WorkerNumber, results: Vec<ClaimResult>, contact: impl Fn() -> Contact) {
        for (record, done) in self.records.into_iter().zip(self.recorded) {
            let _ = done.send(Ok(record.payload));
        }
        let mut results = results.into_iter();
        for (requests, done) in self.claimed {
            let results = results.by_ref().take(requests).collect();
            let claimed = |away| Claimed {
                worker,
                results,
                away,
            };
            let _ = done.send(match contact() {
                Contact::There => Ok(claimed(false)),
                #[cfg(feature = "postgres")]
                Contact::Away => Ok(claimed(true)),
                #[cfg(feature = "postgres")]
                Contact::GivenUp(error) => Err(error),
            });
        }
    }

    /// Tells all who wait that nothing has become of it.
    fn failed(self, error: impl Fn() -> crate::base::error::Error) {
        for done in self.recorded {
            let _ = done.send(Err(error()));
        }
        for (_, done) in self.claimed {
            let _ = done.send(Err(error()));
        }
    }
}

impl<S: Store> WriteThread<S> {
    /// Writes groups until the writer is gone, and returns how many answers there are then.
    pub(super) fn run(mut self, pending: &Receiver<Pending>) -> Option<AnswerCounts> {
        let mut renew_at = Duration::ZERO;
        let mut broken = None;
        loop {
            let lease = self.lease.clone().filter(|_| broken.is_none());
            let patience = { lease.as_ref() }.map(|it| renew_at.saturating_sub(it.now()));
            let Some(received) = pending.next(patience) else {
                break;
            };
            // Before what has come: it may need a lease.
            if let Some(lease) = lease {
                broken = self.renew(&lease, &mut renew_at).err();
            }
            if received.is_empty() {
                continue;
            }
            broken = self.handle(Group::of(received), broken);
        }
        // What a disk says after a failure cannot be trusted.
        if broken.is_none() {
            self.pass_on_notes();
            let finished = self.notes.lock().finished;
            self.store.end(finished);
        }
        self.store.count()
    }

    /// Renews the lease, when that is due.
    fn renew(&mut self, lease: &Lease, renew_at: &mut Duration) -> io::Result<()> {
        // Read before the store is asked: the lease may count from then.
        let asked = lease.now();
        if asked < *renew_at {
            return Ok(());
        }
        let renewal = self.store.renew().inspect_err(|_| lease.lost())?;
        #[cfg(feature = "postgres")]
        if renewal == Renewal::Away {
            self.suspend(lease);
            *renew_at = lease.now() + TRIED_AGAIN;
            return Ok(());
        }
        lease.renewed(asked, renewal);
        *renew_at = lease.next_renewal(asked);
        Ok(())
    }

    /// The store does not answer: no call may start, and what waits for the lease learns when it was given up.
    #[cfg(feature = "postgres")]
    fn suspend(&self, lease: &Lease) {
        match self.store.contact() {
            Contact::There => {}
            Contact::Away => lease.suspend(),
            Contact::GivenUp(_) => lease.lost(),
        }
    }

    /// Writes a group, unless an earlier write has failed; returns why one has.
    fn handle(&mut self, group: Group, broken: Option<io::Error>) -> Option<io::Error> {
        let written = if let Some(error) = broken {
            Err(error)
        } else {
            self.pass_on_notes();
            self.store.write(group.work())
        };
        match written {
            Ok(results) => {
                let worker = { self.lease.as_ref() }.map_or(WorkerNumber::NONE, |it| it.worker());
                #[cfg(feature = "postgres")]
                if let Some(lease) = &self.lease {
                    self.suspend(lease);
                }
                group.done(worker, results, || self.store.contact());
                None
            }
            Err(error) => {
                group.failed(|| errors::cannot_keep(&self.path, &error));
                if let Some(lease) = &self.lease {
                    lease.lost();
                }
                Some(error)
            }
        }
    }

    /// Passes new notes on to the store. How the run finished stays a note until the end: claims may still be given back.
    fn pass_on_notes(&mut self) {
        let (limit, failing) = {
            let mut notes = self.notes.lock();
            (notes.limit.take(), std::mem::take(&mut notes.failing))
        };
        if let Some(limit) = limit {
            self.store.set_limit(limit);
        }
        if !failing.is_empty() {
            self.store.add_failing(failing);
        }
    }
}
