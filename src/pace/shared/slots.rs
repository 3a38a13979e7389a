//! When the calls that the row granted to this worker may start. They are lost if they are not used.

use std::collections::VecDeque;
use std::time::Duration;

use crate::pace::limiter::TICK;

/// Granted calls that have not started.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// When each is due, the earliest first.
    due: VecDeque<Duration>,
    /// The least time from one start to the next.
    apart: Duration,
    /// When the next call may start at the earliest.
    not_before: Duration,
}

/// Late calls start at most this many times as fast as granted: they catch up without a burst.
const CATCH_UP: u32 = 4;
/// A granted call that is this late is lost: calls that wait for other reasons must not add up.
const LOST_AFTER: Duration = Duration::from_millis(200);

impl Slots {
    /// Adds calls of which the first is due then, and each further one after this interval.
    pub(super) fn add(&mut self, first: Duration, calls: u32, interval: Duration) {
        self.due
            .extend((0..calls).map(|number| first.saturating_add(interval.saturating_mul(number))));
        // If the row's clock was taken for later before, these may be due before those that are there.
        self.due.make_contiguous().sort_unstable();
        self.apart = interval / CATCH_UP;
    }

    /// When the next one is due, if there is one that is not lost.
    pub(super) fn next(&mut self, now: Duration) -> Option<Duration> {
        while self.due.front().is_some_and(|due| *due + LOST_AFTER < now) {
            self.due.pop_front();
        }
        self.due.front().map(|due| *due.max(&self.not_before))
    }

    /// Uses the next one, if it is due.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        if self.next(now).is_none_or(|due| due > now + TICK) {
            return false;
        }
        self.due.pop_front();
        self.not_before = self.not_before.max(now) + self.apart;
        true
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

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// When calls start, if each starts as soon as it may.
    fn starts(slots: &mut Slots, from: u32, to: u32) -> Vec<u32> {
        (from..to)
            .filter(|at| slots.take(MILLISECOND * *at))
            .collect()
    }

    #[test]
    fn late_calls_catch_up_one_by_one() {
        let mut slots = Slots::default();
        slots.add(MILLISECOND * 100, 3, MILLISECOND * 10);
        // An answer that was on its way for longer: what it grants was due before the others.
        slots.add(MILLISECOND * 70, 3, MILLISECOND * 10);
        assert_eq!(slots.late(MILLISECOND * 95), 3);
        assert_eq!(
            starts(&mut slots, 95, 200),
            [95, 97, 99, 102, 109, 119],
            "a quarter of an interval apart while they are late"
        );
    }

    #[test]
    fn calls_that_are_too_late_are_lost() {
        let mut slots = Slots::default();
        slots.add(MILLISECOND * 100, 3, MILLISECOND * 10);
        assert_eq!(starts(&mut slots, 305, 400), [305, 307]);
    }
}
