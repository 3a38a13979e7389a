//! Whether answers take longer than they did, and whether our own calls are the reason.

use serde::{Deserialize, Serialize};

use super::search::{GENTLE, LimitSearch};
use super::tally::Tally;

/// The times of answers, in seconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Latency {
    last: Times,
    /// The shortest of all intervals: what the service takes when nothing queues.
    usual: Option<Times>,
    /// Calls in flight and the median when answers became slow.
    slow_since: Option<(f64, f64)>,
}

/// A queue delays the fast answers and the median; a cache makes only one of them jump.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Times {
    median: f64,
    fast: f64,
}

/// What the answers of an interval showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Trend {
    Usual,
    /// This is not the time for more calls in flight.
    Longer,
    /// Fewer calls in flight would be answered as fast.
    Queueing,
}

/// At this many times the usual time calls in flight stop growing: half as long again is more than chance.
const LONGER: f64 = 1.5;
/// At this many times, half of the calls in flight only wait in a queue.
const QUEUEING: f64 = 2.0;
/// Shorter times count as this: so short a queue is harmless, and may be on our own machine.
const SHORTEST: f64 = 0.01;

impl Latency {
    /// The median of the last answers.
    pub(super) const fn median(&self) -> f64 {
        self.last.median
    }

    /// Looks at the answers since the last step, and lowers the calls in flight if they only wait in a queue.
    pub(super) fn step(&mut self, tally: &Tally, in_flight: &mut LimitSearch) -> Trend {
        if tally.fast == 0.0 {
            // Too few to tell more.
            if tally.median > 0.0 {
                self.last.median = tally.median;
            }
            return Trend::Usual;
        }
        let now = Times {
            median: tally.median.max(SHORTEST),
            fast: tally.fast.max(SHORTEST),
        };
        self.last = now;
        let usual = self.usual.map_or(now, |usual| Times {
            median: usual.median.min(now.median),
            fast: usual.fast.min(now.fast),
        });
        self.usual = Some(usual);
        let takes = |times| now.median > usual.median * times && now.fast > usual.fast * times;
        if !takes(LONGER) {
            self.slow_since = None;
            return Trend::Usual;
        }
        if !takes(QUEUEING) {
            return Trend::Longer;
        }
        let calls = in_flight.value();
        let (began_with, took) = *self.slow_since.get_or_insert((calls, now.median));
        if calls * 2.0 <= began_with || calls <= 1.0 {
            // Half of them are gone. If that did not help, the service itself became slower.
            if now.median * QUEUEING >= took * LONGER {
                self.usual = Some(now);
                self.slow_since = None;
                return Trend::Usual;
            }
            self.slow_since = Some((calls, now.median));
        }
        in_flight.slow_to(calls * GENTLE);
        Trend::Queueing
    }
}
