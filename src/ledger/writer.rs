//! Paid answers on their way to the disk, in groups: while one group is synced, the next one gathers.
//!
//! A thread of its own writes (`write_thread`), and each answer's call waits until the answer is durable. In a ledger that
//! runs share, requests are claimed the same way before they are called for, so that no two runs pay for one.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::oneshot;

use super::answer_memory::AnswerMemory;
use super::bloom_filter::BloomFilter;
use super::clock::millis;
use super::group_commit::{Sender, Urgency, queue};
use super::known_limit::KnownLimit;
use super::lease::{Holding, Lease, LeaseTerms, WorkerNumber};
use super::lookup::Lookup;
use super::lookup_result::{AnsweredIn, KnownOutcome, LookupResult};
use super::packed::Fingerprint;
use super::request_key::{RequestHasher, RequestKey};
use super::sealed_failure::SealedFailure;
use super::store::{ClaimRequest, Payload, Record, RunEnd, Store};
use super::write_thread::{Claimed, EndingThread, Notes, Pending, WriteThread, thread_end};
use crate::base::error::{Error, Result};
use crate::telemetry::pace::Limit;
use crate::verdict::{Answer, Failure};

/// Makes a run's answers durable, and finds those that arrived since a row was looked up.
pub struct LedgerWriter {
    hasher: RequestHasher,
    /// Looks requests up again just before their calls. Closed before the thread is released: of two connections that close
    /// at the same time, neither is the last one, and only the last one copies the log into the ledger.
    recheck: Option<RefCell<Lookup>>,
    /// Failures that were stored since this start of the run; `None` where there is none.
    failed: RefCell<Option<BloomFilter>>,
    /// The first answers, where nothing keeps them beyond the run.
    in_memory: Option<RefCell<AnswerMemory>>,
    /// Answers that arrive now are dated no earlier, in milliseconds since 1970.
    earliest: i64,
    pending: Sender<Pending>,
    notes: Arc<Notes>,
    /// The lease; `None` where no other run writes to the ledger.
    lease: Option<Arc<Lease>>,
}

/// What a writer needs besides its store.
pub(super) struct WriterSettings {
    /// The ledger's path, for messages.
    pub(super) path: PathBuf,
    pub(super) hasher: RequestHasher,
    /// Answers that arrive now are dated no earlier, in milliseconds since 1970.
    pub(super) earliest: i64,
    /// Finds what arrived meanwhile before each call; `None` if each request is claimed, which finds it too.
    pub(super) lookup: Option<Lookup>,
    /// Whether nothing keeps the answers beyond the run.
    pub(super) in_memory: bool,
    /// The lease that its claims need; `None` where no other run writes to the ledger.
    pub(super) lease: Option<LeaseTerms>,
    /// A group of so many records waits no longer.
    pub(super) enough: usize,
}

impl LedgerWriter {
    /// Starts the thread.
    pub(super) fn start(
        store: impl Store + 'static,
        settings: WriterSettings,
    ) -> Result<(Self, EndingThread)> {
        let WriterSettings {
            path,
            hasher,
            earliest,
            lookup,
            in_memory,
            lease,
            enough,
        } = settings;
        let (sender, pending) = queue(enough);
        let (end, ending) = thread_end();
        let notes = Arc::new(Notes::default());
        let lease = lease.map(|terms| Arc::new(Lease::new(terms)));
        let thread = WriteThread {
            store,
            path,
            notes: Arc::clone(&notes),
            lease: lease.clone(),
        };
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || thread.run(&pending, &end))
            .map_err(|e| Error::stopped("cannot start a thread").because(e))?;
        let writer = Self {
            hasher,
            recheck: lookup.map(RefCell::new),
            failed: RefCell::default(),
            in_memory: in_memory.then(RefCell::default),
            earliest,
            pending: sender,
            notes,
            lease,
        };
        Ok((writer, ending))
    }

    /// Stores an answer, and returns it when it is durable, or at least can be found where nothing keeps it beyond the run.
    ///
    /// # Errors
    /// Exit code 3: it could not be written; nothing can be stored any more.
    pub async fn keep(&self, key: RequestKey, answer: Answer) -> Result<Answer> {
        if self.keep_in_memory(&key, &answer) {
            return Ok(answer);
        }
        match self.put(key, Payload::Answer(answer)).await? {
            Payload::Answer(answer) => Ok(answer),
            Payload::Failure(_) => Err(thread_is_gone()),
        }
    }

    /// Stores that the request with this key and body must not be sent again in this run; returns when that is durable.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub(crate) async fn keep_failure(
        &self,
        key: RequestKey,
        body: &[u8],
        failure: &Failure,
    ) -> Result<()> {
        let sealed = SealedFailure::new(&self.hasher, &key, body, failure);
        // Before it can be found: what is found and is not in here is from before this start.
        let request = Fingerprint::of(&(&key).into());
        self.failed
            .borrow_mut()
            .get_or_insert_default()
            .insert(request);
        self.put(key, Payload::Failure(sealed)).await?;
        if let Some(recheck) = &self.recheck {
            recheck.borrow_mut().expect_failures();
        }
        Ok(())
    }

    /// Whether a failure of this request was stored since this start of the run. A few others may look so too.
    pub(crate) fn has_failed(&self, key: &RequestKey) -> bool {
        let failed = self.failed.borrow();
        { failed.as_ref() }.is_some_and(|failed| failed.may_contain(Fingerprint::of(&key.into())))
    }

    /// Keeps an answer in memory, where nothing keeps it beyond the run and there is room.
    fn keep_in_memory(&self, key: &RequestKey, answer: &Answer) -> bool {
        let memory = self.in_memory.as_ref();
        memory.is_some_and(|memory| memory.borrow_mut().keep(key, answer, self.now()))
    }

    /// The time that a record of now gets.
    fn now(&self) -> i64 {
        millis(SystemTime::now()).max(self.earliest)
    }

    async fn put(&self, key: RequestKey, payload: Payload) -> Result<Payload> {
        let at = self.now();
        let record = Record { key, payload, at };
        let (done, durable) = oneshot::channel();
        self.pending
            .send(Pending::Record { record, done }, Urgency::WithAnswers)
            .map_err(|_| thread_is_gone())?;
        durable.await.map_err(|_| thread_is_gone())?
    }

    /// Why the run must stop, although all that it has stored is kept. Only the first caller gets it.
    pub(crate) fn given_up(&self) -> Option<Error> {
        self.notes.lock().given_up.take()
    }

    /// Claims requests, after another look at each: what became of one may be known by now, or another run may be about to
    /// call for it. Only where runs share the ledger.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub(crate) async fn claim(
        &self,
        requests: Vec<ClaimRequest>,
        urgency: Urgency,
    ) -> Result<Claimed> {
        let (done, claimed) = oneshot::channel();
        let claims = Pending::Claims { requests, done };
        { self.pending.send(claims, urgency) }.map_err(|_| thread_is_gone())?;
        claimed.await.map_err(|_| thread_is_gone())?
    }

    /// Ends the claim of a request that was not called for, or that got no answer: another run may ask.
    pub(crate) fn release(&self, key: RequestKey) {
        if !self.is_shared() {
            return;
        }
        // If the thread is gone, the claim ends with the worker.
        let _ = self
            .pending
            .send(Pending::Release(key), Urgency::WithAnswers);
    }

    /// What the claims of a worker are worth now; always held where no other run writes to the ledger.
    pub(crate) fn holding(&self, worker: WorkerNumber) -> Holding {
        let lease = self.lease.as_ref();
        lease.map_or(Holding::Held, |lease| lease.holding(worker))
    }

    /// Waits while the claims of this worker await the renewal of its lease. Without end where no other run writes to the
    /// ledger.
    pub(crate) async fn lease_renewal(&self, worker: WorkerNumber) {
        match &self.lease {
            Some(lease) => lease.renewal(worker).await,
            None => std::future::pending().await,
        }
    }

    /// Looks for what has become of a request since its row was looked up, as far as this process has noticed: in this run
    /// or, in a shared ledger, also in another one.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn look_again(
        &self,
        key: &RequestKey,
        body: &[u8],
    ) -> Result<Option<(LookupResult, AnsweredIn)>> {
        if let Some(memory) = &self.in_memory
            && let Some(answer) = memory.borrow().find(key)
        {
            let known = Some(KnownOutcome::Answer(answer));
            let found = LookupResult {
                known,
                ..LookupResult::default()
            };
            return Ok(Some((found, AnsweredIn::ThisRun)));
        }
        let Some(recheck) = &self.recheck else {
            return Ok(None);
        };
        let mut lookup = recheck.borrow_mut();
        if !lookup.may_have_come(key) && !self.has_failed(key) {
            return Ok(None);
        }
        let (found, run) = lookup.find_with_run(key, body)?;
        Ok(found.known.is_some().then_some((found, run)))
    }

    /// Makes the clock of the lease jump, as after a sleep of the machine.
    #[cfg(test)]
    pub(crate) fn advance_lease(&self, by: std::time::Duration) {
        if let Some(lease) = &self.lease {
            lease.advance(by);
        }
    }

    /// Makes looking again fail from now on.
    #[cfg(test)]
    pub(crate) fn fail_to_look(&self, faults: super::faults::StoreFaults) {
        if let Some(recheck) = &self.recheck {
            recheck.borrow_mut().fail(faults);
        }
    }

    /// Says how the run ends once its answers are durable and its files are written. Without that, it was stopped.
    pub(crate) fn end(&self, end: RunEnd) {
        self.notes.lock().end = end;
    }

    /// Stores the load that the service was just found to accept, with the next answers or at the end.
    pub fn found(&self, limit: Limit) {
        let found = SystemTime::now();
        self.notes.lock().limit = Some(KnownLimit { limit, found });
    }

    /// Whether other runs write to the ledger as well.
    #[must_use]
    pub(crate) const fn is_shared(&self) -> bool {
        self.lease.is_some()
    }
}

fn thread_is_gone() -> Error {
    Error::internal("the ledger's thread ended unexpectedly")
}
