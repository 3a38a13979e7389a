//! Paid answers on their way to the disk, in groups: while one group is synced, the next one gathers.
//!
//! A thread of its own writes, one group after the other, renews the lease of the run's claims, and each answer's call waits until
//! the answer is durable. Requests are claimed the same way before they are called for, so that no two runs pay for one. A failed
//! write is never retried: after one, what the system says about the disk cannot be trusted. Only that there is no space can be;
//! what the database makes of that is its own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;

use super::account::KnownLimit;
use super::database::{ClaimResult, Database};
use super::fault::DbFault;
use super::group_commit::{GroupQueue, Urgency};
use super::key::RequestKey;
use super::lease::{Holding, Lease, WorkerNumber};
use super::outcome::Outcome;
use super::run::{Record, RunEnd, RunRecord, Work};
use super::settings;
use crate::base::error::{Error, Result};
use crate::telemetry::pace::Limit;

/// How long the thread waits for what comes next when it has nothing else to do.
const RENEWS_NOTHING: Duration = Duration::from_secs(60);

/// Makes a run's answers durable, and claims requests for it.
pub(crate) struct LedgerWriter {
    /// Whether answers outlive the run. Nobody waits for those that do not.
    is_kept: bool,
    shared: Arc<WriterShared>,
    /// There is no thread, and everything succeeds at once.
    #[cfg(test)]
    pretends: bool,
}

/// What waits for the ledger's thread.
enum Pending {
    /// A record that is to be durable, and the call that waits for it.
    Record(Record, oneshot::Sender<Result<()>>),
    /// Requests to be claimed.
    Claims(Vec<RequestKey>, oneshot::Sender<Result<Claimed>>),
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

/// What calls and the ledger's thread share.
struct WriterShared {
    pending: GroupQueue<Pending>,
    lease: Lease,
    /// How many calls the run has made since it was started.
    calls: AtomicU64,
    notes: Mutex<Notes>,
}

/// Notes that the other side has not taken yet.
#[derive(Default)]
struct Notes {
    /// The limit that was found last.
    limit: Option<KnownLimit>,
    end: RunEnd,
    /// From the thread: why the run must stop, although what it stores is still kept.
    given_up: Option<Error>,
}

impl WriterShared {
    fn new(enough: usize) -> Arc<Self> {
        Arc::new(Self {
            pending: GroupQueue::new(enough),
            lease: Lease::default(),
            calls: AtomicU64::new(0),
            notes: Mutex::default(),
        })
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        // A panic elsewhere cannot leave them half written.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The run's side of the end of the thread: it gives a word when the writer is gone and everything is durable, and records how the
/// run has ended once it gets one.
pub(super) type ThreadEnd = (mpsc::Receiver<()>, mpsc::Sender<()>);

impl LedgerWriter {
    /// Starts the thread of a run; `place` is `None` if answers do not outlive it. A group of `enough`
    /// records waits no longer.
    pub(super) fn start(
        database: Box<dyn Database>,
        run: RunRecord,
        place: Option<&Path>,
        enough: usize,
    ) -> Result<(Self, ThreadEnd)> {
        let (settle, settled) = mpsc::channel();
        let (files_are_written, written) = mpsc::channel();
        let shared = WriterShared::new(enough);
        let thread = WriteThread {
            database,
            run,
            place: place.map_or_else(|| PathBuf::from("memory"), Path::to_owned),
            shared: Arc::clone(&shared),
        };
        std::thread::Builder::new()
            .name("ledger".to_owned())
            // The thread's ends of the channels are closed when its database is.
            .spawn(move || thread.run(&settle, &written))
            .map_err(|e| Error::stopped("cannot start a thread").because(e))?;
        let writer = Self {
            is_kept: place.is_some(),
            shared,
            #[cfg(test)]
            pretends: false,
        };
        Ok((writer, (settled, files_are_written)))
    }

    /// One without a ledger, for tests on a paused clock: while another thread works, that clock would advance.
    #[cfg(test)]
    pub(crate) fn pretending() -> Self {
        let shared = WriterShared::new(1);
        let now = shared.lease.now();
        shared.lease.renewed(now, super::lease::LeaseRenewal::Kept);
        Self {
            is_kept: true,
            shared,
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
        let at = settings::now();
        let record = Record { key, outcome, at };
        let (done, durable) = oneshot::channel();
        self.shared
            .pending
            .send(Pending::Record(record, done), Urgency::WithAnswers)
            .map_err(|_| thread_is_gone())?;
        if !self.is_kept {
            return Ok(());
        }
        durable.await.map_err(|_| thread_is_gone())?
    }

    /// Why the run must stop, although all that it has stored is kept. Only the first caller gets it.
    pub(crate) fn given_up(&self) -> Option<Error> {
        self.shared.notes().given_up.take()
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
            let ours = ClaimResult::Ours { taken_over: false };
            return Ok(Claimed {
                worker: self.shared.lease.worker(),
                results: vec![ours; requests.len()],
            });
        }
        let (done, claimed) = oneshot::channel();
        {
            self.shared
                .pending
                .send(Pending::Claims(requests, done), urgency)
        }
        .map_err(|_| thread_is_gone())?;
        claimed.await.map_err(|_| thread_is_gone())?
    }

    /// Ends the claim of a request that was not called for, or that got no answer: another run may ask.
    pub(crate) fn release(&self, key: RequestKey) {
        // If the thread is gone, the claim ends with the lease.
        let _ = self
            .shared
            .pending
            .send(Pending::Release(key), Urgency::WithAnswers);
    }

    /// Ends the claim of a request that may have been billed without an answer: the run that calls for it next counts that.
    pub(crate) fn abandon(&self, key: RequestKey) {
        // If the thread is gone, the claim ends with the lease.
        let _ = self
            .shared
            .pending
            .send(Pending::Abandon(key), Urgency::WithAnswers);
    }

    /// A call is made. The number is stored with the next group, so that the calls of all starts of a run can be limited.
    pub(crate) fn count_call(&self) {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// What the claims of a worker are worth now.
    pub(crate) fn holding(&self, worker: WorkerNumber) -> Holding {
        self.shared.lease.holding(worker)
    }

    /// Waits until the claims of this worker do not await a renewal of the lease.
    pub(crate) async fn lease_settled(&self, worker: WorkerNumber) {
        self.shared.lease.settled(worker).await;
    }

    /// Makes the clock of the lease jump, as after a sleep of the machine.
    #[cfg(test)]
    pub(crate) fn advance_lease(&self, by: std::time::Duration) {
        self.shared.lease.advance(by);
    }

    /// Says how the run ends once its answers are durable and its files are written. Without that, it was stopped.
    pub(crate) fn end(&self, end: RunEnd) {
        self.shared.notes().end = end;
    }

    /// Stores the load that the service was just found to accept, with the next answers or at the end.
    pub(crate) fn found(&self, limit: Limit) {
        let found = SystemTime::now();
        self.shared.notes().limit = Some(KnownLimit { limit, found });
    }
}

impl Drop for LedgerWriter {
    fn drop(&mut self) {
        self.shared.pending.close();
    }
}

fn thread_is_gone() -> Error {
    Error::internal("the ledger's thread ended unexpectedly")
}

/// The thread.
struct WriteThread {
    database: Box<dyn Database>,
    run: RunRecord,
    /// The ledger's path, for messages.
    place: PathBuf,
    shared: Arc<WriterShared>,
}

impl Drop for WriteThread {
    /// Also after a panic.
    fn drop(&mut self) {
        self.shared.pending.abandon();
    }
}

impl WriteThread {
    /// Writes groups until the writer is gone. Once the run has written all its files, and only then, it is recorded how it has
    /// ended.
    fn run(mut self, settled: &mpsc::Sender<()>, files_are_written: &mpsc::Receiver<()>) {
        let (mut renew_at, mut broken) = (0, None);
        loop {
            let until_renewal =
                u64::try_from(renew_at - self.shared.lease.now()).unwrap_or_default();
            let patience = match broken {
                None => Duration::from_millis(until_renewal),
                Some(_) => RENEWS_NOTHING,
            };
            let Some(received) = self.shared.pending.next(patience) else {
                break;
            };
            // Before what has come: it needs a lease.
            if broken.is_none() {
                broken = self.renew(&mut renew_at).err();
            }
            if !received.is_empty() {
                broken = self.handle(received, broken);
            }
        }
        let (end, limit) = {
            let mut notes = self.shared.notes();
            (notes.end, notes.limit.take())
        };
        // What a disk says after a failure cannot be trusted.
        let works = broken.is_none();
        if works {
            self.database.answers_end();
            let calls = self.calls();
            self.run.leave(&mut *self.database, calls, limit);
        }
        // Nobody waits any more when the run was given up.
        let _ = settled.send(());
        // Nothing comes from a run that panics.
        if files_are_written.recv().is_ok() && works {
            self.run.end(&mut *self.database, end);
        }
    }

    /// Renews the lease, when that is due.
    fn renew(&mut self, renew_at: &mut i64) -> std::result::Result<(), DbFault> {
        let lease = &self.shared.lease;
        // Read before the database is asked: the lease may count from then.
        let asked = lease.now();
        if asked < *renew_at {
            return Ok(());
        }
        let calls = self.calls();
        let renewal = self.run.renew(&mut *self.database, calls);
        let renewal = renewal.inspect_err(|_| lease.lost())?;
        *renew_at = Lease::next_renewal(asked);
        lease.renewed(asked, renewal);
        Ok(())
    }

    /// Writes a group, unless an earlier write has failed, and tells all who wait what has become of their records and claims;
    /// returns why a write has failed. A call that was given up meanwhile does not hear of it; its record is stored all the same.
    fn handle(&mut self, received: Vec<Pending>, broken: Option<DbFault>) -> Option<DbFault> {
        let (mut recorded, mut claimed) = (Vec::with_capacity(received.len()), Vec::new());
        let mut work = Work {
            records: Vec::with_capacity(received.len()),
            calls: self.calls(),
            ..Work::default()
        };
        for pending in received {
            match pending {
                Pending::Record(record, done) => {
                    work.records.push(record);
                    recorded.push(done);
                }
                Pending::Claims(requests, done) => {
                    claimed.push((requests.len(), done));
                    work.claims.extend(requests);
                }
                Pending::Release(key) => work.releases.push(key),
                Pending::Abandon(key) => work.abandoned.push(key),
            }
        }
        let (fault, results) = if broken.is_some() {
            (broken, Vec::new())
        } else {
            work.limit = self.shared.notes().limit.take();
            match self.run.store(&mut *self.database, &work) {
                Ok(results) => (None, results),
                Err(fault) => (Some(fault), Vec::new()),
            }
        };
        let is_full = fault.is_none() && self.database.is_full();
        let no_calls = if is_full {
            Some(DbFault::no_space())
        } else {
            fault.clone()
        };
        let outcome = |fault: &Option<DbFault>| match fault {
            Some(fault) => Err(fault.of_answers(&self.place)),
            None => Ok(()),
        };
        if is_full {
            self.shared.notes().given_up = outcome(&no_calls).err();
        }
        for done in recorded {
            let _ = done.send(outcome(&fault));
        }
        let (worker, mut results) = (self.shared.lease.worker(), results.into_iter());
        for (requests, done) in claimed {
            let results = results.by_ref().take(requests).collect();
            let _ = done.send(outcome(&no_calls).map(|()| Claimed { worker, results }));
        }
        if no_calls.is_some() {
            self.shared.lease.lost();
        }
        fault
    }

    fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }
}
