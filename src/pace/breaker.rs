//! Whether the service is there at all. When it is not, one call at a time finds out when it is again.
//!
//! Time is told, outcomes are told; nothing here waits or calls.

use std::collections::VecDeque;
use std::time::Duration;

/// Counts failures and decides when to stop calling.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// How long anybody waits for the service: then a last call is made, and not later.
    longest: Duration,
    state: Circuit,
    /// Of the last calls, which failed.
    last: VecDeque<bool>,
    in_a_row: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Circuit {
    #[default]
    Closed,
    Open {
        since: Duration,
        /// When the next single call may go.
        next: Duration,
        probes: u32,
        /// Good ones since the last bad one.
        good: u32,
    },
}

/// How a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// Somebody answered, with a failure.
    ErrorAnswer,
    /// Nobody answered.
    NoAnswer,
}

/// What an outcome changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transition {
    /// Nothing.
    Unchanged,
    /// The service is taken to be down: nothing is sent until then.
    Down { since: Duration, next: Duration },
    /// It is back.
    Up { since: Duration },
}

/// Failures in a row that cannot be chance: a service that fails one call in three does it once in 59,000 calls.
const IN_A_ROW: usize = 10;
/// Or half of so many: a service of which a half is down, behind a balancer.
const LAST: usize = 40;
/// Waits before the single calls, in seconds; the last one is repeated. A restart takes seconds, an incident minutes.
const PROBES: [u64; 5] = [5, 10, 20, 40, 60];
/// The longest wait while somebody answers, in seconds. Six calls a minute are no burden to that, and what it fails over
/// may be the rows: then some ninety of them can be told from an outage before patience ends.
const WHILE_FAILING: u64 = 10;
/// Good answers in a row that end it: one may have been a balancer's lucky choice.
const GOOD: u32 = 3;

impl CircuitBreaker {
    /// One that expects somebody to give up after `longest`.
    pub(super) const fn new(longest: Duration) -> Self {
        Self {
            longest,
            state: Circuit::Closed,
            last: VecDeque::new(),
            in_a_row: 0,
        }
    }

    /// Whether the service is taken to be down.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, Circuit::Open { .. })
    }

    /// When the next single call may go; `None` where the service is well.
    pub(super) const fn next_probe(&self) -> Option<Duration> {
        match self.state {
            Circuit::Open { next, .. } => Some(next),
            Circuit::Closed => None,
        }
    }

    /// A call that began at `began` got an answer that shows a service at work.
    pub(super) fn good(&mut self, began: Duration) -> Transition {
        match &mut self.state {
            Circuit::Closed => {
                self.note(false);
                Transition::Unchanged
            }
            // It was out when the service went down.
            Circuit::Open { next, .. } if began < *next => Transition::Unchanged,
            Circuit::Open { since, good, .. } => {
                *good += 1;
                if *good < GOOD {
                    return Transition::Unchanged;
                }
                let since = *since;
                *self = Self::new(self.longest);
                Transition::Up { since }
            }
        }
    }

    /// Nothing is wrong with the service: since when it was taken to be down.
    pub(super) fn dismiss(&mut self) -> Option<Duration> {
        let Circuit::Open { since, .. } = self.state else {
            return None;
        };
        *self = Self::new(self.longest);
        Some(since)
    }

    /// A call that began at `began` failed.
    pub(super) fn bad(&mut self, began: Duration, now: Duration, how: FailureKind) -> Transition {
        match &mut self.state {
            Circuit::Closed => {
                self.note(true);
                let failed = self.last.iter().filter(|failed| **failed).count();
                if self.in_a_row < IN_A_ROW && failed * 2 < LAST {
                    return Transition::Unchanged;
                }
                let next = now + wait(0, how).min(self.longest);
                self.state = Circuit::Open {
                    since: now,
                    next,
                    probes: 0,
                    good: 0,
                };
                Transition::Down { since: now, next }
            }
            Circuit::Open { next, .. } if began < *next => Transition::Unchanged,
            Circuit::Open {
                since,
                next,
                probes,
                good,
            } => {
                // What answered in between starts the waits anew.
                *probes = if *good > 0 { 0 } else { *probes + 1 };
                *good = 0;
                let rest = (*since + self.longest).saturating_sub(now);
                *next = now + wait(*probes, how).min(rest);
                Transition::Down {
                    since: *since,
                    next: *next,
                }
            }
        }
    }

    fn note(&mut self, failed: bool) {
        self.in_a_row = if failed { self.in_a_row + 1 } else { 0 };
        self.last.push_back(failed);
        if self.last.len() > LAST {
            self.last.pop_front();
        }
    }
}

fn wait(probes: u32, how: FailureKind) -> Duration {
    let seconds = PROBES.get(probes as usize).or(PROBES.last());
    let seconds = seconds.copied().unwrap_or_default();
    Duration::from_secs(match how {
        FailureKind::ErrorAnswer => seconds.min(WHILE_FAILING),
        FailureKind::NoAnswer => seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn ten_failures_in_a_row_open_it_and_three_good_ones_close_it() {
        let mut breaker = CircuitBreaker::new(second(1_000));
        for _ in 0..9 {
            assert_eq!(
                breaker.bad(second(0), second(1), FailureKind::NoAnswer),
                Transition::Unchanged
            );
        }
        let down = |next| Transition::Down {
            since: second(1),
            next: second(next),
        };
        let mut bad = |began, now, how| breaker.bad(second(began), second(now), how);
        assert_eq!(bad(0, 1, FailureKind::NoAnswer), down(6));
        let mut now = 6;
        for (how, wait) in [
            (FailureKind::NoAnswer, 10),
            (FailureKind::NoAnswer, 20),
            (FailureKind::ErrorAnswer, 10),
            (FailureKind::NoAnswer, 60),
            (FailureKind::NoAnswer, 60),
            (FailureKind::ErrorAnswer, 10),
        ] {
            assert_eq!(bad(0, now, how), Transition::Unchanged, "old news");
            assert_eq!(bad(now, now, how), down(now + wait));
            now += wait;
        }
        assert_eq!(breaker.good(second(now)), Transition::Unchanged);
        assert_eq!(breaker.good(second(now)), Transition::Unchanged);
        assert_eq!(
            breaker.good(second(now)),
            Transition::Up { since: second(1) }
        );
        assert!(!breaker.is_open());
    }

    #[test]
    fn the_last_call_is_made_when_patience_ends() {
        let mut breaker = CircuitBreaker::new(second(12));
        let mut now = second(0);
        let mut calls = Vec::new();
        for _ in 0..IN_A_ROW + 2 {
            if let Transition::Down { next, .. } = breaker.bad(now, now, FailureKind::NoAnswer) {
                now = next;
                calls.push(next.as_secs());
            }
        }
        assert_eq!(calls, [5, 12, 12]);
    }

    #[test]
    fn half_of_the_last_forty_open_it() {
        let mut breaker = CircuitBreaker::new(second(1_000));
        let opened = (0..LAST).find(|_| {
            breaker.good(second(0));
            breaker.good(second(0));
            breaker.bad(second(0), second(0), FailureKind::ErrorAnswer);
            breaker.bad(second(0), second(0), FailureKind::NoAnswer) != Transition::Unchanged
        });
        // Twenty failures, two a round.
        assert_eq!(opened, Some(9));
    }

    #[test]
    fn one_in_three_never_opens_it() {
        let mut breaker = CircuitBreaker::new(second(1_000));
        for _ in 0..10_000 {
            breaker.good(second(0));
            breaker.good(second(0));
            assert_eq!(
                breaker.bad(second(0), second(0), FailureKind::ErrorAnswer),
                Transition::Unchanged
            );
        }
    }
}
