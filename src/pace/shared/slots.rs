//! When the calls that the row granted to this worker may start. They are lost if they are not used.

use std::collections::VecDeque;
use std::time::Duration;

/// Granted calls that have not started.
#[derive(Debug, Default)]
pub(super) struct Slots {
    due: VecDeque<Duration>,
}

/// A granted call that is this late is lost: calls that wait for other reasons must not add up to a burst.
const LOST_AFTER: Duration = Duration::from_millis(200);
/// A call may be early by this much, as the timer ticks at this interval.
const TICK: Duration = Duration::from_millis(1);

impl Slots {
    /// Adds calls of which the first is due then, and each further one after this interval.
    pub(super) fn add(&mut self, first: Duration, calls: u32, interval: Duration) {
        self.due
            .extend((0..calls).map(|number| first.saturating_add(interval.saturating_mul(number))));
    }

    /// When the next one is due, if there is one that is not lost.
    pub(super) fn next(&mut self, now: Duration) -> Option<Duration> {
        while self.due.front().is_some_and(|due| *due + LOST_AFTER < now) {
            self.due.pop_front();
        }
        self.due.front().copied()
    }

    /// Uses the next one, if it is due.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        self.next(now).is_some_and(|due| due <= now + TICK) && self.due.pop_front().is_some()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// How many are late.
    pub(super) fn late(&self, now: Duration) -> usize {
        self.due.partition_point(|due| *due < now)
    }

    /// The pace was given up: so are these.
    pub(super) fn clear(&mut self) {
        self.due.clear();
    }
}
