//! Whether refusals that no limit explains are random.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::comparison::PaceComparison;
use super::in_order::FirstTryOutcome;
use super::rows::RefusedRows;
use super::share::{HIGHEST_SHARE, RandomShare};
use crate::pace::throughput::{LEAST_UNMEASURED, Measurement, SPARE};
use crate::pace::window::SHORTEST_WINDOW;

/// What is known about random refusals.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(in crate::pace) struct RandomRefusals {
    /// The share that the service refuses at any pace.
    share: Option<RandomShare>,
    /// It was seen at the lowest pace that is tried without a measurement.
    is_from_lowest: bool,
    /// Whether it is refused at half of the pace as well.
    comparison: PaceComparison,
    /// Refusals that no limit explains, while they are counted.
    unexplained: Option<UnexplainedRefusals>,
    /// Refusals that turned out to be about their rows.
    rows: RefusedRows,
    /// Calls accepted since the last refusal.
    accepted_in_a_row: u32,
    /// Calls accepted between the last two refusals.
    gap: u32,
    /// The latest call that has ended. Another worker counts its own.
    #[serde(skip)]
    latest: u64,
}

/// Refusals at paces that should have been sustained, over one or more cuts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct UnexplainedRefusals {
    /// Calls that started since then count: earlier ones are about the pace before.
    since: Duration,
    /// How often the pace was cut without effect.
    cuts: u32,
    /// The lowest and the highest pace at which that was.
    lowest: f64,
    highest: f64,
    refused: u32,
    accepted: u32,
    /// Calls that were accepted of rows that had been refused.
    accepted_later: u32,
    /// Calls accepted between the first of these refusals and the refusal before it.
    gap_before: u32,
    /// The most calls accepted a second from one of these refusals to the next, pauses included: no limit is below that.
    best: f64,
}

/// What an unexplained refusal shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::pace) enum Shown {
    /// Nothing yet.
    Nothing,
    /// The service refuses a share at any pace, so that the cuts were for nothing.
    Random,
    /// They are too many for chance: this is sustained.
    Limit(f64),
}

/// More cuts than this without effect show random refusals. A limit that falls explains two or three, as each cut is to
/// what was last accepted.
const CUTS: u32 = 3;
/// The lowest of these paces must be at most this share of the highest: a limit that refuses now and then what comes too early,
/// or that others share, refuses next to nothing at such a pace.
const APART: f64 = 0.8;
/// A refusal that comes this many times sooner than those so far came one after the other is not one of them (chance brings one
/// in fifty): a limit fell.
const SOONER: f64 = 50.0;
/// At least this many calls must be accepted during the cuts: if next to none is, the pauses are too short.
const FEWEST_ACCEPTED: u32 = 6;
/// Refusals that are rarer than one in twice this many calls cost too little to look into.
const RAREST: u32 = 1_000;
/// After this many times the calls that bring one refusal, a cut counts as having helped …
const QUIET: f64 = 6.0;
/// … or after this many times, if they are known from a single refusal. Chance is often quiet for as long, but little is lost by
/// a mistake: the search goes on, and further refusals are added to those so far.
const QUIET_AFTER_ONE: f64 = 3.0;

impl RandomRefusals {
    /// The share of all calls that the service refuses at any pace.
    pub(in crate::pace) fn share(&self) -> Option<f64> {
        self.share.as_ref().map(RandomShare::share)
    }

    /// Whether only the refused row waits when the service names this wait, or none.
    pub(in crate::pace) fn is_row_alone(wait: Option<Duration>) -> bool {
        wait.is_none_or(|wait| wait < SHORTEST_WINDOW)
    }

    /// More calls are refused than the share explains: what the service accepts, in calls sent.
    pub(in crate::pace) fn excess(&mut self, now: Duration) -> Option<Measurement> {
        let share = self.share.as_mut()?;
        let mut measured = share.sustained(now)?;
        let accepted = measured.rate * (1.0 - share.share());
        // Where nothing is accepted any more, pauses must act again. And if the share was seen at the lowest pace that is
        // tried blindly, a limit that is lower explains it.
        if measured.calls == 0 || (accepted <= LEAST_UNMEASURED && self.is_from_lowest) {
            measured.rate = accepted;
            self.share = None;
        }
        Some(measured)
    }

    /// Whether it turns out that there are no random refusals besides a limit. Where the search holds one, half of its pace is
    /// tried for comparison.
    pub(in crate::pace) fn compare(&mut self, now: Duration, is_holding: bool) -> bool {
        let is_limit = match self.share() {
            Some(share) => self.comparison.go_on(now, is_holding, share),
            None => self.is_comparing(),
        };
        if is_limit {
            self.share = None;
        }
        if self.share.is_none() {
            self.comparison = PaceComparison::Due;
        }
        is_limit
    }

    /// Whether half of the pace is tried.
    pub(in crate::pace) const fn is_comparing(&self) -> bool {
        matches!(self.comparison, PaceComparison::Running { .. })
    }

    /// A call ended, while this many are still out.
    pub(in crate::pace) fn ended(&mut self, number: u64, outcome: FirstTryOutcome, out: usize) {
        self.latest = self.latest.max(number);
        self.rows.note(outcome);
        match outcome {
            FirstTryOutcome::Accepted(began) => {
                self.accepted_in_a_row = self.accepted_in_a_row.saturating_add(1);
                if let Some(unexplained) = self.counting(began) {
                    unexplained.accepted = unexplained.accepted.saturating_add(1);
                }
            }
            FirstTryOutcome::Refused(began) => {
                self.gap = std::mem::take(&mut self.accepted_in_a_row);
                if let Some(unexplained) = self.counting(began) {
                    unexplained.refused = unexplained.refused.saturating_add(1);
                }
            }
            FirstTryOutcome::AcceptedLater(began) => {
                if let Some(unexplained) = self.counting(began) {
                    unexplained.accepted_later = unexplained.accepted_later.saturating_add(1);
                }
            }
            FirstTryOutcome::NotCounted => {}
        }
        if let Some(share) = &mut self.share {
            self.comparison.note(outcome);
            share.note(number, outcome, out);
            if share.is_gone() || share.is_too_high() {
                self.share = None;
            }
        }
    }

    /// What counts a call that started at `began`.
    fn counting(&mut self, began: Duration) -> Option<&mut UnexplainedRefusals> {
        self.unexplained
            .as_mut()
            .filter(|unexplained| began >= unexplained.since)
    }

    /// A row was refused again while others were accepted, and the service named this `wait`. Whether it turns out that such
    /// rows are a share of all.
    pub(in crate::pace) fn row_alone(&mut self, now: Duration, wait: Option<Duration>) -> bool {
        if self.share.is_some() || !Self::is_row_alone(wait) {
            return false;
        }
        let Some((refused, calls)) = self.rows.found_alone() else {
            return false;
        };
        self.unexplained = None;
        self.is_from_lowest = false;
        self.share = Some(RandomShare::new(now, self.latest + 1, refused, calls));
        true
    }

    /// A call was refused at a `pace` that should have been sustained, and the service named this `wait`; `accepted` is the
    /// rate since the refusal before.
    pub(in crate::pace) fn unexplained(
        &mut self,
        now: Duration,
        pace: f64,
        accepted: Option<f64>,
        wait: Option<Duration>,
    ) -> Shown {
        if !Self::is_row_alone(wait) {
            self.unexplained = None;
            return Shown::Nothing;
        }
        let gap = self.gap;
        // A known share is compared with all that was counted.
        let belongs = |seen: &UnexplainedRefusals| self.share.is_some() || !seen.is_sooner(gap);
        self.unexplained = self.unexplained.take().filter(belongs);
        let seen = self
            .unexplained
            .get_or_insert_with(|| UnexplainedRefusals::new(now, pace, gap));
        seen.cut(pace, accepted);
        let refused = f64::from(seen.refused);
        let calls = (refused + f64::from(seen.accepted)).max(1.0);
        let share = refused / calls;
        // Of few calls the share is uncertain: less by a standard deviation.
        let surely = (refused - refused.sqrt()) / calls;
        let is_low = pace <= seen.best.max(LEAST_UNMEASURED);
        if seen.cuts <= CUTS || !is_low || !seen.are_paces_apart() {
            return Shown::Nothing;
        }
        let too_many = surely > HIGHEST_SHARE;
        // At a higher pace there are further cuts.
        if too_many && pace <= LEAST_UNMEASURED {
            let limit = seen.limit(now);
            self.unexplained = self.unexplained.take().filter(|_| limit.is_none());
            return limit.map_or(Shown::Nothing, Shown::Limit);
        }
        if too_many {
            // Single refusals count again, and lead to lower paces.
            self.share = None;
        }
        if too_many || seen.accepted < FEWEST_ACCEPTED {
            return Shown::Nothing;
        }
        let refused = f64::from(seen.refused.max(1));
        self.unexplained = None;
        if share * f64::from(RAREST) * 2.0 < 1.0 {
            return Shown::Nothing;
        }
        let calls = refused / share.min(HIGHEST_SHARE);
        self.is_from_lowest = pace <= LEAST_UNMEASURED;
        self.share = Some(RandomShare::new(now, self.latest + 1, refused, calls));
        Shown::Random
    }

    /// Whether the last cut has helped, as far as can be known by now: without it there would have been refusals since then.
    pub(in crate::pace) fn has_helped(&self) -> bool {
        self.is_quiet(|seen| {
            if seen.cuts > 1 {
                QUIET
            } else {
                QUIET_AFTER_ONE
            }
        })
    }

    /// Whether the refusals that nothing explained are over. That takes longer than to see that a cut has helped: of few
    /// refusals it is uncertain how many calls bring one, and what was counted would be lost.
    pub(in crate::pace) fn are_over(&self) -> bool {
        self.is_quiet(|seen| {
            let refusals = seen.refusals().max(2.0);
            QUIET * refusals / (refusals - refusals.sqrt())
        })
    }

    /// Whether there was no refusal for so many `times` the calls that brought one before.
    fn is_quiet(&self, times: impl Fn(&UnexplainedRefusals) -> f64) -> bool {
        let Some(seen) = &self.unexplained else {
            return true;
        };
        // Where refusals come at any pace, none for a while says little.
        if self.share.is_some() {
            return false;
        }
        let quiet = self.accepted_in_a_row;
        let gap = seen.accepted_before(quiet) / seen.refusals();
        f64::from(quiet) > gap.max(1.0) * times(seen)
    }

    /// Something else explains the refusals.
    pub(in crate::pace) fn explained(&mut self) {
        self.unexplained = None;
    }
}

impl UnexplainedRefusals {
    /// Counts from now on, before the first cut. Before this refusal, `gap` calls were accepted.
    fn new(now: Duration, pace: f64, gap: u32) -> Self {
        Self {
            since: now,
            lowest: pace,
            highest: pace,
            gap_before: gap.min(RAREST),
            ..Self::default()
        }
    }

    /// `pace` was cut, and `accepted` is the rate since the refusal before.
    fn cut(&mut self, pace: f64, accepted: Option<f64>) {
        // What was accepted before the first one may have been under another limit.
        if let Some(accepted) = accepted.filter(|_| self.cuts > 0) {
            self.best = self.best.max(accepted);
        }
        self.cuts += 1;
        self.lowest = self.lowest.min(pace);
        self.highest = self.highest.max(pace);
    }

    /// How many there were, with the first.
    fn refusals(&self) -> f64 {
        f64::from(self.refused) + 1.0
    }

    /// The calls accepted since the refusal before the first, without the `last` of them.
    fn accepted_before(&self, last: u32) -> f64 {
        f64::from(self.gap_before) + f64::from(self.accepted.saturating_sub(last))
    }

    /// Whether one that came after `gap` accepted calls, and is counted already, came too soon to belong to the others.
    fn is_sooner(&self, gap: u32) -> bool {
        let others = self.refused.max(1);
        f64::from(gap.max(1)) * SOONER < self.accepted_before(gap) / f64::from(others)
    }

    /// Whether they came at paces so far apart that a limit would have made a difference.
    fn are_paces_apart(&self) -> bool {
        self.lowest <= self.highest * APART || self.lowest <= LEAST_UNMEASURED
    }

    /// The limit that they show if they are too many for chance: what was accepted meanwhile.
    fn limit(&self, now: Duration) -> Option<f64> {
        let accepted = self.accepted + self.accepted_later;
        let lasted = now.saturating_sub(self.since).as_secs_f64();
        let rate = f64::from(accepted) / lasted;
        (accepted >= FEWEST_ACCEPTED && rate.is_finite()).then_some(rate * SPARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;
    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    /// A service whose calls end as soon as they start.
    #[derive(Default)]
    struct Service {
        random: RandomRefusals,
        calls: u64,
    }

    impl Service {
        fn ends(&mut self, outcome: FirstTryOutcome) {
            self.calls += 1;
            self.random.ended(self.calls, outcome, 1);
        }

        /// After this many accepted calls one is refused at `pace`, which should have been sustained.
        fn unexplained(&mut self, accepted: u32, pace: f64, rate: f64) -> Shown {
            for _ in 0..accepted {
                self.ends(FirstTryOutcome::Accepted(NOW));
            }
            self.ends(FirstTryOutcome::Refused(NOW));
            self.random.unexplained(NOW, pace, Some(rate), SECOND)
        }
    }

    #[test]
    fn the_same_share_of_refusals_at_ever_lower_paces_is_random() {
        let mut service = Service::default();
        for (accepted, pace, rate) in [(15, 14.0, 9.0), (17, 11.0, 6.0), (14, 9.0, 5.5)] {
            assert_eq!(service.unexplained(accepted, pace, rate), Shown::Nothing);
        }
        assert_eq!(service.unexplained(16, 5.0, 5.2), Shown::Random);
        let share = service.random.share().unwrap_or_default();
        assert!((0.05..=0.08).contains(&share), "{share}");
        for _ in 0..1_000 {
            service.ends(FirstTryOutcome::Accepted(NOW));
        }
        assert_eq!(service.random.share(), None, "nothing is refused any more");
    }

    #[test]
    fn without_accepted_calls_there_is_no_random_share() {
        let mut service = Service::default();
        for pace in [9.0, 7.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.9, 0.8, 0.7] {
            assert_eq!(service.unexplained(0, pace, 9.0), Shown::Nothing, "{pace}");
        }
    }

    #[test]
    fn more_refusals_than_chance_brings_at_the_lowest_pace_show_a_limit() {
        let mut random = RandomRefusals::default();
        let second = |second| Duration::from_secs(second);
        let shown = (0..20).find_map(|call| {
            // Every other call is refused; then its row is accepted.
            let now = second(call * 4);
            random.ended(call * 2 + 1, FirstTryOutcome::Refused(now), 1);
            let shown = random.unexplained(now, 1.0, None, None);
            random.ended(call * 2 + 2, FirstTryOutcome::AcceptedLater(now), 1);
            (shown != Shown::Nothing).then_some(shown)
        });
        assert_eq!(shown, Some(Shown::Limit(0.25 * SPARE)));
    }

    #[test]
    fn a_known_share_is_forgotten_if_most_are_refused_and_cuts_do_not_help() {
        let mut service = Service::default();
        (0..5).for_each(|_| {
            service.unexplained(15, 0.9, 9.0);
        });
        assert!(service.random.share().is_some());
        for _ in 0..40 {
            service.ends(FirstTryOutcome::Refused(NOW));
            service.unexplained(1, 5.0, 9.0);
        }
        assert_eq!(service.random.share(), None);
    }

    #[test]
    fn calls_that_started_before_a_cut_say_nothing_about_the_lower_pace() {
        let mut service = Service::default();
        let later = NOW + Duration::from_secs(1);
        service.ends(FirstTryOutcome::Refused(NOW));
        let _ = service.random.unexplained(later, 40.0, Some(9.0), SECOND);
        for _ in 0..100 {
            service.ends(FirstTryOutcome::Refused(NOW));
            service.ends(FirstTryOutcome::Accepted(NOW));
        }
        assert!((0..5).all(|_| service.unexplained(0, 1.0, 9.0) == Shown::Nothing));
    }

    #[test]
    fn a_limit_that_falls_is_not_taken_for_chance() {
        let mut service = Service::default();
        for pace in [400.0, 260.0, 169.0, 110.0, 71.0, 46.0, 30.0, 19.0, 12.0] {
            // A second's pause lets three through.
            assert_eq!(service.unexplained(3, pace, 2.9), Shown::Nothing, "{pace}");
        }
    }

    #[test]
    fn a_cut_has_helped_after_many_more_calls_than_bring_a_refusal() {
        let mut service = Service::default();
        assert_eq!(service.unexplained(10, 10.0, 40.0), Shown::Nothing);
        let helped = (1..100).find(|_| {
            service.ends(FirstTryOutcome::Accepted(NOW));
            service.random.has_helped()
        });
        assert_eq!(helped, Some(31), "three times ten");
        let over = (32..1_000).find(|_| {
            service.ends(FirstTryOutcome::Accepted(NOW));
            service.random.are_over()
        });
        assert_eq!(over, Some(205), "chance is not quiet for so long");
    }

    #[test]
    fn refusals_at_paces_close_to_each_other_are_not_random() {
        let mut service = Service::default();
        for pace in [14.0, 13.2, 12.6, 12.2, 11.8, 11.5] {
            assert_eq!(service.unexplained(100, pace, 15.0), Shown::Nothing);
        }
        assert_eq!(service.unexplained(100, 11.0, 15.0), Shown::Random);
    }

    #[test]
    fn a_refusal_that_comes_far_sooner_is_not_counted_with_those_before() {
        let mut service = Service::default();
        // A limit that is held to well falls.
        for (accepted, pace) in [(900, 58.0), (900, 55.0), (14, 52.0), (14, 40.0), (14, 30.0)] {
            assert_eq!(service.unexplained(accepted, pace, 57.0), Shown::Nothing);
        }
        // With the first two, this would be the sixth.
        assert_eq!(service.unexplained(14, 20.0, 57.0), Shown::Random);
        let share = service.random.share().unwrap_or_default();
        assert!(share > 0.05, "{share}");
    }

    #[test]
    fn a_share_that_rises_is_corrected_by_four_cuts() {
        let mut service = Service::default();
        let mut refused_at = |accepted, pace| {
            service.unexplained(accepted, pace, 60.0);
            service.random.share()
        };
        for pace in [50.0, 40.0, 30.0, 20.0] {
            refused_at(99, pace);
        }
        assert!(refused_at(99, 60.0).is_some_and(|share| share < 0.02));
        // The first refusal of the next four is the one above.
        let shares = [50.0, 40.0, 30.0].map(|pace| refused_at(4, pace));
        let corrected = shares.map(|share| share.is_some_and(|share| share > 0.1));
        assert_eq!(corrected, [false, false, true], "{shares:?}");
    }

    #[test]
    fn a_service_that_names_long_waits_counts_in_windows() {
        let mut random = RandomRefusals::default();
        let long = Some(Duration::from_secs(30));
        for call in 1..=10 {
            random.ended(call, FirstTryOutcome::Refused(NOW), 1);
            assert_eq!(
                random.unexplained(NOW, 1.0, Some(9.0), long),
                Shown::Nothing
            );
        }
    }
}
