//! Counts of the service's answers since the last step: sums and maxima, so that those of several runs can be added; and
//! the conclusions from the times of its answers and from the quota that its headers name.

use serde::{Deserialize, Serialize};

use super::search::{GENTLE, LimitSearch};
use super::types::CallSignal;
use crate::telemetry::pace::Hint;

/// Counts of a stretch of time. Times are seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Calls that started.
    pub(super) started: u32,
    /// Calls that the service answered, whatever it said.
    pub(super) accepted: u32,
    /// Calls that were refused, except for the sake of a row.
    pub(super) refused: u32,
    /// Of these, the calls that started after the last decrease, without probes.
    pub(super) refused_new: u32,
    /// When the first of these started, …
    pub(super) refused_at: f64,
    /// … how many calls started after it, …
    pub(super) refused_after: u32,
    /// … and how many calls were in flight with it.
    pub(super) refused_level: u32,
    /// The longest wait that the service named; 0 if it named none.
    pub(super) wait: f64,
    /// The most calls in flight when an accepted one started.
    pub(super) accepted_level: u32,
    /// Calls that failed.
    pub(super) failed: u32,
    /// A probe was accepted, …
    pub(super) probe_good: bool,
    /// … was refused, …
    pub(super) probe_refused: bool,
    /// … or failed.
    pub(super) probe_failed: bool,
    /// The median of the answers' times, and the time that one answer in five was faster than; 0 if there were too few.
    pub(super) median: f64,
    pub(super) fast: f64,
    /// The last headers: the calls that are left, and for how many seconds.
    pub(super) left: Option<(f64, f64)>,
    /// A call had to wait for the rate.
    pub(super) rate_used: bool,
    /// A call had to wait for another one to end.
    pub(super) in_flight_used: bool,
}

impl Tally {
    /// Counts a call that ended, unless it was refused for its row's sake. It started at `began` with `level` calls in flight,
    /// and `later` calls have started since; `is_new` if it started after the last decrease. Returns whether a step should
    /// follow immediately.
    pub(super) fn note(
        &mut self,
        signal: CallSignal,
        level: u32,
        began: f64,
        later: u64,
        is_probe: bool,
        is_new: bool,
    ) -> bool {
        match signal {
            CallSignal::Abandoned => return false,
            CallSignal::Answered => {
                self.accepted += 1;
                if is_new {
                    self.accepted_level = self.accepted_level.max(level);
                }
                self.probe_good |= is_probe;
            }
            CallSignal::Throttled(_) | CallSignal::BusyOrAway => {
                if let CallSignal::Throttled(Some(wait)) = signal {
                    self.wait = self.wait.max(wait.as_secs_f64());
                }
                if self.refused == 0 || (self.refused_new == 0 && is_new) {
                    self.refused_at = began;
                    self.refused_after = later.try_into().unwrap_or(u32::MAX);
                    self.refused_level = level;
                }
                self.refused += 1;
                self.refused_new += u32::from(is_new && !is_probe);
                self.probe_refused |= is_probe;
                return true;
            }
            CallSignal::Failed | CallSignal::Unavailable | CallSignal::TimedOut => {
                self.failed += 1;
                self.probe_failed |= is_probe;
            }
        }
        is_probe
    }

    /// Adds another run's counts.
    pub(super) fn add(&mut self, other: &Self) {
        if self.refused == 0 || (self.refused_new == 0 && other.refused_new > 0) {
            self.refused_at = other.refused_at;
            self.refused_level = other.refused_level;
        }
        if self.fast == 0.0 && other.median > 0.0 {
            (self.median, self.fast) = (other.median, other.fast);
        } else if other.fast > 0.0 {
            let (before, new) = (f64::from(self.accepted), f64::from(other.accepted.max(1)));
            let mean = |times: f64, time: f64| (times * before + time * new) / (before + new);
            self.median = mean(self.median, other.median);
            self.fast = mean(self.fast, other.fast);
        }
        self.started += other.started;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.refused_new += other.refused_new;
        self.wait = self.wait.max(other.wait);
        self.accepted_level = self.accepted_level.max(other.accepted_level);
        self.failed += other.failed;
        self.probe_good |= other.probe_good;
        self.probe_refused |= other.probe_refused;
        self.probe_failed |= other.probe_failed;
        self.left = other.left.or(self.left);
        self.rate_used |= other.rate_used;
        self.in_flight_used |= other.in_flight_used;
    }
}

/// The times of answers, in seconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Latency {
    last: Times,
    /// The service's time without a queue: short intervals count far more than long ones.
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

/// The findings from the answers of an interval.
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
/// The usual time moves this share of the way to a shorter one: if times are spread widely, the least of many medians is far
/// below the usual one.
const USUAL_FALL: f64 = 0.2;
/// It rises by this share in an interval with a longer time: a queue that lasts for minutes must not become usual.
const USUAL_RISE: f64 = 0.000_5;
/// Shorter times count as this: so short a queue is harmless, and may be on our own machine.
const SHORTEST_TIME: f64 = 0.01;

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
            median: tally.median.max(SHORTEST_TIME),
            fast: tally.fast.max(SHORTEST_TIME),
        };
        self.last = now;
        let usual = self.usual.map_or(now, |usual| Times {
            median: follow(usual.median, now.median),
            fast: follow(usual.fast, now.fast),
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
        let calls = in_flight.value;
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

fn follow(usual: f64, now: f64) -> f64 {
    if now < usual {
        usual + (now - usual) * USUAL_FALL
    } else {
        usual * (1.0 + USUAL_RISE)
    }
}

/// The quota that headers name, and whether it is believed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct QuotaHint {
    /// Calls a second that they ask for, and until when.
    rate: f64,
    until: f64,
    /// The calls that remained when the window was first named, and those that remain now.
    first_left: f64,
    left: f64,
    /// Calls that were accepted since then.
    accepted: f64,
    is_disbelieved: bool,
}

/// Seconds of the windows that are believed. Headers count whole seconds, so that a rate over fewer is chance; with the rest
/// of a day's quota there would be a call a minute.
const WINDOWS: std::ops::RangeInclusive<f64> = 3.0..=300.0;
/// At least this many calls are made in a window: headers can be wrong, and only a refusal must stop calls.
const LEAST_CALLS: f64 = 5.0;
/// After this many accepted calls the remaining quota must have fallen by half of them, or it does not count calls.
const CALLS_TO_JUDGE: f64 = 10.0;

impl QuotaHint {
    /// Applies the headers since the last step. `in_flight` is how many calls may have been out when they were sent.
    pub(super) fn step(&mut self, now: f64, tally: &Tally, in_flight: f64) {
        self.accepted += f64::from(tally.accepted);
        let Some((left, lasts)) = tally.left.filter(|(_, lasts)| WINDOWS.contains(lasts)) else {
            return;
        };
        // A time of day in whole seconds may be two seconds late, so the next window may start earlier: then more is left than
        // was. Of the calls in flight, the last may have been answered first.
        if now >= self.until || left > self.left + in_flight {
            // The call that brought this is counted afterwards.
            (self.first_left, self.accepted) = (left, -1.0);
            self.until = now + lasts;
        }
        self.left = left;
        let has_stayed =
            self.accepted >= CALLS_TO_JUDGE && left > self.first_left - self.accepted / 2.0;
        let has_more = self.accepted > self.first_left + in_flight;
        // These headers do not count calls.
        self.is_disbelieved |= has_stayed || has_more;
        self.rate = left.max(LEAST_CALLS) / lasts;
    }

    /// Calls a second that headers ask for; `None` if they ask for nothing that is believed.
    pub(super) fn rate(&self, now: f64) -> Option<f64> {
        (!self.is_disbelieved && now < self.until).then_some(self.rate)
    }

    /// Whether headers are believed, and none that was read still holds.
    pub(super) fn is_awaited(&self, now: f64) -> bool {
        !self.is_disbelieved && now >= self.until
    }

    /// Their request, for people to read.
    pub(super) fn to_display(&self, now: f64) -> Hint {
        if self.is_disbelieved {
            return Hint::Disbelieved;
        }
        self.rate(now).map_or(Hint::Silent, Hint::Asks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_whose_times_vary_widely_do_not_seem_to_queue() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut in_flight = LimitSearch::new(20.0, (1.0, 64.0), true, 1.0);
        let mut latency = Latency::default();
        let usual = (0..10_000).filter(|_| {
            // Medians of few answers: the least of them is a third of the usual one.
            let median = 0.15 * 3_f64.powf(random.f64() * 2.0 - 1.0);
            let tally = Tally {
                median,
                fast: median / 2.0,
                ..Tally::default()
            };
            latency.step(&tally, &mut in_flight) == Trend::Usual
        });
        let usual = usual.count();
        assert!(usual > 5_000, "{usual}");
    }

    #[test]
    fn a_window_that_ends_before_its_headers_say_is_followed_by_a_new_one() {
        let mut hint = QuotaHint::default();
        let (mut now, mut left) = (0.0, 600.0);
        for _ in 0..10 {
            // The headers name the end of a minute as a time of day, rounded up, while the answer's clock is rounded down.
            for second in 0..60_u8 {
                let tally = Tally {
                    accepted: 10,
                    left: Some((left, 62.0 - f64::from(second))),
                    ..Tally::default()
                };
                hint.step(now, &tally, 4.0);
                assert!(hint.rate(now).is_some(), "believed at {now} s");
                now += 1.0;
                left -= 10.0;
            }
            left = 600.0;
        }
    }
}
