//! The lease of a run's claims: until when its calls may start.
//!
//! What a run has claimed is left to it for as long as its lease lasts; then others may call for it. So no call starts that
//! could outlast the lease. The lease is short, so that a killed run holds nobody up for long, and is renewed all the time. It
//! goes by the wall clock, which also runs while the machine sleeps. This file must not know where runs are stored.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::clock;
use super::store::LeaseRenewal;

/// How much longer a lease lasts than the longest call: calls wait if it was not renewed for so long, on a disk that hangs.
const SPARE: Duration = Duration::from_secs(10);
/// How often it is renewed.
const RENEWED_EVERY: Duration = Duration::from_secs(3);

/// How long a lease lasts.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseTerms {
    /// The longest call, in milliseconds.
    longest_call: i64,
}

impl LeaseTerms {
    /// For calls that take this long at most.
    pub(super) fn for_calls_of(longest: Duration) -> Self {
        Self {
            longest_call: millis(longest),
        }
    }

    /// When a lease ends that is renewed at this time, in milliseconds since 1970.
    pub(super) fn until(self, now: i64) -> i64 {
        { now.saturating_add(self.longest_call) }.saturating_add(millis(SPARE))
    }
}

/// The number of a worker: the run as other runs see it. It is another one after its lease has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WorkerNumber(u32);

/// What a claim is worth now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Its request may be called for.
    Held,
    /// It may be, once the lease is renewed.
    AwaitsRenewal,
    /// It must be made again: another run may have taken it over.
    Lost,
}

/// A lease, between the ledger's thread, which renews it, and the calls.
pub(super) struct Lease {
    /// Calls may start until then, in milliseconds since 1970.
    calls_until: AtomicI64,
    worker: AtomicU32,
    changed: Notify,
    /// By how much tests have set the clock ahead, in milliseconds.
    #[cfg(test)]
    ahead: AtomicI64,
}

impl Lease {
    /// A lease that must be renewed first.
    pub(super) const fn new() -> Self {
        Self {
            calls_until: AtomicI64::new(0),
            worker: AtomicU32::new(0),
            changed: Notify::const_new(),
            #[cfg(test)]
            ahead: AtomicI64::new(0),
        }
    }

    /// Now, in milliseconds since 1970.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "tests make it jump"))]
    pub(super) fn now(&self) -> i64 {
        #[cfg(test)]
        return clock::now() + self.ahead.load(Ordering::Acquire);
        #[cfg(not(test))]
        clock::now()
    }

    /// Makes the clock jump.
    #[cfg(test)]
    pub(super) fn advance(&self, by: Duration) {
        self.ahead.fetch_add(millis(by), Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// When a lease is renewed that was last renewed at this time.
    pub(super) fn next_renewal(asked: i64) -> i64 {
        asked.saturating_add(millis(RENEWED_EVERY))
    }

    /// The lease was renewed. It counts from when that was asked for.
    pub(super) fn renewed(&self, asked: i64, renewal: LeaseRenewal) {
        if renewal == LeaseRenewal::NewWorker {
            self.worker.fetch_add(1, Ordering::AcqRel);
        }
        let until = asked.saturating_add(millis(SPARE));
        self.calls_until.store(until, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// The store is broken: no call may start any more.
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
        if worker != self.worker() {
            Holding::Lost
        } else if self.now() < self.calls_until.load(Ordering::Acquire) {
            Holding::Held
        } else {
            Holding::AwaitsRenewal
        }
    }

    /// Waits until the claims of this worker do not await a renewal.
    pub(super) async fn settled(&self, worker: WorkerNumber) {
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

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn calls_wait_for_a_renewal_and_claims_of_another_worker_are_lost() {
        let lease = Lease::new();
        let before = lease.worker();
        assert_eq!(lease.holding(before), Holding::AwaitsRenewal);
        lease.renewed(lease.now(), LeaseRenewal::NewWorker);
        assert_eq!(lease.holding(before), Holding::Lost);
        let worker = lease.worker();
        assert_eq!(lease.holding(worker), Holding::Held);
        lease.advance(9 * SECOND);
        assert_eq!(lease.holding(worker), Holding::Held);
        lease.advance(SECOND);
        assert_eq!(lease.holding(worker), Holding::AwaitsRenewal);
        // It counts from when it was asked for, however long that took.
        let asked = lease.now();
        lease.advance(11 * SECOND);
        lease.renewed(asked, LeaseRenewal::Kept);
        assert_eq!(lease.holding(worker), Holding::AwaitsRenewal);
        lease.renewed(lease.now(), LeaseRenewal::Kept);
        assert_eq!(lease.holding(worker), Holding::Held);
        lease.renewed(lease.now(), LeaseRenewal::NewWorker);
        assert_eq!(lease.holding(worker), Holding::Lost);
    }

    #[test]
    fn no_call_that_may_start_outlasts_the_lease() {
        for longest in [1, 30, 3_600].map(Duration::from_secs) {
            let terms = LeaseTerms::for_calls_of(longest);
            let last_start = 1_000 + millis(SPARE);
            assert!(terms.until(1_000) >= last_start + millis(longest));
            assert!(Lease::next_renewal(1_000) * 3 < last_start * 3);
        }
    }
}
