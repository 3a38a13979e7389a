//! Whether answers take longer than they did, and whether that is our doing.
//!
//! A service that queues what it cannot do at once refuses nothing: only its latency says that there is too much.

use std::time::Duration;

/// The latencies of an interval, and what is usual.
#[derive(Debug, Default)]
pub(super) struct Latency {
    /// Of this interval, in seconds.
    samples: Vec<f64>,
    /// Of the last interval that had enough.
    last: Option<Latencies>,
    /// The shortest of all intervals: what the service takes when nothing queues.
    usual: Option<Latencies>,
    /// Calls in flight, and what answers took, when it began to be slow or was last looked at.
    slow_since: Option<(f64, f64)>,
}

/// What answers took, in seconds.
#[derive(Debug, Clone, Copy)]
struct Latencies {
    median: f64,
    /// One in [`FAST`] took less.
    fast: f64,
}

/// What an interval's answers said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trend {
    /// As usual, or too few to say.
    Usual,
    /// Longer: no time for more calls in flight.
    Longer,
    /// So long that fewer in flight would be answered as fast.
    Queueing,
}

/// Answers that an interval must have for a median worth the name.
const ENOUGH: usize = 8;
/// More than this are not needed for a median.
const MOST: usize = 256;
/// One in so many answers is faster than what is called fast here. A queue delays everybody, the fast and the middle. Of a
/// service that has some of its answers at hand and not others, either may jump by chance, but hardly both; and fewer in
/// flight would be answered no sooner.
const FAST: usize = 5;
/// Half as long again is more than chance …
const LONGER: f64 = 1.5;
/// … and at twice as long half of the calls in flight only wait in a queue.
const QUEUEING: f64 = 2.0;
/// With so few of the calls in flight left it is time to see whether that has helped …
const OURS: f64 = 0.5;
/// … which it has where answers take so much of what they took; or else it was not our doing.
const SHORTER: f64 = 0.75;
/// What takes less than this is taken to take this long: so short a queue is nobody's trouble, and may be our own machine's.
const LEAST: f64 = 0.010;

impl Latency {
    /// An answer took this long.
    pub(super) fn note(&mut self, latency: Duration) {
        if self.samples.len() < MOST {
            self.samples.push(latency.as_secs_f64());
        }
    }

    /// How long an answer takes now; `None` before there was one.
    pub(super) fn typical(&self) -> Option<Duration> {
        self.last.map(|last| Duration::from_secs_f64(last.median))
    }

    /// The interval is over; `in_flight` calls were allowed in it.
    pub(super) fn interval(&mut self, in_flight: f64) -> Trend {
        if self.samples.len() < ENOUGH {
            // They count with the next interval's.
            if self.last.is_none() {
                self.last = Latencies::of(&mut self.samples.clone());
            }
            return Trend::Usual;
        }
        let Some(times) = Latencies::of(&mut self.samples) else {
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
        if in_flight > began_with * OURS && in_flight > 1.0 {
            return Trend::Queueing;
        }
        if times.median < took * SHORTER {
            // It helps.
            self.slow_since = Some((in_flight, times.median));
            return Trend::Queueing;
        }
        // The service has become slower by itself: that is usual from now on.
        self.usual = Some(times);
        self.slow_since = None;
        Trend::Usual
    }
}

impl Latencies {
    /// Of samples in any order; `None` where there are none.
    fn of(samples: &mut [f64]) -> Option<Self> {
        let mut one_in = |many| {
            let place = samples.len() / many;
            (!samples.is_empty()).then(|| *samples.select_nth_unstable_by(place, f64::total_cmp).1)
        };
        Some(Self {
            median: one_in(2)?.max(LEAST),
            fast: one_in(FAST)?.max(LEAST),
        })
    }

    fn shortest_of_both(self, other: Self) -> Self {
        Self {
            median: self.median.min(other.median),
            fast: self.fast.min(other.fast),
        }
    }

    /// Whether everybody waits for more than so many times as long as usual.
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
    fn what_takes_twice_as_long_queues() {
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
    fn slow_answers_beside_fast_ones_are_no_queue() {
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
    fn few_fast_answers_beside_slow_ones_are_not_what_is_usual() {
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
