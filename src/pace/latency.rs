//! Whether answers take longer than they did, and whether our calls are the reason.
//!
//! A service that queues the calls it cannot handle yet refuses nothing. Only its latency says that there are too many
//! (the gradient of the latency, as in Vegas).

use std::time::Duration;

/// The latencies of an interval, and the usual ones.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// Seconds that the answers of this interval took.
    samples: Vec<f64>,
    /// The last interval that had enough answers.
    last: Option<AnswerTimes>,
    /// The shortest of all intervals: what the service takes when nothing queues.
    usual: Option<AnswerTimes>,
    /// Calls in flight and the median when answers became slow, or when that was last looked at.
    slow_since: Option<(f64, f64)>,
}

/// What answers took, in seconds.
#[derive(Debug, Clone, Copy)]
struct AnswerTimes {
    median: f64,
    /// One answer in [`FAST_ONE_IN`] was faster.
    fast: f64,
}

/// What the answers of an interval showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trend {
    /// They took as long as usual, or were too few to tell.
    Usual,
    /// They took longer: this is not the time for more calls in flight.
    Longer,
    /// They took so long that fewer calls in flight would be answered as fast.
    Queueing,
}

/// Answers that an interval must have: the median of fewer is chance.
const ENOUGH: usize = 8;
/// Answers of an interval that are looked at: more do not make the median better.
const MOST_SAMPLES: usize = 256;
/// An answer is fast if only one in this many is faster. A queue delays the fast answers and the median. If a service has
/// some answers in a cache, either may jump by chance, but hardly both, and fewer calls would be answered no sooner.
const FAST_ONE_IN: usize = 5;
/// At this many times the usual latency calls in flight stop growing: half as long again is more than chance …
const LONGER: f64 = 1.5;
/// … and at this many times, half of the calls in flight only wait in a queue.
const QUEUEING: f64 = 2.0;
/// Shorter latencies, in seconds, count as this one: so short a queue is harmless, and may be on our own machine.
const SHORTEST: f64 = 0.010;

impl Latency {
    /// An answer took this long.
    pub(super) fn note(&mut self, latency: Duration) {
        if self.samples.len() < MOST_SAMPLES {
            self.samples.push(latency.as_secs_f64());
        }
    }

    /// How long an answer takes now; `None` before the first one.
    pub(super) fn typical(&self) -> Option<Duration> {
        self.last.map(|last| Duration::from_secs_f64(last.median))
    }

    /// The interval is over, in which `in_flight` calls were allowed.
    pub(super) fn interval(&mut self, in_flight: f64) -> Trend {
        if self.samples.len() < ENOUGH {
            // They count towards the next interval.
            if self.last.is_none() {
                self.last = AnswerTimes::of(&mut self.samples.clone());
            }
            return Trend::Usual;
        }
        let Some(times) = AnswerTimes::of(&mut self.samples) else {
            return Trend::Usual;
        };
        self.samples.clear();
        self.last = Some(times);
        let usual = self
            .usual
            .map_or(times, |usual| usual.shortest_of_both(times));
        self.usual = Some(usual);
        if !times.are_longer(usual, LONGER) {
            self.slow_since = None;
            return Trend::Usual;
        }
        if !times.are_longer(usual, QUEUEING) {
            return Trend::Longer;
        }
        let (began_with, took) = *self.slow_since.get_or_insert((in_flight, times.median));
        if in_flight * QUEUEING > began_with && in_flight > 1.0 {
            return Trend::Queueing;
        }
        // What only waited in a queue is gone: from twice the usual latency it should have fallen below what is longer.
        if times.median * QUEUEING < took * LONGER {
            self.slow_since = Some((in_flight, times.median));
            return Trend::Queueing;
        }
        // The service itself became slower: these times are the usual ones from now on.
        self.usual = Some(times);
        self.slow_since = None;
        Trend::Usual
    }
}

impl AnswerTimes {
    /// Of samples in any order; `None` if there are none.
    fn of(samples: &mut [f64]) -> Option<Self> {
        let mut one_in = |many| {
            let place = samples.len() / many;
            (!samples.is_empty()).then(|| *samples.select_nth_unstable_by(place, f64::total_cmp).1)
        };
        Some(Self {
            median: one_in(2)?.max(SHORTEST),
            fast: one_in(FAST_ONE_IN)?.max(SHORTEST),
        })
    }

    fn shortest_of_both(self, other: Self) -> Self {
        Self {
            median: self.median.min(other.median),
            fast: self.fast.min(other.fast),
        }
    }

    /// Whether both are more than this many times the usual ones.
    fn are_longer(self, usual: Self, times: f64) -> bool {
        self.median > usual.median * times && self.fast > usual.fast * times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(latency: &mut Latency, milliseconds: u64, in_flight: f64) -> Trend {
        for _ in 0..ENOUGH {
            latency.note(Duration::from_millis(milliseconds));
        }
        latency.interval(in_flight)
    }

    #[test]
    fn answers_that_take_twice_as_long_queue() {
        let mut latency = Latency::default();
        assert_eq!(interval(&mut latency, 100, 4.0), Trend::Usual);
        assert_eq!(interval(&mut latency, 140, 6.0), Trend::Usual);
        assert_eq!(interval(&mut latency, 160, 8.0), Trend::Longer);
        assert_eq!(interval(&mut latency, 210, 10.0), Trend::Queueing);
        assert_eq!(latency.typical(), Some(Duration::from_millis(210)));
    }

    #[test]
    fn a_service_that_stays_slow_with_half_of_the_calls_is_slow_by_itself() {
        let mut latency = Latency::default();
        assert_eq!(interval(&mut latency, 100, 10.0), Trend::Usual);
        for in_flight in [10.0, 9.0, 8.0, 6.0] {
            assert_eq!(interval(&mut latency, 300, in_flight), Trend::Queueing);
        }
        assert_eq!(interval(&mut latency, 300, 5.0), Trend::Usual);
        assert_eq!(interval(&mut latency, 310, 8.0), Trend::Usual);
    }

    #[test]
    fn a_queue_that_shrinks_with_the_calls_in_flight_is_still_one() {
        let mut latency = Latency::default();
        assert_eq!(interval(&mut latency, 100, 4.0), Trend::Usual);
        for (in_flight, milliseconds) in [(64.0, 1_600), (31.0, 800), (15.0, 400), (9.0, 225)] {
            let trend = interval(&mut latency, milliseconds, in_flight);
            assert_eq!(trend, Trend::Queueing, "{in_flight}");
        }
    }

    #[test]
    fn slow_answers_beside_fast_ones_are_not_a_queue() {
        let mut latency = Latency::default();
        let mut mixed = |fast: usize, slow: usize| {
            for (answers, milliseconds) in [(fast, 20), (slow, 200)] {
                for _ in 0..answers {
                    latency.note(Duration::from_millis(milliseconds));
                }
            }
            latency.interval(10.0)
        };
        for (fast, slow) in [(9, 3), (5, 7), (3, 9), (6, 6), (7, 5)] {
            assert_eq!(mixed(fast, slow), Trend::Usual);
        }
    }

    #[test]
    fn a_few_fast_answers_beside_slow_ones_are_not_the_usual() {
        let mut latency = Latency::default();
        for fast in [3, 2, 1, 0, 2] {
            for answer in 0..10 {
                latency.note(Duration::from_millis(if answer < fast { 20 } else { 200 }));
            }
            assert_eq!(latency.interval(10.0), Trend::Usual, "{fast} of 10");
        }
    }

    #[test]
    fn a_few_slow_answers_say_nothing() {
        let mut latency = Latency::default();
        interval(&mut latency, 100, 10.0);
        for _ in 0..3 {
            latency.note(Duration::from_secs(5));
        }
        assert_eq!(latency.interval(10.0), Trend::Usual);
        assert_eq!(interval(&mut latency, 100, 10.0), Trend::Usual);
    }
}
