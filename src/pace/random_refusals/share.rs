//! The share of calls that the service refuses at any pace, which says nothing about a limit.
//!
//! Only refusals beyond that share do. A cumulative sum of log-likelihood ratios (CUSUM) tells when there are more, and what
//! was accepted since it was last at zero measures the limit.

use std::time::Duration;

use super::in_order::{FirstTryOutcome, InOrder};
use crate::pace::throughput::Measurement;

/// The share of calls that a service refuses at any pace.
#[derive(Debug)]
pub(super) struct RandomShare {
    /// The share when there was no evidence for more.
    known: f64,
    /// The lowest bound so far on what it can be.
    most: f64,
    /// What it is just now, over this many calls.
    seen: f64,
    calls: f64,
    /// What it is over many more calls, without those beyond a limit.
    long_run: CallShare,
    /// The calls since there was last no evidence for more refusals: they count there once there is none again.
    recent: CallShare,
    /// What it was at the last refusal: the calls since then must not make it so small that it never counts as gone.
    at_refusal: f64,
    /// Calls accepted since then.
    accepted_in_a_row: f64,
    /// The evidence for more refusals than the share.
    excess: f64,
    /// When there was last none; calls that started earlier do not count.
    since: Duration,
    /// Calls accepted since then, of all rows.
    accepted: f64,
    /// How calls ended, in the order in which they started.
    outcomes: InOrder,
}

/// How many of some calls were refused.
#[derive(Debug, Clone, Copy, Default)]
struct CallShare {
    calls: f64,
    refused: f64,
}

/// A larger share than this is a limit: sending more to such a service would be hammering it.
pub(super) const HIGHEST_SHARE: f64 = 0.4;
/// It is known to be larger after so many calls: less than a hundred of them are beyond a limit before that is noticed.
const LONG_RUN: f64 = 1_000.0;
/// A share counts as higher if it is this many times the known one …
const HIGHER: f64 = 4.0 / 3.0;
/// … and this much more: a smaller difference cannot soon be told from chance, nor can a smaller share soon be compared. …
pub(super) const MORE: f64 = 0.02;
/// … It is taken for certain once the logarithm of its likelihood ratio is above this: chance does that in about one of a
/// million calls. So is it that there are no such refusals any more, after the calls that should have brought this many:
/// chance does that once in 160,000 times.
const SURE: f64 = 12.0;
/// The share follows what is seen over the calls that bring this many refusals: its error is then a tenth of it.
const REFUSALS_REMEMBERED: f64 = 100.0;

/// Where a bound on the share is wanted, it is this many standard deviations above what was seen: a limit must not hide in a
/// share that creeps up.
const MOST_DEVIATIONS: f64 = 2.0;

impl CallShare {
    /// Adds calls. Those of the last [`LONG_RUN`] count.
    fn add(&mut self, recent: Self) {
        self.calls += recent.calls;
        self.refused += recent.refused;
        if self.calls > LONG_RUN {
            self.refused *= LONG_RUN / self.calls;
            self.calls = LONG_RUN;
        }
    }
}

impl RandomShare {
    /// `refused` of `calls` were refused at ever lower paces. From now on calls count from the number `first`.
    pub(super) fn new(now: Duration, first: u64, refused: f64, calls: f64) -> Self {
        let share = refused / calls;
        Self {
            known: share,
            most: at_most(share, calls),
            seen: share,
            calls,
            long_run: CallShare::default(),
            recent: CallShare::default(),
            at_refusal: share,
            accepted_in_a_row: 0.0,
            excess: 0.0,
            since: now,
            accepted: 0.0,
            outcomes: InOrder::from(first),
        }
    }

    pub(super) const fn share(&self) -> f64 {
        self.known
    }

    /// Whether it turns out to be so large that it is a limit.
    pub(super) fn is_too_high(&self) -> bool {
        let CallShare { calls, refused } = self.long_run;
        calls >= LONG_RUN && refused - MOST_DEVIATIONS * refused.sqrt() > HIGHEST_SHARE * calls
    }

    /// Whether there are no such refusals any more.
    pub(super) fn is_gone(&self) -> bool {
        self.accepted_in_a_row * self.at_refusal > SURE
    }

    /// A call ended, while this many are still out.
    pub(super) fn note(&mut self, number: u64, outcome: FirstTryOutcome, out: usize) {
        self.outcomes.end(number, outcome);
        while let Some(outcome) = self.outcomes.next(out) {
            match outcome {
                FirstTryOutcome::Accepted(began) => self.count(began, 0.0),
                FirstTryOutcome::Refused(began) => self.count(began, 1.0),
                FirstTryOutcome::AcceptedLater(began) if began >= self.since => {
                    self.accepted += 1.0;
                }
                FirstTryOutcome::AcceptedLater(_) | FirstTryOutcome::NotCounted => {}
            }
        }
    }

    /// The first call of a row ended.
    fn count(&mut self, began: Duration, refused: f64) {
        if began < self.since {
            return;
        }
        self.calls = (self.calls + 1.0).min(REFUSALS_REMEMBERED / self.known);
        self.seen += (refused - self.seen) / self.calls;
        self.recent.calls += 1.0;
        self.recent.refused += refused;
        self.accepted += 1.0 - refused;
        // The share may be larger by what chance does to so many calls.
        let known = self.known + (self.known / self.calls).sqrt();
        let higher = known * HIGHER + MORE;
        if refused > 0.0 {
            self.at_refusal = self.known;
            self.accepted_in_a_row = 0.0;
            self.excess += (higher / known).ln();
        } else {
            self.accepted_in_a_row += 1.0;
            self.excess += ((1.0 - higher) / (1.0 - known)).ln();
        }
        if self.excess <= 0.0 {
            self.long_run.add(self.recent);
            self.most = self.most.min(at_most(self.seen, self.calls));
            self.known = self.seen.min(self.most);
            self.start(began);
        }
    }

    /// The evidence is counted from then on.
    fn start(&mut self, since: Duration) {
        self.excess = 0.0;
        self.recent = CallShare::default();
        self.since = since;
        self.accepted = 0.0;
    }

    /// More calls are refused than the share explains: the rate of calls that the service sustains besides.
    pub(super) fn sustained(&mut self, now: Duration) -> Option<Measurement> {
        // Over no time there is no rate.
        if self.excess <= SURE || now <= self.since {
            return None;
        }
        let seconds = now.saturating_sub(self.since).as_secs_f64();
        let rate = self.accepted / seconds / (1.0 - self.known);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it was counted"
        )]
        let calls = self.accepted as u64;
        self.seen = self.known;
        self.start(now);
        Some(Measurement { rate, calls })
    }
}

/// The most that the share can be if this was seen in so many calls.
fn at_most(seen: f64, calls: f64) -> f64 {
    (seen + MOST_DEVIATIONS * (seen / calls).sqrt()).min(HIGHEST_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;

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

        /// Makes calls at `pace`. Returns the first limit that is shown within ten minutes.
        fn limit_at(&mut self, pace: f64) -> Option<f64> {
            let end = self.now + Duration::from_secs(600);
            while self.now < end {
                self.now += Duration::from_secs(1).div_f64(pace);
                self.call();
                if let Some(measured) = self.share.sustained(self.now) {
                    return Some(measured.rate);
                }
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
            let outcome = if is_over || self.calls.is_multiple_of(self.nth) {
                FirstTryOutcome::Refused(self.now)
            } else {
                FirstTryOutcome::Accepted(self.now)
            };
            self.share.note(self.calls, outcome, 1);
        }
    }

    #[test]
    fn the_known_share_shows_no_limit_and_is_followed() {
        let mut service = Service::new(20, f64::INFINITY);
        assert_eq!(service.limit_at(100.0), None);
        let share = service.share.share();
        assert!((share - 0.05).abs() < 0.005, "{share}");
    }

    #[test]
    fn what_is_accepted_while_more_are_refused_is_the_limit() {
        for pace in [140.0, 200.0, 1_000.0] {
            let mut service = Service::new(16, 100.0);
            let limit = service.limit_at(pace).unwrap_or_default();
            assert!((90.0..=125.0).contains(&limit), "{limit} at {pace}");
            assert!(service.share.share() < 0.1, "the share stays");
        }
    }

    #[test]
    fn a_limit_does_not_hide_in_a_share_that_creeps_up() {
        let mut service = Service::new(16, 100.0);
        assert_eq!(service.limit_at(80.0), None);
        let most = service.share.most;
        let shown = (0..30).find_map(|more| service.limit_at(f64::from(80 + more)));
        assert!(shown.is_some() && service.share.most <= most, "{shown:?}");
    }

    #[test]
    fn a_share_that_is_too_large_shows_after_a_thousand_calls() {
        let shown = |nth| {
            let mut service = Service::new(nth, f64::INFINITY);
            service.share = RandomShare::new(Duration::ZERO, 1, 4.0, 10.0);
            (1..=5_000).find(|_| {
                service.now += Duration::from_millis(1);
                service.call();
                service.share.is_too_high()
            })
        };
        let half = shown(2);
        assert!(half.is_some_and(|calls| calls < 1_100), "{half:?}");
        assert_eq!(shown(3), None, "a third");
    }

    #[test]
    fn a_share_is_forgotten_when_nothing_is_refused_for_long() {
        let mut share = RandomShare::new(Duration::ZERO, 1, 5.0, 80.0);
        let gone = (1..1_000).find(|call| {
            share.note(*call, FirstTryOutcome::Accepted(Duration::ZERO), 1);
            share.is_gone()
        });
        assert!(gone.is_some_and(|calls| calls > 190), "{gone:?}");
    }
}
