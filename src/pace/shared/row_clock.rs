//! Converts times of the row's clock to those of the worker's.

use std::time::Duration;

/// The row's clock, estimated from the fastest answers: how long each is on its way varies.
#[derive(Debug, Default)]
pub(super) struct RowClock {
    /// How far it is ahead of the worker's.
    ahead: Duration,
}

/// Clocks drift apart by less than this from one answer to the next.
const DRIFT: Duration = Duration::from_micros(100);
/// If an answer seems to have been on its way for this much longer than others, a clock was set, or the way is another one.
const JUMP: Duration = Duration::from_millis(130);

impl RowClock {
    /// The row sent an answer at `sent` by its clock, which came at `now`.
    pub(super) fn answered(&mut self, now: Duration, sent: Duration) {
        let ahead = sent.saturating_sub(now);
        self.ahead = if ahead + JUMP < self.ahead {
            ahead
        } else {
            ahead.max(self.ahead.saturating_sub(DRIFT))
        };
    }

    /// This time of the row's clock by the worker's.
    pub(super) const fn here(&self, time: Duration) -> Duration {
        time.saturating_sub(self.ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_take_longer_change_little_until_a_clock_was_set() {
        let ms = Duration::from_millis;
        let mut clock = RowClock::default();
        clock.answered(ms(110), ms(5_100));
        assert_eq!(clock.here(ms(5_200)), ms(210));
        clock.answered(ms(240), ms(5_200));
        assert_eq!(clock.here(ms(5_200)), ms(210) + DRIFT, "30 ms later");
        clock.answered(ms(305), ms(5_300));
        assert_eq!(clock.here(ms(5_200)), ms(205), "sooner");
        clock.answered(ms(405), ms(3_400));
        assert_eq!(clock.here(ms(3_500)), ms(505), "set");
    }
}
