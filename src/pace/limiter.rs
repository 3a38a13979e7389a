//! The rate of calls: the only file that names governor.

use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

/// How many calls may begin in a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// At most so many a second; finite, from [`Rate::LOWEST`] to [`Rate::HIGHEST`].
    PerSecond(f64),
    /// As many as the concurrency allows.
    Unlimited,
    /// As many as the service is found to bear.
    Auto,
}

impl Rate {
    /// One call in 1,000 seconds: slower is a mistake in the unit.
    pub(crate) const LOWEST: f64 = 0.001;
    /// Beyond this the limiter's own clock is too coarse, and no service of this kind is meant.
    pub(crate) const HIGHEST: f64 = 100_000.0;
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let (number, seconds) = match text.split_once('/') {
            None => (text, 1.0),
            Some((number, "s")) => (number, 1.0),
            Some((number, "m")) => (number, 60.0),
            Some((number, "h")) => (number, 3600.0),
            Some(_) => {
                return Err(
                    "allowed are such as `50/s`, `600/m`, `1000/h`, `auto` or `unlimited`"
                        .to_owned(),
                );
            }
        };
        let number: f64 = number
            .trim()
            .parse()
            .map_err(|_| "allowed are such as `50/s`, `600/m`, `1000/h`, `auto` or `unlimited`")?;
        let rate = number / seconds;
        if (Self::LOWEST..=Self::HIGHEST).contains(&rate) {
            Ok(Self::PerSecond(rate))
        } else {
            Err(format!(
                "allowed are {}/s to {}/s, `auto` or `unlimited`",
                Self::LOWEST,
                Self::HIGHEST
            ))
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Auto => f.write_str("auto"),
            Self::PerSecond(rate) if *rate >= 1.0 => write!(f, "{}/s", short(*rate)),
            Self::PerSecond(rate) => write!(f, "{}/m", short(rate * 60.0)),
        }
    }
}

/// Two decimals at most: nobody wants to read `16.666666666666668/m`.
fn short(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Timers tick like that and are late by up to one: a call that comes late may be made up for by one that comes so much
/// early, or only 93 % of 80/s are reached. More would be refused by a service that allows no two calls nearer than its rate.
const TICK: Duration = Duration::from_millis(1);
/// At rates with less than two ticks from call to call nobody counts so strictly, and calls that come within this time may
/// come at once: fewer wake-ups.
const BURST: Duration = Duration::from_millis(10);

/// Lets calls begin at a rate that may change at any time. Time is told, not read: since the run began.
pub(super) struct Limiter {
    bucket: Option<Bucket>,
    now: Told,
    rate: Rate,
    /// When a call was last let through.
    last: Option<Duration>,
}

/// Governor counts whole cells; a call takes as many as make a cell of it no longer than a tick of the timer, so that a
/// burst can be less than a call.
struct Bucket {
    limiter: RateLimiter<NotKeyed, InMemoryState, Told, NoOpMiddleware<Duration>>,
    /// Cells of a call.
    call: NonZeroU32,
    /// Cells that can be had at once.
    burst: NonZeroU32,
}

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        let now = Told::default();
        Self {
            bucket: Bucket::new(rate, &now),
            now,
            rate,
            last: None,
        }
    }

    /// From now on calls begin at this rate. A quota of governor's cannot be changed, so the new one starts as if the
    /// last call had used up its burst: a change never gives anything away, and costs nothing.
    pub(super) fn set(&mut self, rate: Rate) {
        if rate == self.rate {
            return;
        }
        self.rate = rate;
        self.now.0.set(self.last.unwrap_or_default());
        self.bucket = Bucket::new(rate, &self.now);
        if let (Some(Bucket { limiter, burst, .. }), Some(_)) = (&self.bucket, self.last) {
            let _ = limiter.check_n(*burst);
        }
    }

    /// Takes one call, or says how long to wait before asking again.
    pub(super) fn check(&mut self, now: Duration) -> Result<(), Duration> {
        if let Some(Bucket { limiter, call, .. }) = &self.bucket {
            self.now.0.set(now);
            // More than the burst is never asked for.
            if let Ok(checked) = limiter.check_n(*call) {
                checked.map_err(|until| until.wait_time_from(now))?;
            }
        }
        self.last = Some(now);
        Ok(())
    }
}

impl Bucket {
    fn new(rate: Rate, clock: &Told) -> Option<Self> {
        let Rate::PerSecond(rate) = rate else {
            return None;
        };
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

/// A number of cells; the lowest rate has a million in a call.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates"
)]
const fn whole(cells: f64) -> u32 {
    cells as u32
}

/// The time as it was last told, so that there is one clock in the program and tests can make their own.
#[derive(Debug, Clone, Default)]
struct Told(Rc<Cell<Duration>>);

impl Clock for Told {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.get()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_unit() {
        assert_eq!("50/s".parse(), Ok(Rate::PerSecond(50.0)));
        assert_eq!("600/m".parse(), Ok(Rate::PerSecond(10.0)));
        assert_eq!("0.5".parse(), Ok(Rate::PerSecond(0.5)));
        assert_eq!("unlimited".parse(), Ok(Rate::Unlimited));
        for bad in ["0", "-1/s", "NaN", "inf", "1e9/s", "50/d", "fast", ""] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    /// Calls that begin within `seconds` when each asks again as soon as it was told to.
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

    fn limiter(rate: &str) -> Limiter {
        Limiter::new(rate.parse().unwrap())
    }

    #[test]
    fn a_rate_is_reached_and_not_passed() {
        assert!((499..=501).contains(&calls_in(&mut limiter("50/s"), 0, 10)));
        assert!((9_800..=10_050).contains(&calls_in(&mut limiter("1000/s"), 0, 10)));
        assert!((49_000..=50_250).contains(&calls_in(&mut limiter("5000/s"), 0, 10)));
    }

    #[test]
    fn after_an_hour_of_rest_there_is_no_burst() {
        let mut limiter = limiter("50/s");
        assert!(limiter.check(Duration::from_secs(3600)).is_ok());
        assert!(limiter.check(Duration::from_secs(3600)).is_err());
    }

    #[test]
    fn a_rate_that_changes_all_the_time_is_neither_passed_nor_missed() {
        let mut limiter = limiter("50/s");
        let calls: u64 = (0..100)
            .map(|second| {
                limiter.set(Rate::PerSecond(if second % 2 == 0 { 40.0 } else { 60.0 }));
                calls_in(&mut limiter, second, 1)
            })
            .sum();
        assert!((4_900..=5_001).contains(&calls), "{calls}");
    }
}
