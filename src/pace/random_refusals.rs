//! Refusals that come at any pace: some services and balancers refuse a call now and then, whatever is sent.
//!
//! A cut of the pace is a hypothesis: fewer refusals if slower. Refusals at a pace that the service has shown to bear speak
//! against it. When they go on at ever lower paces, their share is the service's own: the cut is taken back, and from then
//! on only what is more than this share says something of the pace.

use std::time::Duration;

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct RandomRefusals {
    /// The share of all calls that the service refuses at any pace.
    own: Option<Own>,
    /// How much speaks for more refusals than that: a cumulative sum of log-likelihood ratios (CUSUM).
    excess: f64,
    /// Refusals that no limit explains, while they are counted.
    case: Option<Case>,
    /// Calls accepted since the last refusal.
    calm: u32,
    /// Calls accepted between the last two.
    gap: u32,
}

#[derive(Debug, Clone, Copy)]
struct Own {
    share: f64,
    /// What the share was when it was found. It may move, but not so far that a limit hides in it.
    found: f64,
    /// Whether it is that of any pace is looked at again from time to time.
    check: Check,
    /// How long it is until the next check.
    wait: Duration,
}

/// The check whether a slower pace brings fewer refusals.
#[derive(Debug, Clone, Copy)]
enum Check {
    At(Duration),
    Slower { calls: u32, refused: u32 },
}

#[derive(Debug, Default)]
struct Case {
    /// How often the pace was cut without effect.
    cuts: u32,
    refused: u32,
    accepted: u32,
    /// Accepted before the first of them, since the refusal before.
    before: u32,
    /// Calls accepted before the last of them; `None` once that was less than before the one before: then a cut did not help.
    rising: Option<u32>,
    /// The most that was accepted a second from one of them to the next, pauses and all: no limit is below that.
    accepted_at_best: f64,
    /// Single calls after a pause that were refused, in a row.
    singles: i32,
}

/// Cuts without effect that show it. A limit that falls explains two or three: each is to what was last accepted.
const CUTS: u32 = 3;
/// A service that refuses more than that is not left in peace by asking more.
const HIGHEST_SHARE: f64 = 0.4;
/// Refusals that are rarer than one in so many calls cost too little to look into.
const RAREST: u32 = 1_000;
/// After so many times the calls that bring one refusal, it is not chance that there was none …
const CALM: f64 = 6.0;
/// … or after so many where that is known from one refusal only, and little is lost.
const CALM_AFTER_ONE: f64 = 3.0;
/// After so many there are none any more: by chance once in 160,000 times.
const GONE: f64 = 12.0;
/// Single calls that are refused after a pause show a window that is not over, unless chance does that so often.
const BY_CHANCE: f64 = 0.01;
/// Who asks for a longer pause counts in windows.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A share that is higher by a third and one in a hundred is told from the known one …
const HIGHER: f64 = 4.0 / 3.0;
const MORE: f64 = 0.01;
/// … when it is so much likelier (its logarithm): by chance some once in a million calls.
const SURE: f64 = 12.0;
/// A share may prove to be so much higher than found: it was counted on few calls.
const MARGIN: f64 = 1.5;
/// How long the first check of a share waits …
const FIRST_CHECK: Duration = Duration::from_secs(30);
/// … doubling with each that finds it as it was, up to this.
const LAST_CHECK: Duration = Duration::from_secs(30 * 60);
/// The pace in a check, as a share of the usual one.
const SLOWER: f64 = 0.5;
/// A check is as long as the calls that should bring so many refusals …
const EXPECTED: f64 = 20.0;
/// … and with so few of them the pace is what brings them: by chance once in 500 times.
const FEWER: u32 = 8;
/// How fast the share follows what is seen: over the calls that bring so many refusals.
const REFUSALS_REMEMBERED: f64 = 20.0;

impl RandomRefusals {
    /// The share of all calls that the service refuses at any pace.
    pub(super) fn share(&self) -> Option<f64> {
        self.own.map(|own| own.share)
    }

    /// Whether a pause of this length, if one is asked for, is the refused row's alone.
    pub(super) fn is_row_alone(wait: Option<Duration>) -> bool {
        wait.is_none_or(|wait| wait <= LONGEST_PAUSE)
    }

    /// The pace, as a share of what it may be: less while it is checked whether that brings fewer refusals.
    pub(super) fn slowed(&mut self, now: Duration) -> f64 {
        let Some(own) = &mut self.own else { return 1.0 };
        if let Check::At(at) = own.check
            && now >= at
        {
            own.check = Check::Slower {
                calls: 0,
                refused: 0,
            };
        }
        match own.check {
            Check::At(_) => 1.0,
            Check::Slower { .. } => SLOWER,
        }
    }

    /// Whether a check has shown that a slower pace brings fewer refusals: then the share was none of the service's own.
    pub(super) fn is_refuted(&mut self, now: Duration) -> bool {
        let Some(own) = &mut self.own else {
            return false;
        };
        let Check::Slower { calls, refused } = own.check else {
            return false;
        };
        if refused <= FEWER && f64::from(calls) * own.found < EXPECTED {
            return false;
        }
        if refused > FEWER {
            own.wait = (own.wait * 2).min(LAST_CHECK);
            own.check = Check::At(now + own.wait);
            return false;
        }
        self.own = None;
        true
    }

    /// A call was accepted.
    pub(super) fn accepted(&mut self) {
        self.calm = self.calm.saturating_add(1);
        if let Some(case) = &mut self.case {
            case.accepted = case.accepted.saturating_add(1);
        }
        let Some(own) = &mut self.own else { return };
        if let Check::Slower { calls, .. } = &mut own.check {
            *calls += 1;
        }
        let higher = own.share * HIGHER + MORE;
        self.excess = (self.excess + ((1.0 - higher) / (1.0 - own.share)).ln()).max(0.0);
        own.share *= 1.0 - own.share / REFUSALS_REMEMBERED;
        if f64::from(self.calm) * own.found > GONE {
            self.own = None;
            self.excess = 0.0;
        }
    }

    /// A call was refused. Whether that says something of the pace.
    pub(super) fn refused(&mut self) -> bool {
        self.gap = std::mem::take(&mut self.calm);
        if let Some(case) = &mut self.case {
            case.refused = case.refused.saturating_add(1);
        }
        let Some(own) = &mut self.own else {
            return true;
        };
        if let Check::Slower { calls, refused } = &mut own.check {
            *calls += 1;
            *refused += 1;
        }
        let higher = own.share * HIGHER + MORE;
        self.excess += (higher / own.share).ln();
        let remembered = own.share / REFUSALS_REMEMBERED;
        own.share = (own.share + remembered * (1.0 - own.share)).min(own.found * MARGIN);
        if self.excess < SURE {
            return false;
        }
        self.excess = 0.0;
        true
    }

    /// The single call after a pause was refused, or went through. More of them in a row than chance brings are a window.
    pub(super) fn single(&mut self, refused: bool) {
        let Some(case) = &mut self.case else { return };
        if !refused {
            case.singles = 0;
            return;
        }
        case.singles += 1;
        let share = f64::from(case.refused + 1) / f64::from(case.refused + case.accepted + 2);
        if share.powi(case.singles) < BY_CHANCE {
            self.case = None;
        }
    }

    /// A call was refused at a `pace` that should have been borne, and `wait` was asked for; `accepted`: calls a second since
    /// the refusal before. Whether it is certain by now that the service does so at any pace.
    pub(super) fn unexplained(
        &mut self,
        now: Duration,
        pace: f64,
        accepted: Option<f64>,
        wait: Option<Duration>,
    ) -> bool {
        if !Self::is_row_alone(wait) {
            self.case = None;
            return false;
        }
        let gap = self.gap;
        let case = self.case.get_or_insert(Case {
            before: gap.min(RAREST),
            rising: Some(0),
            ..Case::default()
        });
        // What was accepted before the first one is another time's limit.
        if let Some(accepted) = accepted.filter(|_| case.cuts > 0) {
            case.accepted_at_best = case.accepted_at_best.max(accepted);
        }
        case.cuts += 1;
        case.rising = case.rising.filter(|before| *before < gap).map(|_| gap);
        let share = f64::from(case.refused) / f64::from(case.refused + case.accepted).max(1.0);
        // Each cut that makes refusals rarer has helped.
        let is_low = pace <= case.accepted_at_best;
        if case.cuts <= CUTS || share > HIGHEST_SHARE || case.rising.is_some() || !is_low {
            return false;
        }
        if share * f64::from(RAREST) < 0.5 {
            self.case = None;
            return false;
        }
        self.case = None;
        self.own = Some(Own {
            share,
            found: share,
            check: Check::At(now + FIRST_CHECK),
            wait: FIRST_CHECK,
        });
        self.excess = 0.0;
        true
    }

    /// Whether the last cut has helped: without it there would have been refusals since then.
    pub(super) fn has_helped(&self) -> bool {
        let Some(case) = &self.case else { return true };
        let seen = f64::from(case.refused + 1);
        let gap = f64::from(case.before + case.accepted - self.calm.min(case.accepted)) / seen;
        let calm = if case.cuts > 1 { CALM } else { CALM_AFTER_ONE };
        f64::from(self.calm) > gap.max(1.0) * calm
    }

    /// Something else explains the refusals.
    pub(super) fn explained(&mut self) {
        self.case = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    /// So many calls are accepted, and then one is refused at `pace`, which should have been borne. Whether it is certain.
    fn unexplained(random: &mut RandomRefusals, accepted: u32, pace: f64, rate: f64) -> bool {
        for _ in 0..accepted {
            random.accepted();
        }
        random.refused() && random.unexplained(Duration::ZERO, pace, Some(rate), SECOND)
    }

    /// One that has found a share of one in sixteen.
    fn one_in_sixteen() -> RandomRefusals {
        let mut random = RandomRefusals::default();
        for (accepted, pace, rate) in [(15, 14.0, 9.0), (17, 11.0, 6.0), (14, 9.0, 5.5)] {
            assert!(!unexplained(&mut random, accepted, pace, rate));
        }
        assert!(unexplained(&mut random, 16, 5.0, 5.2));
        random
    }

    #[test]
    fn who_refuses_as_many_at_ever_lower_paces_refuses_them_at_any() {
        let mut random = one_in_sixteen();
        let share = random.share().unwrap_or_default();
        assert!((0.05..=0.08).contains(&share), "{share}");
        // As many are expected from then on, and more are not.
        for _ in 0..50 {
            for _ in 0..15 {
                random.accepted();
            }
            assert!(!random.refused());
        }
        assert!((0..40).any(|_| random.refused()), "all are refused");
        for _ in 0..1_000 {
            random.accepted();
        }
        assert_eq!(random.share(), None, "there are none any more");
    }

    #[test]
    fn a_limit_that_fell_is_a_limit() {
        let mut random = RandomRefusals::default();
        for pace in [400.0, 260.0, 169.0, 110.0, 71.0, 46.0, 30.0, 19.0, 12.0] {
            // A second's pause lets three through.
            assert!(!unexplained(&mut random, 3, pace, 2.9), "{pace}");
        }
    }

    #[test]
    fn cuts_that_make_refusals_rarer_have_helped() {
        let mut random = RandomRefusals::default();
        for accepted in [100, 150, 220, 340, 500, 760, 1_100] {
            assert!(
                !unexplained(&mut random, accepted, 10.0, 40.0),
                "{accepted}"
            );
        }
    }

    #[test]
    fn who_asks_for_long_pauses_counts_in_windows() {
        let mut random = RandomRefusals::default();
        let long = Some(Duration::from_secs(30));
        for _ in 0..10 {
            random.refused();
            assert!(!random.unexplained(Duration::ZERO, 1.0, Some(9.0), long));
        }
    }

    #[test]
    fn a_share_that_falls_at_half_the_pace_was_the_paces() {
        let mut random = one_in_sixteen();
        assert!((random.slowed(Duration::from_secs(1)) - 1.0).abs() < 1e-9);
        let now = Duration::from_secs(31);
        assert!((random.slowed(now) - SLOWER).abs() < 1e-9);
        assert!(!random.is_refuted(now));
        // Some three hundred and thirty calls would have brought twenty, and not three.
        let found = (0..400).find(|call| {
            if call % 100 == 50 {
                random.refused();
            } else {
                random.accepted();
            }
            random.is_refuted(now)
        });
        assert!(found.is_some_and(|calls| calls > 200), "{found:?}");
        assert_eq!(random.share(), None);
    }
}
