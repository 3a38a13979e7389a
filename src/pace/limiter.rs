//! Lets calls start at a rate (GCRA: each call says when the next one is due).

use std::time::Duration;

/// The timer's resolution. A call may be late by this much, and then the next one may be early by as much: otherwise only
/// 93 % of 80/s are reached. More would be refused by a service that allows no two calls closer together than its rate.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// The burst at rates with less than two ticks between calls: no service counts those so strictly, and calls that start
/// together need fewer wake-ups.
const BURST: Duration = Duration::from_millis(10);

/// Lets calls start at a rate that may change at any time. Times are passed in, and count from the start of the run.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    /// The time from one call to the next; none if the rate is not limited.
    period: Duration,
    /// When the next call is due.
    due: Duration,
    /// When a call was last let through.
    last: Option<Duration>,
}

impl Limiter {
    /// Sets the calls a second from now on. A change neither gives calls away nor costs any: the next call is due a period
    /// after the last one.
    pub(super) fn set(&mut self, rate: Option<f64>) {
        let period = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
        if period != self.period {
            self.period = period;
            self.due = self
                .last
                .map_or(Duration::ZERO, |last| last + period + self.early());
        }
    }

    /// Takes one call, or says how long to wait before asking again.
    pub(super) fn check(&mut self, now: Duration) -> Result<(), Duration> {
        let wait = self.due.saturating_sub(self.early() + now);
        if !wait.is_zero() {
            return Err(wait);
        }
        self.due = self.due.max(now) + self.period;
        self.last = Some(now);
        Ok(())
    }

    /// How much earlier than due a call may start.
    fn early(&self) -> Duration {
        match self.period {
            Duration::ZERO => Duration::ZERO,
            period if period < TICK * 2 => BURST,
            _ => TICK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that start within `seconds` if each asks again after the wait that it was given.
    fn calls_in(limiter: &mut Limiter, from: u64, seconds: u64) -> u64 {
        let (mut now, mut calls) = (Duration::from_secs(from), 0);
        while now < Duration::from_secs(from + seconds) {
            match limiter.check(now) {
                Ok(()) => calls += 1,
                // A timer ticks at 1 ms.
                Err(wait) => now += wait.max(Duration::from_millis(1)),
            }
        }
        calls
    }

    fn limiter(rate: f64) -> Limiter {
        let mut limiter = Limiter::default();
        limiter.set(Some(rate));
        limiter
    }

    #[test]
    fn a_rate_is_reached_and_not_exceeded() {
        assert!((499..=501).contains(&calls_in(&mut limiter(50.0), 0, 10)));
        assert!((9_800..=10_050).contains(&calls_in(&mut limiter(1_000.0), 0, 10)));
        assert!((49_000..=50_250).contains(&calls_in(&mut limiter(5_000.0), 0, 10)));
    }

    #[test]
    fn a_rate_that_keeps_changing_is_neither_exceeded_nor_missed() {
        let mut limiter = limiter(50.0);
        let calls: u64 = (0..100)
            .map(|second| {
                limiter.set(Some(if second % 2 == 0 { 40.0 } else { 60.0 }));
                calls_in(&mut limiter, second, 1)
            })
            .sum();
        assert!((4_900..=5_001).contains(&calls), "{calls}");
    }
}
