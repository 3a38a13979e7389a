//! The share of calls that the service refuses at any pace, which says nothing about a limit.
//!
//! More refusals than that are a hypothesis: they come from the pace. It is checked by counting refusals at the usual pace
//! and then at half of it. If clearly fewer were refused at the slower pace, the pace was the cause; if not, the refusals
//! are random. The share itself is checked in the same way from time to time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::in_order::{FirstTryOutcome, InOrder};
use crate::pace::limit_search::LONGEST_HOLD;
use crate::pace::throughput::SPARE;

/// The share of calls that a service refuses at any pace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RandomShare {
    share: f64,
    /// How many calls it rests on.
    calls: f64,
    check: ShareCheck,
    /// The evidence for more refusals than the share: a cumulative sum of log-likelihood ratios (CUSUM).
    excess: f64,
    /// The share when there was no such evidence.
    without_excess: f64,
    /// The share when it was found or last checked: a limit must not hide in a share that creeps up.
    checked: f64,
    /// Calls accepted since the last refusal.
    accepted_in_a_row: f64,
    /// Another worker counts its own calls.
    #[serde(skip)]
    outcomes: InOrder,
    /// How long the next check waits.
    wait: Duration,
}

/// Where a check of the share is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum ShareCheck {
    /// The next one starts then.
    Waiting { until: Duration },
    /// Calls are counted at the usual pace.
    Usual { seen: PaceSample },
    /// Calls are counted at a slower pace.
    Slower { usual: PaceSample, seen: PaceSample },
}

/// Calls that started at one pace.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct PaceSample {
    since: Duration,
    pace: f64,
    calls: f64,
    refused: f64,
}

/// The limit that a check has shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::pace) struct LimitShown {
    /// Calls a second that the service sustains.
    pub(in crate::pace) sustained: f64,
    /// Calls a second that are too many.
    pub(in crate::pace) refused: f64,
}

/// A larger share than this is a limit: sending more to such a service would be hammering it.
pub(super) const HIGHEST_SHARE: f64 = 0.4;
/// After the calls that should have brought this many refusals without any, there are none: chance does that once in
/// 160,000 times.
const GONE: f64 = 12.0;
/// A share counts as higher if it is this many times the known one …
const HIGHER: f64 = 4.0 / 3.0;
/// … and this much more: a smaller difference cannot soon be told from chance. …
const MORE: f64 = 0.02;
/// … It is taken for certain once the logarithm of its likelihood ratio is above this: chance does that in about one of a
/// million calls.
const SURE: f64 = 12.0;
/// The wait before the first check of a share: until then, too few calls show it.
const FIRST_CHECK: Duration = Duration::from_secs(30);
/// The slower pace of a check, as a share of the usual one: slow enough to show a difference, fast enough to count soon.
const SLOWER: f64 = 0.5;
/// Each pace is counted until this many refusals, or the calls that should bring them: enough to tell half of them …
const EXPECTED: f64 = 40.0;
/// … or for this long: refusals that are rarer cost little …
const LONGEST_COUNT: Duration = Duration::from_secs(20);
/// … or until this many refusals are too large a share: that needs no comparison.
const FEWEST_REFUSED: f64 = 20.0;
/// This many standard deviations fewer refusals at the slower pace are not chance: that would be once in 150 times.
const FEWER: f64 = 2.5;
/// The share follows what is seen over the calls that bring this many refusals: its error is then a tenth of it.
const REFUSALS_REMEMBERED: f64 = 100.0;

impl RandomShare {
    /// `refused` of `calls` were refused at ever lower paces. From now on calls count from the number `first`.
    pub(super) const fn new(now: Duration, first: u64, refused: f64, calls: f64) -> Self {
        Self {
            share: refused / calls,
            calls,
            check: ShareCheck::Waiting {
                until: now.saturating_add(FIRST_CHECK),
            },
            excess: 0.0,
            without_excess: refused / calls,
            checked: refused / calls,
            accepted_in_a_row: 0.0,
            outcomes: InOrder::from(first),
            wait: FIRST_CHECK,
        }
    }

    pub(super) const fn share(&self) -> f64 {
        self.share
    }

    /// Whether there are no such refusals any more.
    pub(super) fn is_gone(&self) -> bool {
        self.accepted_in_a_row * self.checked > GONE
    }

    /// A call ended.
    pub(super) fn note(&mut self, number: u64, outcome: FirstTryOutcome) {
        self.outcomes.end(number, outcome);
        while let Some(outcome) = self.outcomes.next() {
            match outcome {
                FirstTryOutcome::Accepted(began) => self.count(began, 0.0),
                FirstTryOutcome::Refused(began) => self.count(began, 1.0),
                FirstTryOutcome::AcceptedLater(_) | FirstTryOutcome::NotCounted => {}
            }
        }
    }

    fn count(&mut self, began: Duration, refused: f64) {
        match &mut self.check {
            ShareCheck::Usual { seen } | ShareCheck::Slower { seen, .. } => {
                seen.count(began, refused);
            }
            ShareCheck::Waiting { .. } if self.excess > SURE => {}
            ShareCheck::Waiting { .. } => self.follow(refused),
        }
        self.accepted_in_a_row = if refused > 0.0 {
            0.0
        } else {
            self.accepted_in_a_row + 1.0
        };
    }

    /// Has the share and the evidence for a higher one follow what is seen.
    fn follow(&mut self, refused: f64) {
        let known = self.without_excess;
        let higher = known * HIGHER + MORE;
        self.excess += if refused > 0.0 {
            (higher / known).ln()
        } else {
            ((1.0 - higher) / (1.0 - known)).ln()
        };
        self.excess = self.excess.max(0.0);
        self.calls = (self.calls + 1.0).min(REFUSALS_REMEMBERED / self.share);
        self.share += (refused - self.share) / self.calls;
        if self.excess <= 0.0 {
            self.without_excess = self.share;
        }
    }

    /// The pace to keep to during a check; `in_use` is the pace at which calls are made.
    pub(super) fn slowed(&mut self, now: Duration, in_use: f64) -> Option<f64> {
        match self.check {
            ShareCheck::Waiting { until } if now >= until || self.is_more() => {
                self.excess = 0.0;
                // The excess itself must not count towards the share.
                self.share = self.without_excess;
                self.check = ShareCheck::Usual {
                    seen: PaceSample::start(now, in_use),
                };
            }
            ShareCheck::Usual { seen } if seen.is_enough(now, self.share) => {
                self.check = ShareCheck::Slower {
                    usual: seen,
                    seen: PaceSample::start(now, seen.pace * SLOWER),
                };
            }
            _ => {}
        }
        match self.check {
            ShareCheck::Waiting { .. } => None,
            ShareCheck::Usual { seen } | ShareCheck::Slower { seen, .. } => Some(seen.pace),
        }
    }

    /// Whether more are refused than when the share was last checked.
    fn is_more(&self) -> bool {
        self.excess > SURE || self.share > self.checked * HIGHER + MORE
    }

    /// The limit that a check has shown, if one is over and has shown a limit.
    pub(super) fn limit_shown(&mut self, now: Duration) -> Option<LimitShown> {
        let (usual, seen) = match self.check {
            ShareCheck::Waiting { .. } => return None,
            // So many are a limit, whatever a slower pace brings.
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
        self.check = ShareCheck::Waiting {
            until: now + self.wait,
        };
        if seen.is_fewer_than(usual) {
            return Some(LimitShown {
                sustained: seen.pace,
                refused: usual.pace,
            });
        }
        self.wait = (self.wait * 2).min(LONGEST_HOLD);
        self.calls = usual.calls + seen.calls;
        self.share = (usual.refused + seen.refused) / self.calls;
        self.without_excess = self.share;
        self.checked = self.share;
        None
    }

    /// A larger share is accepted only by chance, or because a bucket had saved it up.
    fn far_too_much(&mut self, now: Duration, seen: PaceSample) -> LimitShown {
        self.check = ShareCheck::Waiting {
            until: now + self.wait,
        };
        let accepted = (seen.calls - seen.refused).max(1.0) / seen.calls;
        LimitShown {
            sustained: seen.pace * accepted * SPARE,
            refused: seen.pace,
        }
    }
}

impl PaceSample {
    const fn start(now: Duration, pace: f64) -> Self {
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
            || (now >= self.since + LONGEST_COUNT && self.refused > 0.0 && self.calls * share > 1.0)
    }

    fn share(&self) -> f64 {
        self.refused / self.calls.max(1.0)
    }

    /// Whether fewer were refused by more than chance.
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

    /// A service that refuses every `nth` call, and what is above `limit` calls a second.
    struct Service {
        share: RandomShare,
        nth: u64,
        limit: f64,
        calls: u64,
        now: Duration,
        /// When the limit accepts the next call.
        due: f64,
    }

    impl Service {
        fn new(nth: u64, limit: f64) -> Self {
            Self {
                share: RandomShare::new(Duration::ZERO, 1, 5.0, 80.0),
                nth,
                limit,
                calls: 0,
                now: Duration::ZERO,
                due: 0.0,
            }
        }

        /// Makes calls at `pace`, or slower during a check. Returns what the first check shows within an hour.
        fn first_check_at(&mut self, pace: f64) -> Option<LimitShown> {
            let mut checked = false;
            while self.now < SECOND * 3_600 {
                let slowed = self.share.slowed(self.now, pace);
                if let Some(limited) = self.share.limit_shown(self.now) {
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
            self.share.note(
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
    fn a_share_that_is_the_same_at_half_the_pace_is_random() {
        let mut service = Service::new(16, f64::INFINITY);
        assert_eq!(service.first_check_at(100.0), None);
        assert!(service.now > FIRST_CHECK);
        assert!((service.share.share() - 1.0 / 16.0).abs() < 0.002);
    }

    #[test]
    fn a_share_that_is_gone_at_half_the_pace_came_from_the_pace() {
        let mut service = Service::new(u64::MAX, 95.0);
        let limited = service.first_check_at(100.0);
        let shown = LimitShown {
            sustained: 50.0,
            refused: 100.0,
        };
        assert_eq!(limited, Some(shown));
    }

    #[test]
    fn more_refusals_than_the_share_are_checked_soon_and_the_share_stays() {
        let mut service = Service::new(16, 100.0);
        let limited = service.first_check_at(140.0);
        assert!(service.now < FIRST_CHECK, "{:?}", service.now);
        let shown = LimitShown {
            sustained: 70.0,
            refused: 140.0,
        };
        assert_eq!(limited, Some(shown));
        assert!((service.share.share() - 1.0 / 16.0).abs() < 0.02);
    }

    #[test]
    fn far_too_many_refusals_are_a_limit_without_a_check_at_half_the_pace() {
        let mut service = Service::new(16, 100.0);
        let limited = service.first_check_at(1_000.0);
        let sustained = limited.map(|limited| limited.sustained).unwrap_or_default();
        assert!((60.0..=130.0).contains(&sustained), "{limited:?}");
        assert!(service.calls < 150, "{}", service.calls);
    }

    #[test]
    fn a_share_is_forgotten_when_nothing_is_refused_for_long() {
        let mut share = RandomShare::new(Duration::ZERO, 1, 5.0, 80.0);
        let gone = (1..1_000).find(|call| {
            share.note(*call, FirstTryOutcome::Accepted(Duration::ZERO));
            share.is_gone()
        });
        assert!(gone.is_some_and(|calls| calls > 190), "{gone:?}");
    }
}
