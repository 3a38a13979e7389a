//! The rate of calls: the only file that names governor.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

/// How many calls may begin in a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// At most so many a second; finite, from [`Rate::LOWEST`] to [`Rate::HIGHEST`].
    PerSecond(f64),
    /// As many as the concurrency allows.
    Unlimited,
}

impl Rate {
    /// What a service without published limits will bear: a million rows in under six hours.
    pub const DEFAULT: Self = Self::PerSecond(50.0);
    /// One call in 1,000 seconds: slower is a mistake in the unit.
    pub const LOWEST: f64 = 0.001;
    /// Beyond this the limiter's own clock is too coarse, and no service of this kind is meant.
    pub const HIGHEST: f64 = 100_000.0;
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let (number, seconds) = match text.split_once('/') {
            None => (text, 1.0),
            Some((number, "s")) => (number, 1.0),
            Some((number, "m")) => (number, 60.0),
            Some((number, "h")) => (number, 3600.0),
            Some(_) => {
                return Err(
                    "allowed are such as `50/s`, `600/m`, `1000/h` or `unlimited`".to_owned(),
                );
            }
        };
        let number: f64 = number
            .trim()
            .parse()
            .map_err(|_| "allowed are such as `50/s`, `600/m`, `1000/h` or `unlimited`")?;
        let rate = number / seconds;
        if (Self::LOWEST..=Self::HIGHEST).contains(&rate) {
            Ok(Self::PerSecond(rate))
        } else {
            Err(format!(
                "allowed are {}/s to {}/s, or `unlimited`",
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
            Self::PerSecond(rate) if *rate >= 1.0 => write!(f, "{}/s", short(*rate)),
            Self::PerSecond(rate) => write!(f, "{}/m", short(rate * 60.0)),
        }
    }
}

/// Two decimals at most: nobody wants to read `16.666666666666668/m`.
fn short(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// Time that a burst may make up for. Timers tick at 1 ms: a burst of one call reaches only 93 % of 1,000/s.
const BURST: Duration = Duration::from_millis(10);

/// Lets calls begin at a rate.
pub(super) struct Limiter(
    Option<RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Duration>>>,
);

impl Limiter {
    pub(super) fn new(rate: Rate) -> Self {
        let Rate::PerSecond(rate) = rate else {
            return Self(None);
        };
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and the rate is capped"
        )]
        let burst = NonZeroU32::new((rate * BURST.as_secs_f64()) as u32).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(Duration::from_secs_f64(1.0 / rate))
            .map(|quota| quota.allow_burst(burst));
        Self(quota.map(|quota| RateLimiter::direct_with_clock(quota, TokioClock(Instant::now()))))
    }

    /// Takes one call, or says how long to wait before asking again.
    pub(super) fn check(&self) -> Result<(), Duration> {
        let Some(limiter) = &self.0 else {
            return Ok(());
        };
        limiter
            .check()
            .map_err(|until| until.wait_time_from(limiter.clock().now()))
    }
}

/// Governor's view of tokio's clock, so that there is one clock in the program and tests can pause it.
#[derive(Debug, Clone)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
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
    async fn calls_in(rate: &str, seconds: u64) -> u64 {
        let limiter = Limiter::new(rate.parse().unwrap());
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut calls = 0;
        while Instant::now() < end {
            match limiter.check() {
                Ok(()) => calls += 1,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
        calls
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_reached_and_not_passed() {
        assert!((499..=501).contains(&calls_in("50/s", 10).await));
        assert!((9_800..=10_050).contains(&calls_in("1000/s", 10).await));
        assert!((49_000..=50_250).contains(&calls_in("5000/s", 10).await));
    }

    #[tokio::test(start_paused = true)]
    async fn after_an_hour_of_rest_there_is_no_burst() {
        let limiter = Limiter::new(Rate::PerSecond(50.0));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(limiter.check().is_ok());
        assert!(limiter.check().is_err());
    }
}
