//! The ledger's thread: it alone writes, one group after the other, and renews the lease of the run's claims.
//!
//! A failed write is never retried: after one, what the system says about the disk cannot be trusted. Only that there is no
//! space can be; what the store makes of that is its own.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::group_commit::Receiver;
use super::key::RequestKey;
use super::known_limit::KnownLimit;
use super::lease::{Lease, WorkerNumber};
use super::sqlite::errors::cannot_keep;
use super::store::{ClaimResult, Record, RunEnd, Store, Work};
use crate::base::error::{Error, Result};

/// What waits for the ledger's thread.
pub(super) enum Pending {
    /// A record that is to be durable, and the call that waits for it.
    Record {
        record: Record,
        done: oneshot::Sender<Result<()>>,
    },
    /// Requests to be claimed.
    Claims {
        requests: Vec<RequestKey>,
        done: oneshot::Sender<Result<Claimed>>,
    },
    /// A claim that ends without a record.
    Release(RequestKey),
    /// One that ends although its call may have been billed.
    Abandon(RequestKey),
}

/// What claims led to.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// Whose those are that are ours.
    pub(crate) worker: WorkerNumber,
    /// One for each request, in their order.
    pub(crate) results: Vec<ClaimResult>,
}

/// What the thread gets besides answers and claims.
#[derive(Default)]
pub(super) struct Notes {
    /// How many calls the run has made since it was started.
    pub(super) calls: AtomicU64,
    new: Mutex<NewNotes>,
}

/// Notes that the thread has not taken yet.
#[derive(Default)]
pub(super) struct NewNotes {
    pub(super) limit: Option<KnownLimit>,
    pub(super) end: RunEnd,
    /// The other way: why the run must stop, although what it stores is still kept.
    pub(super) given_up: Option<Error>,
}

impl Notes {
    pub(super) fn lock(&self) -> MutexGuard<'_, NewNotes> {
        // A panic elsewhere cannot leave them half written.
        self.new.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread.
pub(super) struct WriteThread {
    pub(super) store: Box<dyn Store>,
    /// The ledger's path, for messages.
    pub(super) path: PathBuf,
    pub(super) notes: Arc<Notes>,
    pub(super) lease: Arc<Lease>,
}

/// The thread's side of its end. It gives a word when the writer is gone and everything is durable, and records how the run has
/// ended once it gets one: all files are written. Closed when its store is.
pub(super) type ThreadEnd = (mpsc::Sender<()>, mpsc::Receiver<()>);

/// The run's side of the end of the thread.
pub(super) struct EndingThread {
    settled: mpsc::Receiver<()>,
    files_are_written: mpsc::Sender<()>,
}

/// Both sides of the end of a thread.
pub(super) fn thread_end() -> (ThreadEnd, EndingThread) {
    let (settle, settled) = mpsc::channel();
    let (files_are_written, written) = mpsc::channel();
    let run = EndingThread {
        settled,
        files_are_written,
    };
    ((settle, written), run)
}

impl EndingThread {
    /// Waits until the writer is gone and everything is durable; whether that took no longer than this, on a disk that may
    /// hang.
    pub(super) fn settle(&self, patience: Duration) -> bool {
        self.settled.recv_timeout(patience) != Err(RecvTimeoutError::Timeout)
    }

    /// Has the thread record how the run has ended, and waits for it for this long.
    pub(super) fn end(self, patience: Duration) {
        // If the thread is gone, so is its store.
        let _ = self.files_are_written.send(());
        // As much as can be waited for.
        let _ = self.settled.recv_timeout(patience);
    }
}

/// A group that was received, by what is done with it.
#[derive(Default)]
struct ReceivedGroup {
    records: Vec<Record>,
    recorded: Vec<oneshot::Sender<Result<()>>>,
    releases: Vec<RequestKey>,
    abandoned: Vec<RequestKey>,
    claims: Vec<RequestKey>,
    /// How many of the claims belong together, and who waits for them.
    claimed: Vec<(usize, oneshot::Sender<Result<Claimed>>)>,
}

impl ReceivedGroup {
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
                Pending::Abandon(key) => group.abandoned.push(key),
            }
        }
        group
    }

    fn work(&self, calls: u64) -> Work<'_> {
        Work {
            records: &self.records,
            releases: &self.releases,
            abandoned: &self.abandoned,
            claims: &self.claims,
            calls,
        }
    }

    /// Tells all who wait what has become of its records and of its claims. A call that was given up meanwhile does not hear of
    /// it; its record is stored all the same.
    fn tell(
        self,
        claimed: (WorkerNumber, Vec<ClaimResult>),
        of_records: impl Fn() -> Result<()>,
        of_claims: impl Fn() -> Result<()>,
    ) {
        for done in self.recorded {
            let _ = done.send(of_records());
        }
        let (worker, results) = claimed;
        let mut results = results.into_iter();
        for (requests, done) in self.claimed {
            let results = results.by_ref().take(requests).collect();
            let _ = done.send(of_claims().map(|()| Claimed { worker, results }));
        }
    }
}

impl WriteThread {
    /// Writes groups until the writer is gone. Once the run has written all its files, and only then, it is recorded how it has
    /// ended.
    pub(super) fn run(mut self, pending: &Receiver<Pending>, (settled, written): &ThreadEnd) {
        let (mut renew_at, mut broken) = (0, None);
        loop {
            let wait = u64::try_from(renew_at - self.lease.now()).unwrap_or_default();
            let patience = broken.is_none().then_some(Duration::from_millis(wait));
            let Some(received) = pending.next(patience) else {
                break;
            };
            // Before what has come: it needs a lease.
            if broken.is_none() {
                broken = self.renew(&mut renew_at).err();
            }
            if !received.is_empty() {
                broken = self.handle(ReceivedGroup::of(received), broken);
            }
        }
        // What a disk says after a failure cannot be trusted.
        let works = broken.is_none();
        let run_end = self.notes.lock().end;
        if works {
            self.pass_on_limit();
            self.store.leave(self.calls());
        }
        // Nobody waits any more when the run was given up.
        let _ = settled.send(());
        // Nothing comes from a run that panics.
        if written.recv().is_ok() && works {
            self.store.end(run_end);
        }
    }

    /// Renews the lease, when that is due.
    fn renew(&mut self, renew_at: &mut i64) -> io::Result<()> {
        // Read before the store is asked: the lease may count from then.
        let asked = self.lease.now();
        if asked < *renew_at {
            return Ok(());
        }
        let renewal = self
            .store
            .renew(self.calls())
            .inspect_err(|_| self.lease.lost())?;
        *renew_at = Lease::next_renewal(asked);
        self.lease.renewed(asked, renewal);
        Ok(())
    }

    /// Writes a group, unless an earlier write has failed; returns why one has.
    fn handle(&mut self, group: ReceivedGroup, broken: Option<io::Error>) -> Option<io::Error> {
        let written = if let Some(error) = broken {
            Err(error)
        } else {
            self.pass_on_limit();
            self.store.write(group.work(self.calls()))
        };
        match written {
            Ok(results) => {
                if let Some(error) = self.store.given_up() {
                    self.notes.lock().given_up = Some(error);
                    self.lease.lost();
                }
                let must_stop = || self.store.given_up().map_or(Ok(()), Err);
                group.tell((self.lease.worker(), results), || Ok(()), must_stop);
                None
            }
            Err(error) => {
                let failed = || Err(cannot_keep(&self.path, &error));
                group.tell((self.lease.worker(), Vec::new()), failed, failed);
                self.lease.lost();
                Some(error)
            }
        }
    }

    fn calls(&self) -> u64 {
        self.notes.calls.load(Ordering::Relaxed)
    }

    /// Passes a new limit on to the store.
    fn pass_on_limit(&mut self) {
        let limit = self.notes.lock().limit.take();
        if let Some(limit) = limit {
            self.store.set_limit(limit);
        }
    }
}
