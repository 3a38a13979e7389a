//! The share of calls that the service refuses at any pace: its own, which says nothing of a limit.
//!
//! More refusals than that are a hypothesis like any other: the pace brings them. It is checked on so many calls at the
//! pace as it is and then at half of it. Where the slower pace brings clearly fewer, they were the pace's; where not, they are the
//! service's. The same check is made from time to time of the share itself. Time is told.

use std::time::Duration;

use super::in_order::{FirstTryOutcome, InOrder};
use super::throughput::SPARE;

/// What a service refuses at any pace.
#[derive(Debug)]
pub(super) struct RandomShare {
    share: f64,
    /// How many calls it rests on.
    calls: f64,
    stage: ShareCheck,
    /// What speaks for more refusals than that: a cumulative sum of log-likelihood ratios (CUSUM).
    excess: f64,
    /// What the share was when nothing spoke for more.
    before: f64,
    /// What it was when it was found or last checked: what creeps up is not to hide a limit.
    checked: f64,
    /// Calls accepted since the last refusal.
    calm: f64,
    /// Refusals are answered sooner than calls are accepted: they are looked at in the order in which the calls began.
    outcomes: InOrder,
    /// How long the next check waits.
    wait: Duration,
}

#[derive(Debug, Clone, Copy)]
enum ShareCheck {
    /// The share is checked then.
    Known { until: Duration },
    /// Calls are counted at the pace as it is.
    Usual { seen: PaceSample },
    /// And at a slower one.
    Slower { usual: PaceSample, seen: PaceSample },
}

/// Calls that began at one pace.
#[derive(Debug, Clone, Copy)]
struct PaceSample {
    since: Duration,
    pace: f64,
    calls: f64,
    refused: f64,
}

/// What a check has shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LimitShown {
    /// Calls a second that are borne …
    pub(super) borne: f64,
    /// … and that are not.
    pub(super) refused: f64,
    /// Whether the service refuses none of its own.
    pub(super) none_own: bool,
}

/// A service that refuses more than that is not left in peace by asking more.
pub(super) const HIGHEST_SHARE: f64 = 0.4;
/// After the calls that should have brought so many refusals without any, there are none: by chance once in 160,000 times.
const GONE: f64 = 12.0;
/// A share that is higher by a third and one in fifty is told from the known one …
const HIGHER: f64 = 4.0 / 3.0;
const MORE: f64 = 0.02;
/// … when it is so much likelier (its logarithm): by chance some once in a million calls.
const SURE: f64 = 12.0;
/// How long the first check of a share waits …
const FIRST_CHECK: Duration = Duration::from_secs(30);
/// … doubling with each that finds it as it was, up to this.
const LAST_CHECK: Duration = Duration::from_secs(30 * 60);
/// The slower pace in a check, as a share of the usual one.
const SLOWER: f64 = 0.5;
/// At each pace so many refusals are waited for, or the calls that should bring them …
const EXPECTED: f64 = 40.0;
/// … or fewer, where they are too large a share …
const FEWEST_REFUSED: f64 = 20.0;
/// … but no longer than that: rarer refusals cost little.
const LONGEST_CHECK: Duration = Duration::from_secs(20);
/// So many standard deviations fewer at the slower pace are no chance, but once in 150 times.
const FEWER: f64 = 2.5;
/// With less than this part of the refusals that should have been there are none, where those are as many as this at least: by
/// chance once in 400 times.
const NEXT_TO_NONE: f64 = 0.25;
const FEWEST_EXPECTED: f64 = 8.0;
/// The share follows what is seen over the calls that bring so many refusals.
const REFUSALS_REMEMBERED: f64 = 100.0;

impl RandomShare {
    /// `refused` of `calls` were refused at ever lower paces. From now on calls count from the number `first`.
    pub(super) const fn new(now: Duration, first: u64, refused: f64, calls: f64) -> Self {
        Self {
            share: refused / calls,
            calls,
            stage: ShareCheck::Known {
                until: now.saturating_add(FIRST_CHECK),
            },
            excess: 0.0,
            before: refused / calls,
            checked: refused / calls,
            calm: 0.0,
            outcomes: InOrder::from(first),
            wait: FIRST_CHECK,
        }
    }

    pub(super) const fn share(&self) -> f64 {
        self.share
    }

    /// Whether there are no such refusals any more.
    pub(super) fn is_gone(&self) -> bool {
        self.calm * self.checked > GONE
    }

    /// A call ended.
    pub(super) fn note(&mut self, number: u64, outcome: FirstTryOutcome) {
        self.outcomes.end(number, outcome);
        while let Some(outcome) = self.outcomes.next() {
            match outcome {
                FirstTryOutcome::Accepted(began) => self.count(began, 0.0),
                FirstTryOutcome::Refused(began) => self.count(began, 1.0),
                FirstTryOutcome::NotCounted => {}
            }
        }
    }

    fn count(&mut self, began: Duration, refused: f64) {
        match &mut self.stage {
            ShareCheck::Usual { seen } | ShareCheck::Slower { seen, .. } => {
                seen.count(began, refused);
            }
            ShareCheck::Known { .. } if self.excess > SURE => {}
            ShareCheck::Known { .. } => {
                let higher = (self.before * HIGHER + MORE).min(0.9);
                self.excess += if refused > 0.0 {
                    (higher / self.before).ln()
                } else {
                    ((1.0 - higher) / (1.0 - self.before)).ln()
                };
                self.excess = self.excess.max(0.0);
                self.calls = (self.calls + 1.0).min(REFUSALS_REMEMBERED / self.share);
                self.share += (refused - self.share) / self.calls;
                if self.excess <= 0.0 {
                    self.before = self.share;
                }
            }
        }
        self.calm = if refused > 0.0 { 0.0 } else { self.calm + 1.0 };
    }

    /// The pace to be kept to while it is checked, where `used` is the one that calls are made at.
    pub(super) fn slowed(&mut self, now: Duration, used: f64) -> Option<f64> {
        match self.stage {
            ShareCheck::Known { until } if now >= until || self.is_more() => {
                self.excess = 0.0;
                // The excess itself must not count towards the share.
                self.share = self.before;
                self.stage = ShareCheck::Usual {
                    seen: PaceSample::begin(now, used),
                };
            }
            ShareCheck::Usual { seen } if seen.is_enough(now, self.share) => {
                self.stage = ShareCheck::Slower {
                    usual: seen,
                    seen: PaceSample::begin(now, seen.pace * SLOWER),
                };
            }
            _ => {}
        }
        match self.stage {
            ShareCheck::Known { .. } => None,
            ShareCheck::Usual { seen } | ShareCheck::Slower { seen, .. } => Some(seen.pace),
        }
    }

    /// Whether more are refused than when the share was last checked.
    fn is_more(&self) -> bool {
        self.excess > SURE || self.share > self.checked * HIGHER + MORE
    }

    /// What a check has shown, if it is over and has shown a limit.
    pub(super) fn limited(&mut self, now: Duration) -> Option<LimitShown> {
        let (usual, seen) = match self.stage {
            ShareCheck::Known { .. } => return None,
            // So much is a limit, whatever a slower pace brings.
            ShareCheck::Usual { seen } => {
                let too_much = seen.refused >= FEWEST_REFUSED && seen.share() > HIGHEST_SHARE;
                return too_much.then(|| self.far_too_much(now, seen));
            }
            ShareCheck::Slower { usual, seen, .. } => (usual, seen),
        };
        if !seen.is_enough(now, self.share.max(usual.share())) {
            return None;
        }
        if seen.share() > HIGHEST_SHARE {
            return Some(self.far_too_much(now, seen));
        }
        self.stage = ShareCheck::Known {
            until: now + self.wait,
        };
        if seen.is_fewer_than(usual) {
            return Some(LimitShown {
                borne: seen.pace,
                refused: usual.pace,
                none_own: seen.is_none_of(self.share),
            });
        }
        self.wait = (self.wait * 2).min(LAST_CHECK);
        self.calls = usual.calls + seen.calls;
        self.share = (usual.refused + seen.refused) / self.calls;
        self.before = self.share;
        self.checked = self.share;
        None
    }

    /// More than that is accepted by chance, or by what a bucket has saved up.
    fn far_too_much(&mut self, now: Duration, seen: PaceSample) -> LimitShown {
        self.stage = ShareCheck::Known {
            until: now + self.wait,
        };
        let accepted = (seen.calls - seen.refused).max(1.0) / seen.calls;
        LimitShown {
            borne: seen.pace * accepted * SPARE,
            refused: seen.pace,
            none_own: false,
        }
    }
}

impl PaceSample {
    const fn begin(now: Duration, pace: f64) -> Self {
        Self {
            since: now,
            pace,
            calls: 0.0,
            refused: 0.0,
        }
    }

    fn count(&mut self, began: Duration, refused: f64) {
        if began >= self.since {
            self.calls += 1.0;
            self.refused += refused;
        }
    }

    fn is_enough(&self, now: Duration, share: f64) -> bool {
        self.refused.max(self.calls * share) >= EXPECTED
            || (now >= self.since + LONGEST_CHECK && self.refused > 0.0 && self.calls * share > 1.0)
    }

    fn share(&self) -> f64 {
        self.refused / self.calls.max(1.0)
    }

    /// Whether next to none were refused where this share should have been.
    fn is_none_of(&self, share: f64) -> bool {
        let expected = self.calls * share;
        expected >= FEWEST_EXPECTED && self.refused < expected * NEXT_TO_NONE
    }

    /// Whether so many fewer were refused that it is no chance.
    fn is_fewer_than(&self, other: Self) -> bool {
        let share = (self.refused + other.refused) / (self.calls + other.calls);
        let deviation = share * (1.0 - share) * (1.0 / self.calls + 1.0 / other.calls);
        other.share() - self.share() > FEWER * deviation.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A service that refuses every `nth` call, and what is above `limit` calls a second. All times are a check's.
    struct Service {
        own: RandomShare,
        nth: u64,
        limit: f64,
        calls: u64,
        now: Duration,
        /// What the limit accepts is due by now.
        due: f64,
    }

    impl Service {
        fn new(nth: u64, limit: f64) -> Self {
            Self {
                own: RandomShare::new(Duration::ZERO, 1, 5.0, 80.0),
                nth,
                limit,
                calls: 0,
                now: Duration::ZERO,
                due: 0.0,
            }
        }

        /// Makes calls at `pace`, or slower while it is checked: what the first check shows, within an hour.
        fn first_check_at(&mut self, pace: f64) -> Option<LimitShown> {
            let mut checked = false;
            while self.now < SECOND * 3_600 {
                let slowed = self.own.slowed(self.now, pace);
                if let Some(limited) = self.own.limited(self.now) {
                    return Some(limited);
                }
                if checked && slowed.is_none() {
                    return None;
                }
                checked = slowed.is_some();
                self.now += SECOND.div_f64(slowed.unwrap_or(pace));
                self.call();
            }
            None
        }

        fn call(&mut self) {
            self.calls += 1;
            let now = self.now.as_secs_f64();
            // A bucket of five.
            self.due = self.due.max(now - 5.0 / self.limit);
            let is_over = self.due > now;
            if !is_over {
                self.due += 1.0 / self.limit;
            }
            self.own.note(
                self.calls,
                if is_over || self.calls.is_multiple_of(self.nth) {
                    FirstTryOutcome::Refused(self.now)
                } else {
                    FirstTryOutcome::Accepted(self.now)
                },
            );
        }
    }

    #[test]
    fn a_share_that_is_the_same_at_half_the_pace_is_the_services_own() {
        let mut service = Service::new(16, f64::INFINITY);
        assert_eq!(service.first_check_at(100.0), None);
        assert!(service.now > FIRST_CHECK);
        assert!((service.own.share() - 1.0 / 16.0).abs() < 0.002);
    }

    #[test]
    fn a_share_that_is_gone_at_half_the_pace_was_the_paces() {
        let mut service = Service::new(u64::MAX, 95.0);
        let limited = service.first_check_at(100.0);
        let shown = LimitShown {
            borne: 50.0,
            refused: 100.0,
            none_own: true,
        };
        assert_eq!(limited, Some(shown));
    }

    #[test]
    fn more_than_the_share_is_checked_soon_and_the_share_stays() {
        let mut service = Service::new(16, 100.0);
        let limited = service.first_check_at(140.0);
        assert!(service.now < FIRST_CHECK, "{:?}", service.now);
        let shown = LimitShown {
            borne: 70.0,
            refused: 140.0,
            none_own: false,
        };
        assert_eq!(limited, Some(shown));
        assert!((service.own.share() - 1.0 / 16.0).abs() < 0.02);
    }

    #[test]
    fn far_too_much_is_a_limit_without_a_look_at_half_of_it() {
        let mut service = Service::new(16, 100.0);
        let limited = service.first_check_at(1_000.0);
        let borne = limited.map(|limited| limited.borne).unwrap_or_default();
        assert!((60.0..=130.0).contains(&borne), "{limited:?}");
        assert!(service.calls < 150, "{}", service.calls);
    }

    #[test]
    fn where_none_are_refused_for_long_there_are_none() {
        let mut own = RandomShare::new(Duration::ZERO, 1, 5.0, 80.0);
        let gone = (1..1_000).find(|call| {
            own.note(*call, FirstTryOutcome::Accepted(Duration::ZERO));
            own.is_gone()
        });
        assert!(gone.is_some_and(|calls| calls > 190), "{gone:?}");
    }
}
