//! The lease of a worker: until when its calls may start.
//!
//! A worker is a run's process as the other runs of a shared ledger see it. What it has claimed is left to it for as long
//! as its lease lasts; then others may call for it. So no call starts that could outlast the lease, by a clock that runs
//! on while the machine sleeps. This file must not know where workers are stored.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::boot_clock::boot_time;
use super::store::LeaseRenewal;

/// How long a lease is, unless calls take long: ten times as long as until it is renewed, so that a disk or a network that
/// hangs for a minute ends no lease, and short enough to wait for after a crash.
const LENGTH: Duration = Duration::from_secs(120);
/// How often a lease is renewed.
const RENEWED_EVERY: Duration = Duration::from_secs(10);
/// What must be left of a lease at the end of the longest call: the time for its answer to be stored.
const RESERVE: Duration = Duration::from_secs(5);

/// How long a lease is, and what must be left of it for a call to start.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseTerms {
    /// From its renewal on.
    pub(super) length: Duration,
    /// A call may start only while more than this is left.
    pub(super) reserve: Duration,
}

impl LeaseTerms {
    /// For calls that take this long at most.
    pub(super) fn for_calls_of(longest: Duration) -> Self {
        Self {
            length: LENGTH.max(longest.saturating_mul(3)),
            reserve: longest.saturating_add(RESERVE),
        }
    }
}

/// Which of its workers a process is: after its lease has ended it is another one, and what it had claimed is no longer
/// its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerNumber(u32);

impl WorkerNumber {
    /// Before the first lease.
    pub(super) const NONE: Self = Self(0);
}

/// What a worker's claims are worth now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Calls for what it has claimed may start.
    Held,
    /// Calls must wait until the lease is renewed.
    AwaitsRenewal,
    /// They may be another worker's by now: what has not been called must be claimed again.
    Lost,
}

/// The lease of a process, renewed by the ledger's thread and read by the thread that makes calls, without a lock.
pub(super) struct Lease {
    terms: LeaseTerms,
    /// Calls may start before this, in milliseconds of [`boot_time`]; 0 before the first lease.
    calls_until: AtomicU64,
    worker: AtomicU32,
    changed: Notify,
    /// How far the clock is ahead, in milliseconds.
    #[cfg(test)]
    ahead: AtomicU64,
}

impl Lease {
    /// No lease yet.
    pub(super) const fn new(terms: LeaseTerms) -> Self {
        Self {
            terms,
            calls_until: AtomicU64::new(0),
            worker: AtomicU32::new(WorkerNumber::NONE.0),
            changed: Notify::const_new(),
            #[cfg(test)]
            ahead: AtomicU64::new(0),
        }
    }

    /// The time by which leases are measured.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "tests make it jump"))]
    pub(super) fn now(&self) -> Duration {
        #[cfg(test)]
        return boot_time() + Duration::from_millis(self.ahead.load(Ordering::Acquire));
        #[cfg(not(test))]
        boot_time()
    }

    /// Makes the clock jump, as after a sleep of the machine.
    #[cfg(test)]
    pub(super) fn advance(&self, by: Duration) {
        self.ahead.fetch_add(millis(by), Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// When the lease is to be renewed that was asked for at `asked`.
    pub(super) fn next_renewal(&self, asked: Duration) -> Duration {
        asked + RENEWED_EVERY.min(self.terms.length / 4)
    }

    /// The store has renewed the lease, which was asked for at `asked`.
    pub(super) fn renewed(&self, asked: Duration, renewal: LeaseRenewal) {
        if renewal == LeaseRenewal::NewWorker {
            self.worker.fetch_add(1, Ordering::AcqRel);
        }
        let lasts = self.terms.length.saturating_sub(self.terms.reserve);
        let until = millis(asked.saturating_add(lasts));
        self.calls_until.store(until, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// There will be no more leases: the next claim gets the reason.
    pub(super) fn lost(&self) {
        self.worker.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// The present worker.
    pub(super) fn worker(&self) -> WorkerNumber {
        WorkerNumber(self.worker.load(Ordering::Acquire))
    }

    /// What the claims of a worker are worth now.
    pub(super) fn holding(&self, worker: WorkerNumber) -> Holding {
        let until = self.calls_until.load(Ordering::Acquire);
        if worker != self.worker() {
            Holding::Lost
        } else if millis(self.now()) < until {
            Holding::Held
        } else {
            Holding::AwaitsRenewal
        }
    }

    /// Waits while the claims of this worker await a renewal.
    pub(super) async fn renewal(&self, worker: WorkerNumber) {
        loop {
            // Made before the look: a change after it is noticed.
            let changed = self.changed.notified();
            if self.holding(worker) != Holding::AwaitsRenewal {
                return;
            }
            changed.await;
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_lease_outlasts_the_longest_call_that_may_start_in_it() {
        for longest in [1, 10, 39, 60, 3_600].map(Duration::from_secs) {
            let terms = LeaseTerms::for_calls_of(longest);
            assert!(terms.length >= Duration::from_secs(120) && terms.length >= longest * 3);
            assert!(terms.reserve >= longest + RESERVE);
            // Renewed in time, calls never wait.
            assert!(terms.length > terms.reserve + RENEWED_EVERY * 2);
        }
    }

    #[test]
    fn calls_wait_for_a_renewal_and_claims_of_another_worker_are_lost() {
        let lease = Lease::new(LeaseTerms::for_calls_of(30 * SECOND));
        let before = lease.worker();
        assert_eq!(lease.holding(before), Holding::AwaitsRenewal);
        lease.renewed(lease.now(), LeaseRenewal::NewWorker);
        assert_eq!(lease.holding(before), Holding::Lost);
        let worker = lease.worker();
        assert_eq!(lease.holding(worker), Holding::Held);
        lease.advance(84 * SECOND);
        assert_eq!(lease.holding(worker), Holding::Held);
        lease.advance(SECOND);
        assert_eq!(lease.holding(worker), Holding::AwaitsRenewal);
        // It counts from when it was asked for, however long that took.
        let asked = lease.now();
        lease.advance(86 * SECOND);
        lease.renewed(asked, LeaseRenewal::Kept);
        assert_eq!(lease.holding(worker), Holding::AwaitsRenewal);
        lease.renewed(lease.now(), LeaseRenewal::Kept);
        assert_eq!(lease.holding(worker), Holding::Held);
        lease.renewed(lease.now(), LeaseRenewal::NewWorker);
        assert_eq!(lease.holding(worker), Holding::Lost);
    }
}
