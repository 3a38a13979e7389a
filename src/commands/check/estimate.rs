//! How long the calls of a run take, as far as that can be known before the first one.

use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime};

use crate::config::DEFAULT_CONCURRENCY;
use crate::ledger::KnownLimit;
use crate::pace::Rate;

/// How long a call takes in the bounds: typical of a service on the internet, as nothing is known about this one.
pub(super) const LATENCY: Duration = Duration::from_millis(100);

/// The time of a run's calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TimeEstimate {
    /// Calls start at this rate.
    AtRate {
        /// Calls a second.
        rate: f64,
        time: Duration,
        from: RateSource,
    },
    /// The rate that the service accepts is found by the run.
    Between {
        /// With this many calls in flight.
        least: Duration,
        in_flight: u64,
        /// With one call after another.
        most: Duration,
    },
}

/// Where a rate comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RateSource {
    /// `--rate`.
    Option,
    /// The ledger has the limit that an earlier run found then.
    Ledger(SystemTime),
}

impl TimeEstimate {
    /// The estimate for a run at this rate, with as many calls in flight, if the ledger knows this limit.
    pub(super) fn new(
        calls: u64,
        rate: Rate,
        in_flight: Option<NonZeroUsize>,
        known: Option<KnownLimit>,
    ) -> Self {
        let most = in_flight.unwrap_or(DEFAULT_CONCURRENCY).get() as u64;
        // A run without a rate limit does not look at the one that was found.
        let known = known.filter(|_| rate != Rate::Unlimited);
        let asked = match rate {
            Rate::PerSecond(rate) => Some((rate, RateSource::Option)),
            Rate::Auto | Rate::Unlimited => None,
        };
        let found = known.and_then(|known| {
            let rate = known.limit.rate?.value;
            Some((rate, RateSource::Ledger(known.found)))
        });
        let slower = asked.into_iter().chain(found);
        if let Some((rate, from)) = slower.min_by(|(a, _), (b, _)| a.total_cmp(b)) {
            return Self::AtRate {
                rate,
                time: seconds(calls, rate),
                from,
            };
        }
        let in_flight = known.and_then(|known| known.limit.in_flight);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of calls"
        )]
        let in_flight = in_flight.map_or(most, |found| {
            (found.value.round().max(1.0) as u64).min(most)
        });
        Self::Between {
            least: one_by_one(calls.div_ceil(in_flight)),
            in_flight,
            most: one_by_one(calls),
        }
    }
}

/// How long this many calls take, one after another.
fn one_by_one(calls: u64) -> Duration {
    let latency = u64::try_from(LATENCY.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(calls.saturating_mul(latency))
}

/// How long this many calls take at this rate.
fn seconds(calls: u64, rate: f64) -> Duration {
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    let seconds = calls as f64 / rate;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use super::*;
    use crate::telemetry::pace::{FoundLimit, Limit};

    fn known(rate: Option<f64>, in_flight: Option<f64>) -> KnownLimit {
        let found = |value: Option<f64>| value.map(|value| FoundLimit { value, times: 9 });
        KnownLimit {
            limit: Limit {
                rate: found(rate),
                in_flight: found(in_flight),
            },
            found: SystemTime::UNIX_EPOCH,
        }
    }

    fn at_rate(rate: Rate, limit: Option<KnownLimit>) -> (f64, Duration, RateSource) {
        match TimeEstimate::new(1_000, rate, None, limit) {
            TimeEstimate::AtRate { rate, time, from } => (rate, time, from),
            other @ TimeEstimate::Between { .. } => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_slower_of_the_option_and_the_found_limit_counts() {
        let time = Duration::from_secs;
        let ledger = RateSource::Ledger(SystemTime::UNIX_EPOCH);
        let limit = Some(known(Some(50.0), None));
        for (rate, limit, expected) in [
            (
                Rate::PerSecond(10.0),
                None,
                (10.0, time(100), RateSource::Option),
            ),
            (
                Rate::PerSecond(10.0),
                limit,
                (10.0, time(100), RateSource::Option),
            ),
            (Rate::PerSecond(100.0), limit, (50.0, time(20), ledger)),
            (Rate::Auto, limit, (50.0, time(20), ledger)),
        ] {
            assert_eq!(at_rate(rate, limit), expected);
        }
    }

    #[test]
    fn without_a_rate_there_are_bounds() {
        let between = |least, in_flight| TimeEstimate::Between {
            least: Duration::from_millis(least),
            in_flight,
            most: Duration::from_secs(5_120),
        };
        let calls = 51_200;
        let estimate = |rate, limit| TimeEstimate::new(calls, rate, None, limit);
        assert_eq!(estimate(Rate::Auto, None), between(10_000, 512));
        let limit = Some(known(Some(50.0), Some(8.0)));
        assert_eq!(estimate(Rate::Unlimited, limit), between(10_000, 512));
        let limit = Some(known(None, Some(8.0)));
        assert_eq!(estimate(Rate::Auto, limit), between(640_000, 8));
        let sixteen = NonZeroUsize::new(16);
        let fewer = TimeEstimate::new(calls, Rate::Auto, sixteen, None);
        assert_eq!(fewer, between(320_000, 16));
        let few = TimeEstimate::new(3, Rate::Auto, None, None);
        let TimeEstimate::Between { least, .. } = few else {
            panic!("{few:?}")
        };
        assert_eq!(least, LATENCY);
    }
}
