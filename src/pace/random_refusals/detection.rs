//! Whether refusals that no limit explains are random.

use std::time::Duration;

use super::comparison::PaceComparison;
use super::in_order::FirstTryOutcome;
use super::rows::RefusedRows;
use super::share::RandomShare;
use super::unexplained::{Evidence, UnexplainedRefusals};
use crate::pace::throughput::{LEAST_UNMEASURED, Measurement};
use crate::pace::window::SHORTEST_WINDOW;

/// What is known about random refusals.
#[derive(Debug, Default)]
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
    /// The latest call that has ended.
    latest: u64,
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
            FirstTryOutcome::Accepted(_) => {
                self.accepted_in_a_row = self.accepted_in_a_row.saturating_add(1);
            }
            FirstTryOutcome::Refused(_) => self.gap = std::mem::take(&mut self.accepted_in_a_row),
            FirstTryOutcome::AcceptedLater(_) | FirstTryOutcome::NotCounted => {}
        }
        if let Some(unexplained) = &mut self.unexplained {
            unexplained.note(outcome);
        }
        if let Some(share) = &mut self.share {
            self.comparison.note(outcome);
            share.note(number, outcome, out);
            if share.is_gone() || share.is_too_high() {
                self.share = None;
            }
        }
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
        match seen.evidence(now, pace) {
            Evidence::Little => Shown::Nothing,
            Evidence::Rare => {
                self.unexplained = None;
                Shown::Nothing
            }
            Evidence::TooMany => {
                // Single refusals count again, and lead to lower paces.
                self.share = None;
                Shown::Nothing
            }
            Evidence::Limit(limit) => {
                self.unexplained = None;
                Shown::Limit(limit)
            }
            Evidence::Share { refused, calls } => {
                self.unexplained = None;
                self.is_from_lowest = pace <= LEAST_UNMEASURED;
                self.share = Some(RandomShare::new(now, self.latest + 1, refused, calls));
                Shown::Random
            }
        }
    }

    /// Whether the last cut has helped, as far as can be known by now: without it there would have been refusals since then.
    pub(in crate::pace) fn has_helped(&self) -> bool {
        self.is_quiet(UnexplainedRefusals::are_quiet)
    }

    /// Whether the refusals that nothing explained are over.
    pub(in crate::pace) fn are_over(&self) -> bool {
        self.is_quiet(UnexplainedRefusals::are_over)
    }

    /// Whether nothing is unexplained, or no longer.
    fn is_quiet(&self, for_long: fn(&UnexplainedRefusals, u32) -> bool) -> bool {
        match &self.unexplained {
            None => true,
            // Where refusals come at any pace, none for a while says little.
            Some(_) if self.share.is_some() => false,
            Some(seen) => for_long(seen, self.accepted_in_a_row),
        }
    }

    /// Something else explains the refusals.
    pub(in crate::pace) fn explained(&mut self) {
        self.unexplained = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::throughput::SPARE;

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
        assert_eq!(helped, Some(61), "six times ten");
        let over = (62..1_000).find(|_| {
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
