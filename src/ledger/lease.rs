//! The lease of a run's claims: until when its calls may start.
//!
//! What a run has claimed is left to it for as long as its lease lasts; then others may call for it. So no call starts that
//! could outlast the lease. The lease is short, so that a killed run holds nobody up for long, and is renewed all the time. It
//! goes by the wall clock, which also runs while the machine sleeps. This file must not know where runs are stored.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::settings;

/// How much longer a lease lasts than the longest call: calls wait if it was not renewed for so long, on a disk that hangs.
const SPARE: Duration = Duration::from_secs(10);
/// How often it is renewed.
const RENEWED_EVERY: Duration = Duration::from_secs(3);

/// How long after its renewal a lease ends, in milliseconds, where no call takes longer than this.
pub(super) fn lease_after(longest_call: Duration) -> i64 {
    millis(longest_call).saturating_add(millis(SPARE))
}

/// What the renewal of a lease meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseRenewal {
    /// All that the run has claimed is still its own.
    Kept,
    /// The lease had ended, and others may have taken its claims over: it has claimed nothing.
    NewWorker,
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

/// A lease, between the ledger's thread, which renews it, and the calls. It must be renewed first.
#[derive(Default)]
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
    /// Now, in milliseconds since 1970.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "tests make it jump"))]
    pub(super) fn now(&self) -> i64 {
        #[cfg(test)]
        return settings::now() + self.ahead.load(Ordering::Acquire);
        #[cfg(not(test))]
        settings::now()
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
        let lease = Lease::default();
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
            assert!(lease_after(longest) >= millis(SPARE) + millis(longest));
            assert!(Lease::next_renewal(0) * 3 < millis(SPARE));
        }
    }
}
