//! The types that this module and its callers exchange: the user's limits (`--rate`), whether a call may start, how it ended,
//! and what its end changed.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use crate::telemetry::pace::{FoundLimit, Pause};

/// The pace that the user allows, and the limit to start from.
#[derive(Debug, Clone, Copy)]
pub struct PaceLimits {
    /// The most calls a second.
    pub rate: Rate,
    /// The most calls in flight.
    pub in_flight: NonZeroUsize,
    /// The limit that an earlier run found. It is ignored if the user allows less.
    pub remembered: FoundLimit,
    /// How long to wait for a service that accepts nothing, whether it refuses calls or is down.
    pub max_wait: Duration,
}

/// How a call ended, as far as it matters for the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallSignal {
    /// The service did its work, whatever it said.
    Answered,
    /// It asked for fewer calls, and perhaps named a time to wait.
    Throttled(Option<Duration>),
    /// A 503 without a time to come back: proxies answer so to calls beyond a limit, and also if the service is down.
    BusyOrAway,
    /// It answered with a failure.
    Failed,
    /// It could not be reached, or a proxy answered that it is down.
    Unavailable,
    /// There was no answer in time.
    TimedOut,
    /// The call was given up, and says nothing about the service.
    Abandoned,
}

/// The rest of the service's quota, as an answer's headers name it. It can slow calls down, never speed them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Calls that are left.
    pub calls: u64,
    /// How long they must last.
    pub lasts: Duration,
}

/// A call that is out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) began: Duration,
    /// Its number in the run, from 1.
    pub(super) number: u64,
    /// How many calls were in flight when it started, with it; if peers share the pace, those of all.
    pub(super) level: u32,
    /// When the pace had last been decreased, in seconds: what led to a later decrease says nothing about this call.
    pub(super) decreased_at: f64,
    /// It is a probe that finds out whether a service that is down is back.
    pub(super) in_outage: bool,
}

/// Whether a call may start.
#[derive(Debug, Clone, Copy)]
pub(super) enum Admission {
    /// It starts now.
    Admitted(Call),
    /// It may ask again then.
    NotBefore(Duration),
    /// It may ask again when something has changed: another call has ended, or a shared pace has granted more.
    OnChange,
}

/// What the end of a call changed for all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaceEvent {
    /// All calls pause.
    Paused(Pause),
    /// Only the refused row waits, at least this long: its refusal says nothing about the pace.
    RowWaits(Duration),
    /// The service is taken to be down.
    Down {
        /// For how long it has been down.
        lasted: Duration,
        /// How long until the next probe.
        next: Duration,
    },
    /// The service is back.
    Up {
        /// For how long it was down.
        lasted: Duration,
    },
}

/// The timer's resolution. A call may be late by this much, and then the next one may be early by as much: otherwise only
/// 93 % of 80/s are reached. More would be refused by a service that allows no two calls closer together than its rate.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// A number of calls, rounded down.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is positive, and a larger number means no limit"
)]
pub(super) const fn whole(calls: f64) -> u32 {
    calls as u32
}

/// The most calls that may start in a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// A maximum for each second; finite, from [`Rate::LOWEST`] to [`Rate::HIGHEST`].
    PerSecond(f64),
    /// Whatever the calls in flight allow.
    Unlimited,
    /// The rate that the service turns out to accept.
    Auto,
    /// This share of that rate, above 0 and below 1.
    Share(f64),
}

impl Rate {
    /// One call in 1,000 seconds: a slower rate is a mistake in the unit.
    pub(crate) const LOWEST: f64 = 0.001;
    /// Beyond this the timer is far too coarse, and no validation service is meant.
    pub(crate) const HIGHEST: f64 = 100_000.0;
}

/// The notation of a rate, for messages.
const EXAMPLES: &str =
    "expected a rate such as `50/s`, `600/m` or `1000/h`, or `auto`, `auto:80%` or `unlimited`";
/// The least share in percent: with less, a limit of one call a second would have a call every ten seconds.
const LEAST_SHARE: f64 = 10.0;

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if let Some(share) = text.strip_prefix("auto:") {
            let percent = share
                .strip_suffix('%')
                .and_then(|number| number.parse().ok());
            return match percent {
                Some(100.0) => Ok(Self::Auto),
                Some(percent) if (LEAST_SHARE..100.0).contains(&percent) => {
                    Ok(Self::Share(percent / 100.0))
                }
                _ => Err(format!(
                    "expected `auto:` and a share from {LEAST_SHARE} % to 100 %, such as `auto:80%`"
                )),
            };
        }
        let (number, seconds) = match text.split_once('/') {
            None => (text, 1.0),
            Some((number, "s")) => (number, 1.0),
            Some((number, "m")) => (number, 60.0),
            Some((number, "h")) => (number, 3600.0),
            Some(_) => return Err(EXAMPLES.to_owned()),
        };
        let number: f64 = number.trim().parse().map_err(|_| EXAMPLES)?;
        let rate = number / seconds;
        if (Self::LOWEST..=Self::HIGHEST).contains(&rate) {
            Ok(Self::PerSecond(rate))
        } else {
            Err(format!(
                "expected a rate from {}/s to {}/s, or `auto` or `unlimited`",
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
            Self::Share(share) => write!(f, "auto:{}%", short(share * 100.0)),
            Self::PerSecond(rate) if *rate >= 1.0 => write!(f, "{}/s", short(*rate)),
            Self::PerSecond(rate) => write!(f, "{}/m", short(rate * 60.0)),
        }
    }
}

/// At most two decimals: `16.67/m`, not `16.666666666666668/m`.
fn short(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_unit() {
        assert_eq!("50/s".parse(), Ok(Rate::PerSecond(50.0)));
        assert_eq!("600/m".parse(), Ok(Rate::PerSecond(10.0)));
        assert_eq!("0.5".parse(), Ok(Rate::PerSecond(0.5)));
        assert_eq!("unlimited".parse(), Ok(Rate::Unlimited));
        assert_eq!("auto:80%".parse(), Ok(Rate::Share(0.8)));
        assert_eq!(Rate::Share(0.8).to_string(), "auto:80%");
        assert_eq!("auto:100%".parse(), Ok(Rate::Auto));
        for bad in [
            "0",
            "-1/s",
            "NaN",
            "inf",
            "1e9/s",
            "50/d",
            "fast",
            "",
            "auto:0%",
            "auto:101%",
            "auto:80",
        ] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }
}
