//! Lets calls start at a rate. This is the only file that names governor.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// The timer's resolution. A call may be late by this much, and then the next one may be early by as much: otherwise only
/// 93 % of 80/s are reached. More would be refused by a service that allows no two calls closer together than its rate.
pub(super) const TICK: Duration = Duration::from_millis(1);
/// The burst at rates with less than two ticks between calls: no service counts those so strictly, and calls that start
/// together need fewer wake-ups.
const BURST: Duration = Duration::from_millis(10);

/// Lets calls start at a rate that may change at any time. Times are passed in, and count from the start of the run.
#[derive(Default)]
pub(super) struct Limiter {
    /// None if the rate is not limited.
    bucket: Option<Bucket>,
    rate: Option<f64>,
    now: ManualClock,
    /// When a call was last let through.
    last: Option<Duration>,
}

/// Governor counts whole cells. A call takes enough of them for a cell to be no longer than a tick of the timer, so that a
/// burst can be less than a call.
struct Bucket {
    limiter: RateLimiter<NotKeyed, InMemoryState, ManualClock, NoOpMiddleware<Duration>>,
    /// Cells of a call.
    call: NonZeroU32,
    /// Cells that can be taken together.
    burst: NonZeroU32,
}

impl Limiter {
    /// Sets the calls a second from now on. Governor cannot change a quota, so the new one starts as if the last call had used up
    /// its burst: a change neither gives calls away nor costs any.
    pub(super) fn set(&mut self, rate: Option<f64>) {
        if rate == self.rate {
            return;
        }
        self.rate = rate;
        self.now.0.set(self.last.unwrap_or_default());
        self.bucket = rate.and_then(|rate| Bucket::new(rate, &self.now));
        if let (Some(Bucket { limiter, burst, .. }), Some(_)) = (&self.bucket, self.last) {
            let _ = limiter.check_n(*burst);
        }
    }

    /// Takes one call, or says how long to wait before asking again.
    pub(super) fn check(&mut self, now: Duration) -> Result<(), Duration> {
        if let Some(Bucket { limiter, call, .. }) = &self.bucket {
            self.now.0.set(now);
            // A call is never more than the burst.
            if let Ok(checked) = limiter.check_n(*call) {
                checked.map_err(|until| until.wait_time_from(now))?;
            }
        }
        self.last = Some(now);
        Ok(())
    }
}

impl Bucket {
    fn new(rate: f64, clock: &ManualClock) -> Option<Self> {
        let period = Duration::from_secs_f64(1.0 / rate);
        let call = NonZeroU32::MIN.saturating_add(whole(period.div_duration_f64(TICK)));
        let each = period / call.get();
        let early = if period < TICK * 2 { BURST } else { TICK };
        let burst = call.saturating_add(whole(early.div_duration_f64(each)));
        let quota = Quota::with_period(each)?.allow_burst(burst);
        Some(Self {
            limiter: RateLimiter::direct_with_clock(quota, clock.clone()),
            call,
            burst,
        })
    }
}

/// A number of cells; at the lowest rate a call has a million.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
const fn whole(cells: f64) -> u32 {
    cells as u32
}

/// The time that was last passed in, so that the program has one clock and tests can have their own.
#[derive(Debug, Clone, Default)]
struct ManualClock(Rc<Cell<Duration>>);

impl Clock for ManualClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.get()
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
