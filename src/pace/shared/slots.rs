//! When the calls that the row granted to this worker may start: spread evenly, and lost if they are not used.

use std::collections::VecDeque;
use std::time::Duration;

/// Granted calls that have not started.
#[derive(Debug, Default)]
pub(super) struct Slots {
    due: VecDeque<Duration>,
    /// The last one, used or not.
    last: Duration,
}

/// A granted call that is this late is lost: calls that wait for other reasons must not add up to a burst.
const LOST_AFTER: Duration = Duration::from_millis(100);
/// A call may be early by this much, as the timer ticks at this interval.
const TICK: Duration = Duration::from_millis(1);

impl Slots {
    /// Spreads these calls over a time, after those that are there already.
    pub(super) fn add(&mut self, now: Duration, calls: u32, over: Duration) {
        let Some(each) = over.checked_div(calls) else {
            return;
        };
        let from = now.max((self.last + each).min(now + over));
        for number in 0..calls {
            self.last = from + each * number;
            self.due.push_back(self.last);
        }
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

    /// How many are left.
    pub(super) fn left(&self) -> usize {
        self.due.len()
    }

    /// The pace was given up: so are these.
    pub(super) fn clear(&mut self) {
        self.due.clear();
    }
}
