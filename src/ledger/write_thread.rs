//! The ledger's thread: it alone writes, one group after the other, and renews the lease of a ledger that runs share.
//!
//! A failed write is never retried: after one, what the system says about the disk cannot be trusted. Only that there is no
//! space can be; what the store makes of that is its own.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::db::errors;
use super::group_commit::Receiver;
use super::known_limit::KnownLimit;
use super::lease::{Lease, WorkerNumber};
use super::request_key::RequestKey;
use super::store::{AnswerCounts, ClaimRequest, ClaimResult, Payload, Record, RunEnd, Store, Work};
use crate::base::error::{Error, Result};

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
}

/// What the thread gets besides answers and claims.
#[derive(Default)]
pub(super) struct Notes(Mutex<NewNotes>);

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

/// The thread's side of its end.
pub(super) struct ThreadEnd {
    /// Gets the number of answers when the writer is gone and everything is durable. Closed when the store is.
    pub(super) counts: mpsc::Sender<Option<AnswerCounts>>,
    /// How the run has ended is recorded once something comes from here.
    pub(super) files_are_written: mpsc::Receiver<()>,
}

/// The run's side of the end of the thread.
pub(super) struct EndingThread {
    counts: mpsc::Receiver<Option<AnswerCounts>>,
    files_are_written: mpsc::Sender<()>,
}

/// Both sides of the end of a thread.
pub(super) fn thread_end() -> (ThreadEnd, EndingThread) {
    let (counts, counted) = mpsc::channel();
    let (written, files_are_written) = mpsc::channel();
    let thread = ThreadEnd {
        counts,
        files_are_written,
    };
    let run = EndingThread {
        counts: counted,
        files_are_written: written,
    };
    (thread, run)
}

impl EndingThread {
    /// The number of answers, once the writer is gone and everything is durable.
    ///
    /// # Errors
    /// That takes longer than this, on a disk that may hang.
    pub(super) fn counts(
        &self,
        patience: Duration,
    ) -> Result<Option<AnswerCounts>, RecvTimeoutError> {
        self.counts.recv_timeout(patience)
    }

    /// Ends the thread; with `records`, it records how the run has ended. Returns whether the store was closed within this
    /// time.
    pub(super) fn end(self, records: bool, patience: Duration) -> bool {
        let Self {
            counts,
            files_are_written,
        } = self;
        if records {
            // If the thread is gone, so is its store.
            let _ = files_are_written.send(());
        }
        drop(files_are_written);
        counts.recv_timeout(patience) != Err(RecvTimeoutError::Timeout)
    }
}

/// A group that was received, by what is done with it.
#[derive(Default)]
struct ReceivedGroup {
    records: Vec<Record>,
    recorded: Vec<oneshot::Sender<Result<Payload>>>,
    releases: Vec<RequestKey>,
    claims: Vec<ClaimRequest>,
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

    /// Tells all callers that wait what has become of it. A caller that was given up meanwhile does not hear of it; its
    /// record is stored all the same. Claims learn whether the store was given up.
    fn done(
        self,
        worker: WorkerNumber,
        results: Vec<ClaimResult>,
        given_up: impl Fn() -> Option<Error>,
    ) {
        for (record, done) in self.records.into_iter().zip(self.recorded) {
            let _ = done.send(Ok(record.payload));
        }
        let mut results = results.into_iter();
        for (requests, done) in self.claimed {
            let results = results.by_ref().take(requests).collect();
            let _ = done.send(given_up().map_or(Ok(Claimed { worker, results }), Err));
        }
    }

    /// Tells all who wait that nothing has become of it.
    fn failed(self, error: impl Fn() -> Error) {
        for done in self.recorded {
            let _ = done.send(Err(error()));
        }
        for (_, done) in self.claimed {
            let _ = done.send(Err(error()));
        }
    }
}

impl<S: Store> WriteThread<S> {
    /// Writes groups until the writer is gone, and counts the answers. Once the run has written all its files, and only then,
    /// it is recorded how it has ended.
    pub(super) fn run(mut self, pending: &Receiver<Pending>, end: &ThreadEnd) {
        let mut renewal_due = Duration::ZERO;
        let mut broken = None;
        loop {
            let lease = self.lease.clone().filter(|_| broken.is_none());
            let patience = { lease.as_ref() }.map(|it| renewal_due.saturating_sub(it.now()));
            let Some(received) = pending.next(patience) else {
                break;
            };
            // Before what has come: it may need a lease.
            if let Some(lease) = lease {
                broken = self.renew(&lease, &mut renewal_due).err();
            }
            if received.is_empty() {
                continue;
            }
            broken = self.handle(ReceivedGroup::of(received), broken);
        }
        // What a disk says after a failure cannot be trusted.
        let works = broken.is_none();
        let run_end = self.notes.lock().end;
        if works {
            self.pass_on_notes();
            self.store.leave(run_end);
        }
        // Nobody waits any more when the run was given up.
        let _ = end.counts.send(self.store.count());
        // Nothing comes from a run that panics, or that removes the ledger.
        if end.files_are_written.recv().is_ok() && works {
            self.store.end(run_end);
        }
    }

    /// Renews the lease if that is due, and says when it is due again.
    fn renew(&mut self, lease: &Lease, due: &mut Duration) -> io::Result<()> {
        // Read before the store is asked: the lease may count from then.
        let asked = lease.now();
        if asked < *due {
            return Ok(());
        }
        let renewal = self.store.renew().inspect_err(|_| lease.lost())?;
        *due = lease.next_renewal(asked);
        lease.renewed(asked, renewal);
        Ok(())
    }

    /// Where the store was given up, the run learns that it must stop.
    fn check_given_up(&self) {
        let Some(error) = self.store.given_up() else {
            return;
        };
        self.notes.lock().given_up = Some(error);
        if let Some(lease) = &self.lease {
            lease.lost();
        }
    }

    /// Writes a group, unless an earlier write has failed; returns why one has.
    fn handle(&mut self, group: ReceivedGroup, broken: Option<io::Error>) -> Option<io::Error> {
        let written = if let Some(error) = broken {
            Err(error)
        } else {
            self.pass_on_notes();
            self.store.write(group.work())
        };
        match written {
            Ok(results) => {
                let worker = { self.lease.as_ref() }.map_or(WorkerNumber::NONE, |it| it.worker());
                self.check_given_up();
                group.done(worker, results, || self.store.given_up());
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

    /// Passes new notes on to the store. How the run ended stays a note until the end: claims may still be given back.
    fn pass_on_notes(&mut self) {
        let limit = self.notes.lock().limit.take();
        if let Some(limit) = limit {
            self.store.set_limit(limit);
        }
    }
}
