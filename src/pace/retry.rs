//! Whether a row is tried again, and when.

use std::cell::Cell;
use std::time::Duration;

/// The kinds of failed attempts that the policy tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedAttempt {
    /// It never reached the service, so another attempt costs the service nothing.
    NotProcessed,
    /// The service refused it for a reason that may pass.
    Refused,
    /// It may have been billed.
    PerhapsBilled,
    /// Another attempt would end in the same way.
    ForGood,
}

/// How often a request whose outcome is unknown may be sent again.
pub(crate) type Resends = u32;

/// What a row has used up so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Attempts {
    retries: u32,
    resends: Resends,
    failed: bool,
}

impl Attempts {
    /// Whether no attempt of the row has failed so far.
    #[must_use]
    pub(crate) const fn is_first(&self) -> bool {
        !self.failed
    }

    /// An attempt failed, which is not counted against the row.
    pub(crate) const fn forgive(&mut self) {
        self.failed = true;
    }
}

/// The limits of each row, and the retry budget of the run.
#[derive(Debug)]
pub(crate) struct RetryPolicy {
    retries: u32,
    resends: Resends,
    budget: Cell<f64>,
    /// Whether a row was not tried again because the budget was used up, and whether that was said.
    denied: Cell<bool>,
    told: Cell<bool>,
}

/// The upper bound of the first back-off: many failures are over after that …
pub(super) const FIRST_BACK_OFF: Duration = Duration::from_millis(500);
/// … doubling up to this: a restart takes as long.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// Retries that a run has at the start: enough for a hiccup while few calls are in flight. By the time hundreds are in
/// flight, successes have paid for more.
const RESERVE: f64 = 50.0;
/// Retries that each success pays for: a service in trouble gets at most a tenth more calls.
const PER_SUCCESS: f64 = 0.1;
/// The most retries that can be saved up: enough for two hiccups with as many calls in flight as there are by default.
/// Without a ceiling, a good night would pay for hours of hammering.
const MOST_SAVED: f64 = 1_000.0;

/// A back-off that doubles each time, up to the longest.
pub(super) fn doubled(first: Duration, times: u32) -> Duration {
    first
        .saturating_mul(1 << times.min(16))
        .min(LONGEST_BACK_OFF)
}

impl RetryPolicy {
    /// A policy with these limits for each row.
    #[must_use]
    pub(crate) const fn new(retries: u32, resends: Resends) -> Self {
        Self {
            retries,
            resends,
            budget: Cell::new(RESERVE),
            denied: Cell::new(false),
            told: Cell::new(false),
        }
    }

    /// Whether the budget was used up when a row should have been tried again. It is true only the first time.
    pub(crate) fn newly_used_up(&self) -> bool {
        self.denied.get() && !self.told.replace(true)
    }

    /// A call succeeded.
    pub(crate) fn success(&self) {
        self.budget
            .set((self.budget.get() + PER_SUCCESS).min(MOST_SAVED));
    }

    /// The back-off before the row's next attempt; `None` if there is to be none. `fraction` is random, from 0 up to 1: full
    /// jitter spreads rows that failed together.
    pub(crate) fn next(
        &self,
        failed: FailedAttempt,
        attempts: &mut Attempts,
        fraction: f64,
    ) -> Option<Duration> {
        let allowed = match failed {
            FailedAttempt::NotProcessed | FailedAttempt::Refused => attempts.retries < self.retries,
            FailedAttempt::PerhapsBilled => {
                attempts.resends < self.resends && attempts.retries < self.retries
            }
            FailedAttempt::ForGood => false,
        };
        if !allowed {
            return None;
        }
        // A call that never arrived costs the service nothing: an outage must not use up the budget.
        if failed != FailedAttempt::NotProcessed {
            if self.budget.get() < 1.0 {
                self.denied.set(true);
                return None;
            }
            self.budget.set(self.budget.get() - 1.0);
        }
        let ceiling = doubled(FIRST_BACK_OFF, attempts.retries);
        attempts.retries += 1;
        attempts.failed = true;
        attempts.resends += Resends::from(failed == FailedAttempt::PerhapsBilled);
        Some(ceiling.mul_f64(fraction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_offs_double_up_to_the_longest_and_retries_end() {
        let (policy, mut attempts) = (RetryPolicy::new(8, 1), Attempts::default());
        let waits: Vec<_> =
            std::iter::from_fn(|| policy.next(FailedAttempt::Refused, &mut attempts, 1.0))
                .map(|wait| wait.as_millis())
                .collect();
        assert_eq!(
            waits,
            [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
        );
    }

    #[test]
    fn a_request_that_may_have_been_billed_is_sent_again_once() {
        let (policy, mut attempts) = (RetryPolicy::new(4, 1), Attempts::default());
        assert!(
            policy
                .next(FailedAttempt::PerhapsBilled, &mut attempts, 0.0)
                .is_some()
        );
        assert!(
            policy
                .next(FailedAttempt::PerhapsBilled, &mut attempts, 0.0)
                .is_none()
        );
        assert!(
            policy
                .next(FailedAttempt::Refused, &mut attempts, 0.0)
                .is_some(),
            "other retries are left"
        );
        assert!(
            RetryPolicy::new(4, 0)
                .next(FailedAttempt::PerhapsBilled, &mut Attempts::default(), 0.0)
                .is_none()
        );
        assert!(
            policy
                .next(FailedAttempt::ForGood, &mut Attempts::default(), 0.0)
                .is_none()
        );
    }

    #[test]
    fn calls_that_never_arrived_cost_no_budget() {
        let policy = RetryPolicy::new(1, 1);
        for _ in 0..1_000 {
            assert!(
                policy
                    .next(FailedAttempt::NotProcessed, &mut Attempts::default(), 0.0)
                    .is_some()
            );
        }
        assert!(
            policy
                .next(FailedAttempt::Refused, &mut Attempts::default(), 0.0)
                .is_some()
        );
    }

    #[test]
    fn an_empty_budget_ends_retries_and_successes_refill_it() {
        let policy = RetryPolicy::new(4, 1);
        let retries = |policy: &RetryPolicy| {
            (0..10_000)
                .take_while(|_| {
                    policy
                        .next(FailedAttempt::Refused, &mut Attempts::default(), 0.0)
                        .is_some()
                })
                .count()
        };
        assert!(!policy.newly_used_up());
        assert_eq!(retries(&policy), 50);
        assert!(policy.newly_used_up());
        for _ in 0..101 {
            policy.success();
        }
        assert_eq!(retries(&policy), 10);
        assert!(!policy.newly_used_up(), "that was said");
        for _ in 0..100_000 {
            policy.success();
        }
        assert_eq!(retries(&policy), 1_000);
    }
}
