//! Whether a known share is refused at half of the pace as well, once a limit was found besides it.
//!
//! Programs that share a limit have each other's calls refused, which can look random. One that takes the refusals for random
//! would go on at a pace at which a third is refused, and leave next to nothing to the others.

use std::time::Duration;

use super::in_order::FirstTryOutcome;
use super::share::MORE;

/// The comparison of two paces.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum PaceComparison {
    /// It is made once the search holds a limit.
    #[default]
    Due,
    /// The slower pace is tried since then, with so many calls, of which so many were refused.
    Running {
        since: Duration,
        calls: u32,
        refused: u32,
    },
    /// The share is refused at the slower pace as well.
    Same,
}

/// The calls that should bring so many refusals are enough, …
const EXPECTED: f64 = 16.0;
/// … and the share is the same once this many were refused: chance brings fewer of 16 once in 10,000 times.
const ENOUGH: u32 = 4;

impl PaceComparison {
    /// What comes next where this share is known, while the search holds a limit or does not: when it has found another one,
    /// that is compared again. Returns whether clearly fewer are refused at the slower pace.
    pub(super) fn go_on(&mut self, now: Duration, is_holding: bool, share: f64) -> bool {
        match *self {
            _ if !is_holding => *self = Self::Due,
            Self::Due if share >= MORE => {
                *self = Self::Running {
                    since: now,
                    calls: 0,
                    refused: 0,
                };
            }
            Self::Running { refused, .. } if refused >= ENOUGH => *self = Self::Same,
            Self::Running { calls, .. } => return f64::from(calls) * share >= EXPECTED,
            Self::Due | Self::Same => {}
        }
        false
    }

    /// A call ended.
    pub(super) fn note(&mut self, outcome: FirstTryOutcome) {
        let Self::Running {
            since,
            calls,
            refused,
        } = self
        else {
            return;
        };
        match outcome {
            FirstTryOutcome::Accepted(began) if began >= *since => *calls += 1,
            FirstTryOutcome::Refused(began) if began >= *since => {
                *calls += 1;
                *refused += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: f64 = 0.2;
    const SECOND: Duration = Duration::from_secs(1);

    /// A comparison that runs for a second.
    fn running() -> PaceComparison {
        let mut comparison = PaceComparison::Due;
        assert!(!comparison.go_on(SECOND, true, SHARE));
        comparison
    }

    #[test]
    fn a_share_that_half_of_the_pace_has_as_well_stays_and_is_not_compared_again() {
        let mut comparison = running();
        for call in 0..40 {
            comparison.note(if call % 5 == 4 {
                FirstTryOutcome::Refused(SECOND)
            } else {
                FirstTryOutcome::Accepted(SECOND)
            });
            assert!(!comparison.go_on(SECOND * 2, true, SHARE), "{call}");
        }
        assert_eq!(comparison, PaceComparison::Same);
        // Another limit was found.
        assert!(!comparison.go_on(SECOND * 3, false, SHARE));
        assert_eq!(comparison, PaceComparison::Due);
    }

    #[test]
    fn a_share_that_half_of_the_pace_has_not_is_a_limit() {
        let mut comparison = running();
        // Calls from before are about the whole pace.
        for _ in 0..10 {
            comparison.note(FirstTryOutcome::Refused(Duration::ZERO));
        }
        for call in 1..80 {
            comparison.note(if call == 40 {
                FirstTryOutcome::Refused(SECOND)
            } else {
                FirstTryOutcome::Accepted(SECOND)
            });
            assert!(!comparison.go_on(SECOND * 2, true, SHARE), "{call}");
        }
        comparison.note(FirstTryOutcome::Accepted(SECOND));
        assert!(comparison.go_on(SECOND * 2, true, SHARE));
    }

    #[test]
    fn a_small_share_is_not_compared() {
        let mut comparison = PaceComparison::Due;
        comparison.go_on(SECOND, true, 0.01);
        assert_eq!(comparison, PaceComparison::Due);
    }
}
