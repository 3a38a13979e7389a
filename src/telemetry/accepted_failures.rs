//! Failures with which a finished run still counts as a success (`--accept-failures`): so that a nightly job is not reported
//! as failed because of the same few rows every night.
//!
//! Only the exit code changes. Everything else asks [`Stats`] whether every row has a verdict.

use super::stats::Stats;
use crate::base::error::Exit;
use crate::base::tolerance::Tolerance;

/// How many rows may fail in a run that ends with exit code 0; by default none.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AcceptedFailures(pub(crate) Option<Tolerance>);

impl AcceptedFailures {
    /// What was accepted of a run: `None` if it was stopped, no row failed, or more rows failed.
    ///
    /// Rows without a decision are never accepted: it is a list of levels that lacks one, and not the rows. Nor are those of
    /// files that an earlier run has finished: nobody has counted them.
    #[must_use]
    pub(crate) fn applied(self, stats: &Stats) -> Option<Tolerance> {
        let has_failed =
            stats.exit() == Exit::SomeFailed && stats.undecided == 0 && stats.skipped_are_decided();
        let covers = |accepted: &Tolerance| accepted.covers(stats.failures(), stats.resolved());
        self.0.filter(|accepted| has_failed && covers(accepted))
    }

    /// How the process exits after a run.
    #[must_use]
    pub(crate) fn exit(self, stats: &Stats) -> Exit {
        match self.applied(stats) {
            Some(_) => Exit::Complete,
            None => stats.exit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::row::RowNumber;
    use crate::telemetry::event::{CancelReason, Event, Origin};
    use crate::verdict::{Decision, Reason, Resolution};

    fn after(scored: &[Option<Decision>], failed: u64, stopped: Option<CancelReason>) -> Stats {
        let failed = (0..failed).map(|_| Resolution::Failed(Reason::Refused));
        let scored = scored.iter().map(|decision| Resolution::Scored(*decision));
        let rows = failed.chain(scored).map(|resolution| Event::RowResolved {
            row: RowNumber::FIRST,
            resolution,
            origin: Origin::Called,
        });
        let mut stats = Stats::default();
        for event in rows.chain(stopped.map(Event::CancelBegan)) {
            stats.apply(Duration::ZERO, &event);
        }
        stats
    }

    #[test]
    fn failures_that_nobody_has_counted_are_not_accepted() {
        let all = AcceptedFailures(Some(Tolerance::Percent(100.0)));
        let rejects = Event::FileSkipped { has_rejects: true };
        let mut stats = after(&[], 1, None);
        stats.apply(Duration::ZERO, &rejects);
        assert_eq!(all.exit(&stats).code(), 1);
    }

    #[test]
    fn only_failed_rows_of_a_finished_run_are_accepted() {
        let two = AcceptedFailures(Some(Tolerance::Rows(2)));
        let approved = [Some(Decision::Approve); 3];
        for (stats, exit) in [
            (after(&approved, 0, None), 0),
            (after(&approved, 2, None), 0),
            (after(&approved, 3, None), 1),
            (after(&[None], 2, None), 1),
            (after(&[None], 0, None), 1),
            (after(&approved, 2, Some(CancelReason::MaxCalls)), 5),
            (after(&approved, 2, Some(CancelReason::Internal)), 70),
        ] {
            assert_eq!(two.exit(&stats).code(), exit, "{stats:?}");
        }
        let none = AcceptedFailures::default();
        assert_eq!(none.exit(&after(&approved, 2, None)).code(), 1);
        let all = AcceptedFailures(Some(Tolerance::Percent(100.0)));
        assert_eq!(all.exit(&after(&[], 9, None)).code(), 0);
    }
}
