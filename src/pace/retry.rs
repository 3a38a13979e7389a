//! Whether a row is tried again, and when.

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
    pub(crate) const fn is_first(&self) -> bool {
        !self.failed
    }

    /// An attempt failed, which is not counted against the row.
    pub(crate) const fn forgive(&mut self) {
        self.failed = true;
    }
}

/// The limits of each row. How often all rows are tried is bounded by the gate and the breaker.
#[derive(Debug)]
pub(crate) struct RetryPolicy {
    retries: u32,
    resends: Resends,
}

/// The upper bound of the first back-off: many failures are over after that …
pub(super) const FIRST_BACK_OFF: Duration = Duration::from_millis(500);
/// … doubling up to this: a restart takes as long.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// A back-off that doubles each time, up to the longest.
pub(super) fn doubled(first: Duration, times: u32) -> Duration {
    first
        .saturating_mul(1 << times.min(16))
        .min(LONGEST_BACK_OFF)
}

impl RetryPolicy {
    /// A policy with these limits for each row.
    pub(crate) const fn new(retries: u32, resends: Resends) -> Self {
        Self { retries, resends }
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
}
