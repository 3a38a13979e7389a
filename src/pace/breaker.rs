//! A circuit breaker: whether the service is there at all. While it is not, one call at a time finds out when it is back
//! (half-open).
//!
//! Times and outcomes are passed in; nothing here waits or makes calls.

use std::collections::VecDeque;
use std::time::Duration;

use super::types::PaceEvent;

/// Counts failures and decides when to stop calling.
#[derive(Debug)]
pub(super) struct CircuitBreaker {
    /// How long the run waits for the service: then a last call is made.
    longest: Duration,
    circuit: Circuit,
    /// Which of the last calls failed.
    last: VecDeque<bool>,
    failed_in_a_row: usize,
    /// When the latest call started of those that were answered.
    last_answered: Duration,
    /// When the first 503 came since the last good answer.
    busy_since: Option<Duration>,
}

#[derive(Debug)]
enum Circuit {
    /// The service is well.
    Closed,
    /// It is taken to be down.
    Open {
        since: Duration,
        /// When the next single call may start.
        next: Duration,
        probes: u32,
        /// Good answers, and bad ones among them, since the bad ones were the more.
        good: u32,
        bad: u32,
    },
}

/// How a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The service answered with a failure.
    ErrorAnswer,
    /// There was no answer.
    NoAnswer,
}

/// Failures in a row that open the circuit: a service that fails one call in three does so once in 59,000 calls.
const FAILED_IN_A_ROW: usize = 10;
/// Failures of three quarters of this many calls open it as well, or of half of them with a bare 503. Where half of them fail in
/// other ways, rows get their verdicts by being tried again.
const LAST: usize = 40;
/// Seconds before the single calls; the last is repeated. A restart takes seconds, an incident minutes.
const PROBES: [u64; 5] = [5, 10, 20, 40, 60];
/// The longest of these waits while the service answers with failures, in seconds. Six calls a minute are no burden to it,
/// and it may fail over certain rows: then about ninety of them can be told from an outage before the run stops waiting.
const WHILE_FAILING: u64 = 10;
/// Good answers that close it, unless bad ones outnumber them meanwhile: a single one may be a load balancer's lucky choice.
const GOOD: u32 = 3;

impl CircuitBreaker {
    /// A closed one, of a run that stops waiting for the service after `longest`.
    pub(super) const fn new(longest: Duration) -> Self {
        Self {
            longest,
            circuit: Circuit::Closed,
            last: VecDeque::new(),
            failed_in_a_row: 0,
            last_answered: Duration::ZERO,
            busy_since: None,
        }
    }

    /// Whether the service is taken to be down.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.circuit, Circuit::Open { .. })
    }

    /// When the next single call may start; `None` while the service is well.
    pub(super) const fn next_probe(&self) -> Option<Duration> {
        match self.circuit {
            Circuit::Open { next, .. } => Some(next),
            Circuit::Closed => None,
        }
    }

    /// A call that started at `began` got an answer that shows that the service works. Returns whether that is news.
    pub(super) fn good(&mut self, began: Duration, now: Duration) -> Option<PaceEvent> {
        self.last_answered = self.last_answered.max(began);
        self.busy_since = None;
        match &mut self.circuit {
            Circuit::Closed => {
                self.note(false);
                None
            }
            // It had started before the last single call.
            Circuit::Open { next, .. } if began < *next => None,
            Circuit::Open { since, good, .. } => {
                *good += 1;
                if *good < GOOD {
                    return None;
                }
                let lasted = now.saturating_sub(*since);
                self.close();
                Some(PaceEvent::Up { lasted })
            }
        }
    }

    /// A call that started at `began` was answered with a bare 503. Whether the service asks for fewer calls, as a proxy does
    /// at its limit: right after a good answer it does, and so it does with calls that were out then, or while any of the
    /// `out` others still are. If fewer calls did not help, it is away. If half of the last calls were refused like this, it is
    /// in trouble; `counts` says whether this call is one of them.
    pub(super) fn is_busy(
        &mut self,
        began: Duration,
        now: Duration,
        out: usize,
        counts: bool,
    ) -> bool {
        let busy_since = *self.busy_since.get_or_insert(now);
        if self.is_open() || self.failed_in_a_row > 0 || self.last.is_empty() {
            return false;
        }
        if began > busy_since && out == 0 {
            return false;
        }
        if counts {
            self.remember(true);
        }
        self.failed() * 2 < LAST
    }

    /// Whether no call was answered that started since then.
    pub(super) fn is_unanswered_since(&self, then: Duration) -> bool {
        self.last_answered < then
    }

    /// Nothing is wrong with the service. Returns since when it was taken to be down.
    pub(super) fn dismiss(&mut self) -> Option<Duration> {
        let Circuit::Open { since, .. } = self.circuit else {
            return None;
        };
        self.close();
        Some(since)
    }

    /// A call that started at `began` failed. Returns whether the service is taken to be down, now or still.
    pub(super) fn bad(
        &mut self,
        began: Duration,
        now: Duration,
        kind: FailureKind,
    ) -> Option<PaceEvent> {
        match &mut self.circuit {
            // A call that hangs says nothing about a service that has answered a later one.
            Circuit::Closed if began < self.last_answered => None,
            Circuit::Closed => {
                self.note(true);
                if self.failed_in_a_row < FAILED_IN_A_ROW && !self.too_many_failed() {
                    return None;
                }
                let next = now + wait(0, kind).min(self.longest);
                self.circuit = Circuit::Open {
                    since: now,
                    next,
                    probes: 0,
                    good: 0,
                    bad: 0,
                };
                Some(down(now, now, next))
            }
            Circuit::Open { next, .. } if began < *next => None,
            Circuit::Open {
                since,
                next,
                probes,
                good,
                bad,
            } => {
                // Good answers in between start the waits over.
                *probes = if *good > 0 { 0 } else { *probes + 1 };
                *bad += u32::from(*good > 0);
                if *bad > *good {
                    (*good, *bad) = (0, 0);
                }
                let rest = (*since + self.longest).saturating_sub(now);
                *next = now + wait(*probes, kind).min(rest);
                Some(down(*since, now, *next))
            }
        }
    }

    fn close(&mut self) {
        *self = Self {
            last_answered: self.last_answered,
            ..Self::new(self.longest)
        };
    }

    fn note(&mut self, failed: bool) {
        self.failed_in_a_row = if failed { self.failed_in_a_row + 1 } else { 0 };
        self.remember(failed);
    }

    /// Whether so many of the last calls failed that it is no accident. A service that gets too many calls is soon in trouble.
    fn too_many_failed(&self) -> bool {
        let most = if self.busy_since.is_some() { 2 } else { 3 };
        self.failed() * 4 >= LAST * most
    }

    /// How many of the last calls failed.
    fn failed(&self) -> usize {
        self.last.iter().filter(|failed| **failed).count()
    }

    fn remember(&mut self, failed: bool) {
        self.last.push_back(failed);
        if self.last.len() > LAST {
            self.last.pop_front();
        }
    }
}

/// The service has been down since then, and the next single call may start at `next`.
const fn down(since: Duration, now: Duration, next: Duration) -> PaceEvent {
    PaceEvent::Down {
        lasted: now.saturating_sub(since),
        next: next.saturating_sub(now),
    }
}

fn wait(probes: u32, kind: FailureKind) -> Duration {
    let seconds = PROBES.get(probes as usize).or(PROBES.last());
    let seconds = seconds.copied().unwrap_or_default();
    Duration::from_secs(match kind {
        FailureKind::ErrorAnswer => seconds.min(WHILE_FAILING),
        FailureKind::NoAnswer => seconds,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const fn second(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn a_bare_503_asks_for_fewer_calls_until_fewer_do_not_help() {
        let mut breaker = CircuitBreaker::new(second(900));
        let mut busy = |began, at, out| breaker.is_busy(second(began), second(at), out, true);
        assert!(!busy(0, 1, 0), "nothing was answered yet");
        breaker.good(second(1), second(2));
        let mut busy = |began, at, out| breaker.is_busy(second(began), second(at), out, true);
        assert!(busy(1, 3, 0));
        assert!(busy(2, 4, 0), "it was out with the first");
        assert!(busy(4, 5, 1), "another one is still out");
        assert!(!busy(4, 5, 0), "it came after the first");
        breaker.good(second(5), second(6));
        assert!(breaker.is_busy(second(6), second(7), 0, true));
        breaker.bad(second(7), second(8), FailureKind::NoAnswer);
        assert!(
            !breaker.is_busy(second(6), second(9), 0, true),
            "it is failing"
        );
    }

    #[test]
    fn half_of_the_calls_answered_with_a_bare_503_are_too_many_for_a_limit() {
        let mut breaker = CircuitBreaker::new(second(900));
        let mut busy = 0;
        for now in (0..100).map(second) {
            breaker.good(now, now);
            if !breaker.is_busy(now, now, 0, true) {
                break;
            }
            busy += 1;
        }
        assert_eq!(busy, LAST / 2 - 1);
        breaker.bad(second(100), second(100), FailureKind::NoAnswer);
        assert!(breaker.is_open());
    }

    #[test]
    fn ten_failures_in_a_row_open_the_circuit_and_three_good_answers_close_it() {
        let mut breaker = CircuitBreaker::new(second(1_000));
        for _ in 0..9 {
            assert_eq!(
                breaker.bad(second(0), second(1), FailureKind::NoAnswer),
                None
            );
        }
        let down = |now, next| Some(super::down(second(1), second(now), second(next)));
        let mut bad = |began, now, how| breaker.bad(second(began), second(now), how);
        assert_eq!(bad(0, 1, FailureKind::NoAnswer), down(1, 6));
        let mut now = 6;
        for (how, wait) in [
            (FailureKind::NoAnswer, 10),
            (FailureKind::NoAnswer, 20),
            (FailureKind::ErrorAnswer, 10),
            (FailureKind::NoAnswer, 60),
            (FailureKind::NoAnswer, 60),
            (FailureKind::ErrorAnswer, 10),
        ] {
            assert_eq!(
                bad(0, now, how),
                None,
                "it started before the last single call"
            );
            assert_eq!(bad(now, now, how), down(now, now + wait));
            now += wait;
        }
        assert_eq!(breaker.good(second(now), second(now)), None);
        assert_eq!(breaker.good(second(now), second(now)), None);
        assert_eq!(
            breaker.good(second(now), second(now)),
            Some(PaceEvent::Up {
                lasted: second(now - 1)
            })
        );
        assert!(!breaker.is_open());
    }

    #[test]
    fn the_last_call_is_made_when_the_longest_wait_ends() {
        let mut breaker = CircuitBreaker::new(second(12));
        let mut now = second(0);
        let mut calls = Vec::new();
        for _ in 0..FAILED_IN_A_ROW + 2 {
            if let Some(PaceEvent::Down { next, .. }) = breaker.bad(now, now, FailureKind::NoAnswer)
            {
                now += next;
                calls.push(now.as_secs());
            }
        }
        assert_eq!(calls, [5, 12, 12]);
    }

    #[test]
    fn three_quarters_of_the_last_forty_failing_open_the_circuit_and_half_of_the_single_calls_close_it()
     {
        let mut breaker = CircuitBreaker::new(second(1_000));
        let opened = (0..LAST).find(|_| {
            breaker.good(second(0), second(0));
            breaker.bad(second(0), second(0), FailureKind::ErrorAnswer);
            breaker.bad(second(0), second(0), FailureKind::ErrorAnswer);
            breaker
                .bad(second(0), second(0), FailureKind::NoAnswer)
                .is_some()
        });
        // Thirty failures, three a round.
        assert_eq!(opened, Some(9));
        let mut now = second(0);
        let closed = (1..LAST).find(|_| {
            now = breaker.next_probe().unwrap();
            if breaker.good(now, now).is_some() {
                return true;
            }
            breaker.bad(now, now, FailureKind::NoAnswer);
            false
        });
        assert_eq!(closed, Some(3));
    }

    #[test]
    fn one_failure_in_two_never_opens_the_circuit() {
        let mut breaker = CircuitBreaker::new(second(1_000));
        for _ in 0..10_000 {
            breaker.good(second(0), second(0));
            assert_eq!(
                breaker.bad(second(0), second(0), FailureKind::ErrorAnswer),
                None
            );
        }
    }
}
