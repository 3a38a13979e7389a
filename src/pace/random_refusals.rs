//! Refusals that come at any pace: some services and balancers refuse a call now and then, whatever is sent.
//!
//! A cut of the pace is a hypothesis: fewer refusals if slower. Refusals at a pace that the service has shown to bear speak
//! against it. When they go on at ever lower paces, their share is the service's own: the cut is taken back, and from then
//! on only what is more than this share says something of the pace.

use std::time::Duration;

use super::in_order::FirstTryOutcome;
use super::own_share::{HIGHEST_SHARE, LimitShown, RandomShare};

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct RandomRefusals {
    /// What the service refuses at any pace.
    own: Option<RandomShare>,
    /// Refusals that no limit explains, while they are counted.
    case: Option<UnexplainedRefusals>,
    /// Calls accepted since the last refusal.
    calm: u32,
    /// Calls accepted between the last two.
    gap: u32,
    /// The latest call that has ended.
    latest: u64,
}

/// Refusals at paces that should have been borne, one cut after the other.
#[derive(Debug, Default)]
struct UnexplainedRefusals {
    /// Calls count that began since then: those that were out are about the pace before.
    since: Duration,
    /// How often the pace was cut without effect.
    cuts: u32,
    refused: u32,
    accepted: u32,
    /// Accepted before the first of them, since the refusal before.
    before: u32,
    /// The most that was accepted a second from one of them to the next, pauses and all: no limit is below that.
    accepted_at_best: f64,
}

/// Cuts without effect that show it. A limit that falls explains two or three: each is to what was last accepted.
const CUTS: u32 = 3;
/// So many calls must have been accepted meanwhile: where next to none is, it is a pause that is too short.
const FEWEST: u32 = 6;
/// A refusal at so few calls a second, as the blindest cut allows, is not put down to them.
const HARMLESS: f64 = 1.0;
/// Refusals that are rarer than one in so many calls cost too little to look into.
const RAREST: u32 = 1_000;
/// After so many times the calls that bring one refusal, it is not chance that there was none …
const CALM: f64 = 6.0;
/// … or after so many where that is known from one refusal only, and little is lost.
const CALM_AFTER_ONE: f64 = 3.0;
/// Who asks for a longer pause counts in windows.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

impl RandomRefusals {
    /// The share of all calls that the service refuses at any pace.
    pub(super) fn share(&self) -> Option<f64> {
        self.own.as_ref().map(RandomShare::share)
    }

    /// Whether a pause of this length, if one is asked for, is the refused row's alone.
    pub(super) fn is_row_alone(wait: Option<Duration>) -> bool {
        wait.is_none_or(|wait| wait <= LONGEST_PAUSE)
    }

    /// The pace to be kept to while the share is checked, where `used` is the one that calls are made at.
    pub(super) fn slowed(&mut self, now: Duration, used: f64) -> Option<f64> {
        self.own.as_mut()?.slowed(now, used)
    }

    /// What a check of the share has shown, if it is over and has shown a limit.
    pub(super) fn limited(&mut self, now: Duration) -> Option<LimitShown> {
        let limited = self.own.as_mut()?.limited(now)?;
        if limited.none_own {
            self.own = None;
        }
        Some(limited)
    }

    /// A call ended.
    pub(super) fn ended(&mut self, number: u64, outcome: FirstTryOutcome) {
        self.latest = self.latest.max(number);
        match outcome {
            FirstTryOutcome::Accepted(began) => {
                self.calm = self.calm.saturating_add(1);
                if let Some(case) = self.case.as_mut().filter(|case| began >= case.since) {
                    case.accepted = case.accepted.saturating_add(1);
                }
            }
            FirstTryOutcome::Refused(began) => {
                self.gap = std::mem::take(&mut self.calm);
                if let Some(case) = self.case.as_mut().filter(|case| began >= case.since) {
                    case.refused = case.refused.saturating_add(1);
                }
            }
            FirstTryOutcome::NotCounted => {}
        }
        if let Some(own) = &mut self.own {
            own.note(number, outcome);
            if own.is_gone() {
                self.own = None;
            }
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
        let case = self.case.get_or_insert(UnexplainedRefusals {
            since: now,
            before: gap.min(RAREST),
            ..UnexplainedRefusals::default()
        });
        // What was accepted before the first one is another time's limit.
        if let Some(accepted) = accepted.filter(|_| case.cuts > 0) {
            case.accepted_at_best = case.accepted_at_best.max(accepted);
        }
        case.cuts += 1;
        let refused = f64::from(case.refused);
        let calls = (refused + f64::from(case.accepted)).max(1.0);
        let share = refused / calls;
        // Of few calls the share is uncertain: less by a standard deviation.
        let surely = (refused - refused.sqrt()) / calls;
        let is_low = pace <= case.accepted_at_best.max(HARMLESS);
        if case.cuts <= CUTS || case.accepted < FEWEST || surely > HIGHEST_SHARE || !is_low {
            return false;
        }
        if share * f64::from(RAREST) < 0.5 {
            self.case = None;
            return false;
        }
        let refused = f64::from(case.refused.max(1));
        let calls = refused / share.min(HIGHEST_SHARE);
        self.case = None;
        self.own = Some(RandomShare::new(now, self.latest + 1, refused, calls));
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

    const NOW: Duration = Duration::ZERO;
    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    /// Calls that end as soon as they begin.
    #[derive(Default)]
    struct Service {
        random: RandomRefusals,
        calls: u64,
    }

    impl Service {
        fn ends(&mut self, outcome: FirstTryOutcome) {
            self.calls += 1;
            self.random.ended(self.calls, outcome);
        }

        /// So many calls are accepted, and then one is refused at `pace`, which should have been borne. Whether it is certain.
        fn unexplained(&mut self, accepted: u32, pace: f64, rate: f64) -> bool {
            for _ in 0..accepted {
                self.ends(FirstTryOutcome::Accepted(NOW));
            }
            self.ends(FirstTryOutcome::Refused(NOW));
            self.random.unexplained(NOW, pace, Some(rate), SECOND)
        }
    }

    #[test]
    fn who_refuses_as_many_at_ever_lower_paces_refuses_them_at_any() {
        let mut service = Service::default();
        for (accepted, pace, rate) in [(15, 14.0, 9.0), (17, 11.0, 6.0), (14, 9.0, 5.5)] {
            assert!(!service.unexplained(accepted, pace, rate));
        }
        assert!(service.unexplained(16, 5.0, 5.2));
        let share = service.random.share().unwrap_or_default();
        assert!((0.05..=0.08).contains(&share), "{share}");
        for _ in 0..1_000 {
            service.ends(FirstTryOutcome::Accepted(NOW));
        }
        assert_eq!(service.random.share(), None, "there are none any more");
    }

    #[test]
    fn where_next_to_nothing_is_accepted_it_is_no_share() {
        let mut service = Service::default();
        for pace in [9.0, 7.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.9, 0.8, 0.7] {
            assert!(!service.unexplained(0, pace, 9.0), "{pace}");
        }
    }

    #[test]
    fn calls_that_were_out_say_nothing_of_a_lower_pace() {
        let mut service = Service::default();
        let later = NOW + Duration::from_secs(1);
        service.ends(FirstTryOutcome::Refused(NOW));
        let _ = service.random.unexplained(later, 40.0, Some(9.0), SECOND);
        for _ in 0..100 {
            service.ends(FirstTryOutcome::Refused(NOW));
            service.ends(FirstTryOutcome::Accepted(NOW));
        }
        assert!((0..5).all(|_| !service.unexplained(0, 1.0, 9.0)));
    }

    #[test]
    fn a_limit_that_fell_is_a_limit() {
        let mut service = Service::default();
        for pace in [400.0, 260.0, 169.0, 110.0, 71.0, 46.0, 30.0, 19.0, 12.0] {
            // A second's pause lets three through.
            assert!(!service.unexplained(3, pace, 2.9), "{pace}");
        }
    }

    #[test]
    fn a_cut_has_helped_after_many_more_calls_than_brought_a_refusal() {
        let mut service = Service::default();
        assert!(!service.unexplained(10, 10.0, 40.0));
        let helped = (1..100).find(|_| {
            service.ends(FirstTryOutcome::Accepted(NOW));
            service.random.has_helped()
        });
        assert_eq!(helped, Some(31), "three times ten");
    }

    #[test]
    fn who_asks_for_long_pauses_counts_in_windows() {
        let mut random = RandomRefusals::default();
        let long = Some(Duration::from_secs(30));
        for call in 1..=10 {
            random.ended(call, FirstTryOutcome::Refused(NOW));
            assert!(!random.unexplained(NOW, 1.0, Some(9.0), long));
        }
    }
}
