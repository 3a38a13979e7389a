//! Paid answers on their way to the disk, in groups: while one group is synced, the next one gathers.
//!
//! A thread of its own writes (`write_thread`), and each answer's call waits until the answer is durable. Requests are claimed
//! the same way before they are called for, so that no two runs pay for one.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use tokio::sync::oneshot;

use super::clock;
use super::group_commit::{Sender, Urgency, queue};
use super::key::RequestKey;
use super::known_limit::KnownLimit;
use super::lease::{Holding, Lease, WorkerNumber};
use super::outcome::Outcome;
use super::store::{Record, RunEnd, Store};
use super::write_thread::{Claimed, EndingThread, Notes, Pending, WriteThread, thread_end};
use crate::base::error::{Error, Result};
use crate::telemetry::pace::Limit;

/// Makes a run's answers durable, and claims requests for it.
pub(crate) struct LedgerWriter {
    /// Answers that arrive now are dated no earlier, in milliseconds since 1970.
    earliest: i64,
    is_kept: bool,
    pending: Sender<Pending>,
    notes: Arc<Notes>,
    lease: Arc<Lease>,
    calls: Cell<u64>,
    /// There is no thread, and everything succeeds at once.
    #[cfg(test)]
    pretends: bool,
}

/// What a writer needs besides its store.
pub(super) struct WriterSettings {
    /// The ledger's path, for messages.
    pub(super) path: PathBuf,
    /// Answers that arrive now are dated no earlier, in milliseconds since 1970.
    pub(super) earliest: i64,
    /// Whether answers outlive the run. Nobody waits for those that do not.
    pub(super) is_kept: bool,
    /// A group of so many records waits no longer.
    pub(super) enough: usize,
}

impl LedgerWriter {
    /// Starts the thread.
    pub(super) fn start(
        store: Box<dyn Store>,
        settings: WriterSettings,
    ) -> Result<(Self, EndingThread)> {
        let WriterSettings {
            path,
            earliest,
            is_kept,
            enough,
        } = settings;
        let (sender, pending) = queue(enough);
        let (end, ending) = thread_end();
        let (notes, lease) = (Arc::<Notes>::default(), Arc::new(Lease::new()));
        let thread = WriteThread {
            store,
            path,
            notes: Arc::clone(&notes),
            lease: Arc::clone(&lease),
        };
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || thread.run(&pending, &end))
            .map_err(|e| Error::stopped("cannot start a thread").because(e))?;
        let writer = Self {
            earliest,
            is_kept,
            pending: sender,
            notes,
            lease,
            calls: Cell::new(0),
            #[cfg(test)]
            pretends: false,
        };
        Ok((writer, ending))
    }

    /// One without a ledger, for tests on a paused clock: while another thread works, that clock would advance.
    #[cfg(test)]
    pub(crate) fn pretending() -> Self {
        let lease = Lease::new();
        lease.renewed(lease.now(), super::store::LeaseRenewal::Kept);
        Self {
            earliest: 0,
            is_kept: true,
            pending: queue(1).0,
            notes: Arc::default(),
            lease: Arc::new(lease),
            calls: Cell::new(0),
            pretends: true,
        }
    }

    /// Stores what became of a request, and returns when that is durable, where the ledger is kept.
    ///
    /// # Errors
    /// Exit code 3: it could not be written; nothing can be stored any more.
    pub(crate) async fn keep(&self, key: RequestKey, outcome: Outcome) -> Result<()> {
        #[cfg(test)]
        if self.pretends {
            return Ok(());
        }
        let at = clock::now().max(self.earliest);
        let record = Record { key, outcome, at };
        let (done, durable) = oneshot::channel();
        self.pending
            .send(Pending::Record { record, done }, Urgency::WithAnswers)
            .map_err(|_| thread_is_gone())?;
        if !self.is_kept {
            return Ok(());
        }
        durable.await.map_err(|_| thread_is_gone())?
    }

    /// Why the run must stop, although all that it has stored is kept. Only the first caller gets it.
    pub(crate) fn given_up(&self) -> Option<Error> {
        self.notes.lock().given_up.take()
    }

    /// Claims requests, after another look at each: what became of one may be known by now, or another run may be about to
    /// call for it.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub(crate) async fn claim(
        &self,
        requests: Vec<RequestKey>,
        urgency: Urgency,
    ) -> Result<Claimed> {
        #[cfg(test)]
        if self.pretends {
            let ours = super::store::ClaimResult::Ours { taken_over: false };
            return Ok(Claimed {
                worker: self.lease.worker(),
                results: vec![ours; requests.len()],
            });
        }
        let (done, claimed) = oneshot::channel();
        let claims = Pending::Claims { requests, done };
        { self.pending.send(claims, urgency) }.map_err(|_| thread_is_gone())?;
        claimed.await.map_err(|_| thread_is_gone())?
    }

    /// Ends the claim of a request that was not called for, or that got no answer: another run may ask.
    pub(crate) fn release(&self, key: RequestKey) {
        // If the thread is gone, the claim ends with the lease.
        let _ = self
            .pending
            .send(Pending::Release(key), Urgency::WithAnswers);
    }

    /// Ends the claim of a request that may have been billed without an answer: the run that calls for it next counts that.
    pub(crate) fn abandon(&self, key: RequestKey) {
        // If the thread is gone, the claim ends with the lease.
        let _ = self
            .pending
            .send(Pending::Abandon(key), Urgency::WithAnswers);
    }

    /// A call is made. The number is stored with the next group, so that the calls of all starts of a run can be limited.
    pub(crate) fn count_call(&self) {
        let calls = self.calls.get().saturating_add(1);
        self.calls.set(calls);
        self.notes.calls.store(calls, Ordering::Relaxed);
    }

    /// What the claims of a worker are worth now.
    pub(crate) fn holding(&self, worker: WorkerNumber) -> Holding {
        self.lease.holding(worker)
    }

    /// Waits until the claims of this worker do not await a renewal of the lease.
    pub(crate) async fn lease_settled(&self, worker: WorkerNumber) {
        self.lease.settled(worker).await;
    }

    /// Makes the clock of the lease jump, as after a sleep of the machine.
    #[cfg(test)]
    pub(crate) fn advance_lease(&self, by: std::time::Duration) {
        self.lease.advance(by);
    }

    /// Says how the run ends once its answers are durable and its files are written. Without that, it was stopped.
    pub(crate) fn end(&self, end: RunEnd) {
        self.notes.lock().end = end;
    }

    /// Stores the load that the service was just found to accept, with the next answers or at the end.
    pub(crate) fn found(&self, limit: Limit) {
        let found = SystemTime::now();
        self.notes.lock().limit = Some(KnownLimit { limit, found });
    }
}

fn thread_is_gone() -> Error {
    Error::internal("the ledger's thread ended unexpectedly")
}
