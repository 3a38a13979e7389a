//! When the calls that a shared pace has granted to this worker may start, and what time the others have.

use std::collections::VecDeque;
use std::time::Duration;

use super::limiter::TICK;

/// Calls that were granted and have not started. They are lost if they are not used.
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
            .extend((0..calls).map(|number| first + interval * number));
        // If the common clock was taken for later before, these may be due before those that are there.
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

    /// How many are late.
    pub(super) fn late(&self, now: Duration) -> usize {
        self.due.partition_point(|due| *due < now)
    }

    /// The pace that they were granted at was given up.
    pub(super) fn clear(&mut self) {
        self.due.clear();
    }
}

/// The common clock of all workers, estimated from the fastest replies: how long each is on its way varies.
#[derive(Debug, Default)]
pub(super) struct CommonClock {
    /// By how many seconds it is ahead of the worker's own, which starts with its run.
    ahead: Option<f64>,
}

/// Clocks drift apart by less than this many seconds from one reply to the next.
const DRIFT: f64 = 0.000_1;
/// If a reply seems to have been on its way for so many seconds longer than others, a clock was set, or the way is another one.
const JUMP: f64 = 0.13;

impl CommonClock {
    /// A reply was sent at `sent` by the common clock, and arrived at `now`.
    pub(super) fn replied(&mut self, now: Duration, sent: f64) {
        let ahead = sent - now.as_secs_f64();
        self.ahead = Some(match self.ahead {
            Some(before) if ahead + JUMP >= before => ahead.max(before - DRIFT),
            _ => ahead,
        });
    }

    /// The common time, in seconds.
    pub(super) fn there(&self, here: Duration) -> f64 {
        here.as_secs_f64() + self.ahead.unwrap_or(0.0)
    }

    /// A common time by the worker's clock.
    pub(super) fn here(&self, there: f64) -> Duration {
        let here = there - self.ahead.unwrap_or(0.0);
        Duration::try_from_secs_f64(here.max(0.0)).unwrap_or(Duration::MAX)
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

    #[test]
    fn replies_that_take_longer_change_little_until_a_clock_was_set() {
        let mut clock = CommonClock::default();
        let mut here = |now: u64, sent: f64, time: f64| {
            clock.replied(Duration::from_millis(now), sent);
            clock.here(time).as_micros()
        };
        assert_eq!(here(110, 5.1, 5.2), 210_000);
        assert_eq!(here(240, 5.2, 5.2), 210_100, "30 ms later");
        assert_eq!(here(305, 5.3, 5.2), 205_000, "sooner");
        assert_eq!(here(405, 3.4, 3.5), 505_000, "set");
    }
}
