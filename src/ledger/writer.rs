//! Paid answers on their way to the disk, in groups: while one group is synced, the next one
//! gathers.
//!
//! A thread of its own writes one group after the other and renews the lease of the run's claims.
//! Each answer's call waits until the answer is durable. Requests are claimed the same way before
//! they are called for, so that no two runs pay for one. Calls that started together are answered
//! within some milliseconds; a sync for each of them would cost more than everything else that is
//! done for a row. A failed write is never retried: after one, what the system says about the disk
//! cannot be trusted. A full disk is the exception: the database retries after it has freed its
//! reserve.
//!
//! No other run calls for what a run has claimed as long as its lease lasts. So no call starts
//! that could outlast the lease: after ten seconds without a renewal, everything is claimed again
//! before it is called for. The lease goes by the wall clock, which also runs while the machine
//! sleeps.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;

use super::accounts::{Budget, BudgetedCalls, RememberedLimit, Spending};
use super::answers::{PaidResult, ResultCache};
use super::claims::{ClaimResult, LEASE_SLACK_MS, Unanswered};
use super::database::{Database, now_millis};
use super::fault::DbFault;
use super::key::RequestKey;
use super::runs::{Group, Record, RunEnd, RunRecord};
use crate::base::error::{Error, Result};
use crate::base::threads::lock;
use crate::telemetry::counts::BudgetNumbers;
use crate::telemetry::pace::FoundLimit;
use crate::verdict::Verdict;

/// The longest that an answer waits for others. Far below what a person notices, and long enough
/// for most of a burst.
const GATHER: Duration = Duration::from_millis(5);
/// The longest that claims wait while more rows are read, so that the next claims gather. A
/// nightly run over known rows finds some ten new ones meanwhile, and a sync for a few of them
/// writes as much as one for all.
const GATHER_SOON: Duration = Duration::from_millis(2);
/// How often the lease is renewed, in milliseconds.
const RENEWAL_INTERVAL_MS: i64 = 3_000;

/// How long an item waits for others, the longest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Urgency {
    /// Until the next answers, which costs less: enough calls are under way until then.
    #[default]
    WithAnswers,
    /// For a moment, in which the next claims gather.
    Soon,
    /// Not at all: no call can start before.
    Now,
}

/// Counts the leases of a run: one that is not renewed in time ends, and the next renewal starts
/// another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LeaseGeneration(u32);

/// Makes a run's answers durable, and claims requests for it.
pub(crate) struct LedgerWriter {
    shared: Arc<Shared>,
    /// The results of a run without a ledger: then there is no thread, and no call waits.
    memory: Option<RefCell<ResultCache>>,
}

/// What claims led to.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// The lease under which they were granted.
    pub(crate) lease: LeaseGeneration,
    /// One for each request, in their order.
    pub(crate) results: Vec<ClaimResult>,
}

/// The channels to the ledger's thread after its writer is dropped. The thread closes its ends
/// when its database is closed.
pub(super) struct LedgerThread {
    /// Everything is durable.
    pub(super) drained: mpsc::Receiver<()>,
    /// The run has written all its files, so that its end can be recorded.
    pub(super) files_are_written: mpsc::Sender<()>,
}

/// What calls and the ledger's thread share.
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// A group of this size waits no longer.
    group_size: usize,
    /// How many calls the run has made since it was started, and may still make.
    budget: BudgetedCalls,
    /// Calls may start until then, in milliseconds since 1970.
    calls_until: AtomicI64,
    lease: AtomicU32,
}

/// The batch that waits for the thread, and messages in both directions.
#[derive(Default)]
struct Waiting {
    batch: Batch,
    /// One of the ends is gone.
    closed: bool,
    end: RunEnd,
    /// From the thread: why the run must stop, although what it stores is still kept.
    given_up: Option<Error>,
}

/// What is written together, and the calls that wait for it.
#[derive(Default)]
struct Batch {
    group: Group,
    /// The urgency of its most urgent item.
    urgency: Urgency,
    /// One for each record of the group, in their order.
    recorded: Vec<oneshot::Sender<Result<()>>>,
    /// The claims of the group, in their order: how many belong together, and who waits for them.
    claimed: Vec<(usize, oneshot::Sender<Result<Claimed>>)>,
}

impl Batch {
    /// How many items were sent.
    const fn len(&self) -> usize {
        let group = &self.group;
        let records = self.recorded.len() + group.distrusted.len();
        records + self.claimed.len() + group.unanswered.len()
    }
}

impl Waiting {
    /// How long a group waits for more items; `None` if not at all, as one of this size.
    fn gathers_for(&self, group_size: usize) -> Option<Duration> {
        let longest = match self.batch.urgency {
            Urgency::WithAnswers => GATHER,
            Urgency::Soon => GATHER_SOON,
            Urgency::Now => return None,
        };
        (self.batch.len() < group_size && !self.closed).then_some(longest)
    }
}

impl Shared {
    fn new(group_size: usize, budget: BudgetedCalls) -> Self {
        Self {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            group_size: group_size.max(1),
            budget,
            calls_until: AtomicI64::new(0),
            lease: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Sends the thread what `add` adds to a batch.
    fn send(&self, urgency: Urgency, add: impl FnOnce(&mut Batch)) -> Result<()> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(thread_is_gone());
        }
        add(&mut waiting.batch);
        waiting.batch.urgency = waiting.batch.urgency.max(urgency);
        let length = waiting.batch.len();
        drop(waiting);
        // Waking the thread for each item would cost more than it brings.
        if urgency > Urgency::WithAnswers || length == 1 || length == self.group_size {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// The next batch; empty if none comes within this time, and `None` when there will be no more.
    fn next(&self, longest: Duration) -> Option<Batch> {
        let is_empty = |waiting: &mut Waiting| waiting.batch.len() == 0 && !waiting.closed;
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), longest, is_empty);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        if waiting.batch.len() == 0 {
            return (!waiting.closed).then(Batch::default);
        }
        while let Some(longest) = waiting.gathers_for(self.group_size) {
            let as_before = |it: &mut Waiting| it.gathers_for(self.group_size) == Some(longest);
            let waited = self.changed.wait_timeout_while(waiting, longest, as_before);
            let (waited, result) = waited.unwrap_or_else(PoisonError::into_inner);
            waiting = waited;
            if result.timed_out() {
                break;
            }
        }
        Some(std::mem::take(&mut waiting.batch))
    }

    fn lease(&self) -> LeaseGeneration {
        LeaseGeneration(self.lease.load(Ordering::Acquire))
    }

    /// Everything must be claimed again.
    fn lose_claims(&self) {
        self.lease.fetch_add(1, Ordering::AcqRel);
    }

    /// The lease was renewed. It counts from the moment before the database was asked.
    fn renewed(&self, asked: i64) {
        if asked >= self.calls_until.load(Ordering::Acquire) {
            // Others may have taken claims over in between.
            self.lose_claims();
        }
        self.calls_until
            .store(asked.saturating_add(LEASE_SLACK_MS), Ordering::Release);
    }

    /// Whether calls may start for what was claimed under this lease.
    fn holds(&self, lease: LeaseGeneration) -> bool {
        // In this order: after a late renewal it is another lease.
        now_millis() < self.calls_until.load(Ordering::Acquire) && lease == self.lease()
    }
}

impl LedgerWriter {
    /// One of a run without a ledger: it remembers results in memory, for as long as the run lasts.
    pub(crate) fn in_memory(budgets: Vec<Budget>) -> Self {
        let budget = BudgetedCalls::new(budgets, Spending::default());
        let shared = Arc::new(Shared::new(1, budget));
        // Nobody else calls for its requests.
        shared.calls_until.store(i64::MAX, Ordering::Release);
        let memory = Some(RefCell::default());
        Self { shared, memory }
    }

    /// Starts the thread of a run that has started.
    pub(super) fn start(
        database: Box<dyn Database>,
        run: RunRecord,
    ) -> Result<(Self, LedgerThread)> {
        let (drain, drained) = mpsc::channel();
        let (files_are_written, written) = mpsc::channel();
        // Three quarters of the answers gather while other calls are in flight: with half of them
        // a run needs up to a fifth more syncs, and with all of them calls would have to wait
        // during each sync.
        let group_size = run.settings.in_flight.get().saturating_mul(3) / 4;
        let budget = BudgetedCalls::new(run.settings.budgets.clone(), run.spending.clone());
        let shared = Arc::new(Shared::new(group_size, budget));
        let thread = WriteThread {
            database,
            run,
            shared: Arc::clone(&shared),
            broken: None,
        };
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || thread.run(&drain, &written))
            .map_err(|e| Error::stopped("cannot start a thread").because(e))?;
        let writer = Self {
            shared,
            memory: None,
        };
        let thread = LedgerThread {
            drained,
            files_are_written,
        };
        Ok((writer, thread))
    }

    /// Stores what became of a request, which led to this verdict, and returns when that is
    /// durable.
    ///
    /// # Errors
    /// Exit code 3: it could not be written; nothing can be stored any more.
    pub(crate) async fn keep(
        &self,
        key: RequestKey,
        result: PaidResult,
        verdict: &Verdict,
    ) -> Result<()> {
        if let Some(memory) = &self.memory {
            memory.borrow_mut().add(key, verdict);
            return Ok(());
        }
        let at = now_millis();
        let (done, durable) = oneshot::channel();
        self.shared.send(Urgency::WithAnswers, |batch| {
            batch.group.records.push(Record { key, result, at });
            batch.recorded.push(done);
        })?;
        durable.await.map_err(|_| thread_is_gone())?
    }

    /// Why the run must stop, although all that it has stored is kept. Only the first caller gets
    /// it.
    pub(crate) fn given_up(&self) -> Option<Error> {
        self.shared.lock().given_up.take()
    }

    /// Claims the first `most` of these requests that are free, after another look at each: by now
    /// its result may be stored, or another run may be about to call for it.
    ///
    /// # Errors
    /// As [`Self::keep`].
    pub(crate) async fn claim(
        &self,
        requests: Vec<RequestKey>,
        most: usize,
        urgency: Urgency,
    ) -> Result<Claimed> {
        if let Some(memory) = &self.memory {
            let (lease, memory) = (self.shared.lease(), memory.borrow());
            let granted = ClaimResult::Granted { taken_over: false };
            let claim = |key| {
                memory
                    .find(key)
                    .map_or(granted.clone(), ClaimResult::Stored)
            };
            let results = requests.iter().map(claim).collect();
            return Ok(Claimed { lease, results });
        }
        let (done, claimed) = oneshot::channel();
        self.shared.send(urgency, |batch| {
            batch.claimed.push((requests.len(), done));
            batch.group.max_claims = batch.group.max_claims.saturating_add(most);
            batch.group.claims.extend(requests);
        })?;
        claimed.await.map_err(|_| thread_is_gone())?
    }

    /// A call for a request has ended like this, with nothing to store. That is recorded soon, for
    /// other runs and for the next start after a kill.
    pub(crate) fn end_call(&self, key: RequestKey, end: Unanswered) {
        self.notify(|batch| batch.group.unanswered.push((key, end)));
    }

    /// Removes everything that this start of the run has stored about these requests, durably
    /// before the run ends.
    pub(crate) fn distrust(&self, requests: Vec<i64>) {
        // Without a ledger, nothing outlives the run.
        self.notify(|batch| batch.group.distrusted.extend(requests));
    }

    /// How many calls the run may make.
    pub(crate) fn budget(&self) -> &BudgetedCalls {
        &self.shared.budget
    }

    /// Reads what budgets leave, also from another thread, and after this writer is gone.
    pub(crate) fn budget_numbers(&self) -> impl Fn() -> Vec<BudgetNumbers> + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.budget.numbers()
    }

    /// Sends the thread what nobody waits for. If it is gone, claims end with the lease.
    fn notify(&self, add: impl FnOnce(&mut Batch)) {
        if self.memory.is_none() {
            let _ = self.shared.send(Urgency::WithAnswers, add);
        }
    }

    /// Whether calls may start for what was claimed under this lease; otherwise it must be claimed
    /// again.
    pub(crate) fn holds(&self, lease: LeaseGeneration) -> bool {
        self.shared.holds(lease)
    }

    /// Sets how the run ends once its answers are durable and its files are written. Without that,
    /// it was stopped.
    pub(crate) fn end(&self, end: RunEnd) {
        self.shared.lock().end = end;
    }

    /// Stores the load that the service was just found to accept, with the next answers or at the
    /// end.
    pub(crate) fn found(&self, limit: FoundLimit) {
        let found = SystemTime::now();
        self.shared.lock().batch.group.limit = Some(RememberedLimit { limit, found });
    }
}

impl Drop for LedgerWriter {
    fn drop(&mut self) {
        // What was sent is still received.
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

fn thread_is_gone() -> Error {
    Error::internal("the ledger's thread ended unexpectedly")
}

/// The thread.
struct WriteThread {
    database: Box<dyn Database>,
    run: RunRecord,
    shared: Arc<Shared>,
    /// Why a write has failed: nothing is written any more.
    broken: Option<DbFault>,
}

impl Drop for WriteThread {
    /// Also after a panic. What was sent is dropped, so that no call waits for it.
    fn drop(&mut self) {
        let mut waiting = self.shared.lock();
        waiting.closed = true;
        waiting.batch = Batch::default();
    }
}

impl WriteThread {
    /// Writes groups until the writer is dropped. How the run has ended is recorded only after it
    /// has written all its files.
    fn run(mut self, drained: &mpsc::Sender<()>, files_are_written: &mpsc::Receiver<()>) {
        let mut renewed = 0;
        loop {
            let until_renewal = renewed + RENEWAL_INTERVAL_MS - now_millis();
            // A clock that was ahead and is right again does not put it off.
            let until_renewal = u64::try_from(until_renewal.min(RENEWAL_INTERVAL_MS));
            let longest = Duration::from_millis(until_renewal.unwrap_or_default());
            let Some(batch) = self.shared.next(longest) else {
                break;
            };
            // Read before the database is asked: the lease counts from then.
            let asked = now_millis();
            let is_renewed = (renewed..renewed + RENEWAL_INTERVAL_MS).contains(&asked);
            if batch.len() > 0 || !is_renewed {
                self.handle(batch, asked);
                renewed = asked;
            }
        }
        let mut waiting = self.shared.lock();
        let (end, limit) = (waiting.end, waiting.batch.group.limit.take());
        drop(waiting);
        // What a disk says after a failure cannot be trusted.
        let works = self.broken.is_none();
        if works {
            let calls = self.shared.budget.made();
            self.run.leave(&mut *self.database, calls, limit);
        }
        // If it took too long, nobody waits for it.
        let _ = drained.send(());
        // A run that panics sends nothing.
        if files_are_written.recv().is_ok() && works {
            self.run.end(&mut *self.database, end);
        }
    }

    /// Writes a batch and renews the lease, unless an earlier write has failed, and answers all
    /// calls that wait for their records and claims. The record of a call that was given up
    /// meanwhile is stored all the same.
    fn handle(&mut self, batch: Batch, asked: i64) {
        let shared = &self.shared;
        let stored = match &self.broken {
            Some(fault) => Err(fault.clone()),
            None => self.run.store(&mut *self.database, &batch.group),
        };
        let fault = stored.as_ref().err().cloned();
        if fault.is_none() {
            shared.budget.update(self.run.spending.clone());
        }
        let location = &self.run.settings.location;
        let outcome = |fault: &Option<DbFault>| match fault {
            Some(fault) => Err(fault.of_answers(location)),
            None => Ok(()),
        };
        let is_full = fault.is_none() && self.database.is_full();
        let no_calls = if is_full {
            Some(DbFault::no_space())
        } else {
            fault.clone()
        };
        match &no_calls {
            Some(_) => shared.lose_claims(),
            None => shared.renewed(asked),
        }
        if is_full {
            shared.lock().given_up = outcome(&no_calls).err();
        }
        for done in batch.recorded {
            let _ = done.send(outcome(&fault));
        }
        let mut results = stored.unwrap_or_default().into_iter();
        let lease = shared.lease();
        for (requests, done) in batch.claimed {
            let results = results.by_ref().take(requests).collect();
            let _ = done.send(outcome(&no_calls).map(|()| Claimed { lease, results }));
        }
        self.broken = fault;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl LedgerWriter {
        /// Makes the lease older, as a sleep of the machine does.
        pub(crate) fn advance_lease(&self, by: Duration) {
            self.shared
                .advance_lease(by.as_millis().try_into().unwrap_or(i64::MAX));
        }
    }

    impl Shared {
        fn advance_lease(&self, by: i64) {
            self.calls_until.fetch_sub(by, Ordering::AcqRel);
        }
    }

    fn shared(group_size: usize) -> Shared {
        Shared::new(
            group_size,
            BudgetedCalls::new(Vec::new(), Spending::default()),
        )
    }

    fn send(shared: &Shared, urgency: Urgency) -> Option<Duration> {
        let distrust = |batch: &mut Batch| batch.group.distrusted.push(1);
        assert!(shared.send(urgency, distrust).is_ok());
        shared.lock().gathers_for(shared.group_size)
    }

    #[test]
    fn a_group_waits_as_long_as_its_most_urgent_item_may() {
        let shared = shared(4);
        assert_eq!(send(&shared, Urgency::WithAnswers), Some(GATHER));
        assert_eq!(send(&shared, Urgency::Soon), Some(GATHER_SOON));
        assert_eq!(send(&shared, Urgency::WithAnswers), Some(GATHER_SOON));
        assert_eq!(send(&shared, Urgency::Soon), None, "a whole group");
        let length = |batch: Option<Batch>| batch.map(|batch| batch.len());
        assert_eq!(length(shared.next(Duration::ZERO)), Some(4));
        assert_eq!(length(shared.next(Duration::ZERO)), Some(0));
        assert_eq!(send(&shared, Urgency::Now), None);
        shared.lock().closed = true;
        assert_eq!(length(shared.next(Duration::ZERO)), Some(1));
        assert_eq!(length(shared.next(GATHER)), None);
    }

    #[test]
    fn after_a_gap_between_renewals_everything_is_claimed_again() {
        let shared = shared(1);
        assert!(!shared.holds(shared.lease()), "it must be renewed first");
        shared.renewed(now_millis());
        let lease = shared.lease();
        shared.advance_lease(LEASE_SLACK_MS - 1_000);
        assert!(shared.holds(lease));
        shared.renewed(now_millis());
        assert!(shared.holds(lease));
        shared.advance_lease(LEASE_SLACK_MS);
        assert!(!shared.holds(lease));
        shared.renewed(now_millis());
        assert!(!shared.holds(lease) && shared.holds(shared.lease()));
    }
}
