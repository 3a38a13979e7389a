//! The budgets of a run: calls that it may make, and rows that may fail.

use std::cell::Cell;
use std::num::NonZeroU64;

use crate::base::error::Error;
use crate::base::numbers::Tolerance;
use crate::telemetry::counts::Counts;
use crate::telemetry::event::CancelReason;

use crate::verdict::most_frequent;

/// The most calls of a run, and the option that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallLimit {
    /// `--max-calls`.
    Calls(NonZeroU64),
    /// What `--max-cost` pays for.
    Cost(NonZeroU64),
}

impl CallLimit {
    /// The number of calls.
    pub(crate) const fn calls(self) -> NonZeroU64 {
        match self {
            Self::Calls(calls) | Self::Cost(calls) => calls,
        }
    }

    /// Why a run stops that has made all these calls.
    const fn reason(self) -> CancelReason {
        match self {
            Self::Calls(_) => CancelReason::MaxCalls,
            Self::Cost(_) => CancelReason::MaxCost,
        }
    }

    fn used_up(self) -> Error {
        let option = match self {
            Self::Calls(_) => "--max-calls",
            Self::Cost(_) => "--max-cost",
        };
        Error::limited(match self {
            Self::Calls(most) => {
                format!("this run has made as many calls as `{option} {most}` allows")
            }
            Self::Cost(most) => {
                format!("this run has made as many calls as `{option}` pays for: {most}")
            }
        })
        .hint(format!(
            "the budget is for all starts of the run: the same command with a higher `{option}`, or without it, continues"
        ))
    }
}

/// Calls that a run may make. Each is reserved before it is sent, so that calls in flight cannot exceed the limit.
#[derive(Debug)]
pub(crate) struct CallBudget {
    most: Option<CallLimit>,
    left: Cell<u64>,
}

impl CallBudget {
    /// A budget of this many calls, of which some were made `before`; `None` means without limit.
    pub(crate) fn new(most: Option<CallLimit>, before: u64) -> Self {
        let left = most.map_or(u64::MAX, |most| most.calls().get().saturating_sub(before));
        Self {
            most,
            left: Cell::new(left),
        }
    }

    /// Takes a call out of the budget.
    ///
    /// # Errors
    /// No call is left: which limit stops the run, and exit code 5.
    pub(crate) fn reserve(&self) -> Result<(), (CancelReason, Error)> {
        let Some(most) = self.most else {
            return Ok(());
        };
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err((most.reason(), most.used_up())),
        }
    }
}

/// A share counts from this many rows: the first row of a file may be its worst.
const ROWS_OF_A_SHARE: u64 = 100;

/// The limit of rows that may fail, if there is one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FailureBudget(pub(crate) Option<Tolerance>);

impl FailureBudget {
    /// The error that stops the run, once the limit is reached.
    pub(crate) fn used_up(&self, counts: &Counts) -> Option<Error> {
        // Otherwise a run that has stopped would stop again immediately, over failures that it does not even ask about again.
        let (failed, resolved) = (
            counts.newly_failed.values().sum::<u64>(),
            counts.rows.resolved,
        );
        let limit = self.0?;
        #[allow(
            clippy::cast_precision_loss,
            reason = "a share of rows needs no 53 bits"
        )]
        let is_reached = match limit {
            Tolerance::Rows(most) => failed >= most,
            Tolerance::Percent(most) => {
                resolved >= ROWS_OF_A_SHARE && failed as f64 >= resolved as f64 * most / 100.0
            }
        };
        if !is_reached {
            return None;
        }
        let message =
            format!("{failed} of {resolved} rows failed: `--max-failures {limit}` is reached");
        let before = counts.failed.rows - failed;
        let mut error = Error::limited(message);
        if before > 0 {
            error = error.detail(format!(
                "{before} that failed before this start do not count"
            ));
        }
        let error = error
            .detail(format!("most frequent: {}", most_frequent(&counts.newly_failed)))
            .hint("fix the rows that fail, start again once the service is well, or raise `--max-failures`");
        Some(error)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::row::RowNumber;
    use crate::telemetry::event::{Event, Origin};
    use crate::verdict::{Reason, Resolution};

    #[test]
    fn a_budget_of_calls_is_exact_over_all_starts() {
        let three = NonZeroU64::new(3).unwrap();
        for (limit, spent, left, stop, words) in [
            (
                CallLimit::Calls(three),
                0,
                3,
                CancelReason::MaxCalls,
                "`--max-calls 3` allows",
            ),
            (
                CallLimit::Calls(three),
                2,
                1,
                CancelReason::MaxCalls,
                "`--max-calls 3` allows",
            ),
            (
                CallLimit::Calls(three),
                7,
                0,
                CancelReason::MaxCalls,
                "`--max-calls 3` allows",
            ),
            (
                CallLimit::Cost(three),
                0,
                3,
                CancelReason::MaxCost,
                "`--max-cost` pays for: 3",
            ),
        ] {
            let budget = CallBudget::new(Some(limit), spent);
            let made = (0..10).filter(|_| budget.reserve().is_ok()).count();
            assert_eq!(made, left, "{limit:?} {spent}");
            let (reason, error) = budget.reserve().unwrap_err();
            assert_eq!((reason, error.exit().code()), (stop, 5));
            assert!(error.report().contains(words), "{}", error.report());
        }
        assert!(CallBudget::new(None, 0).reserve().is_ok());
    }

    /// The report of the stop, after rows with this resolution.
    fn stops(most: Tolerance, rows: &[(u64, Resolution, Origin)]) -> Option<String> {
        let mut counts = Counts::default();
        for (times, resolution, origin) in rows {
            for _ in 0..*times {
                let event = Event::RowResolved {
                    row: RowNumber::FIRST,
                    resolution: *resolution,
                    origin: *origin,
                };
                counts.apply(Duration::ZERO, &event);
            }
        }
        let error = FailureBudget(Some(most)).used_up(&counts);
        error.map(|error| error.report())
    }

    #[test]
    fn failures_of_this_start_stop_at_their_limit_and_the_most_frequent_reasons_are_named() {
        let good = Resolution::Scored(None);
        let [ip, name, refused] =
            [Reason::InvalidIp, Reason::MissingName, Reason::Refused].map(Resolution::Failed);
        let (now, before) = (Origin::Called, Origin::Ledger);
        let percent = Tolerance::Percent(10.0);
        for (most, rows, words) in [
            (
                Tolerance::Rows(5),
                &[(9, good, now), (1, ip, now), (3, name, now)][..],
                &[][..],
            ),
            (
                Tolerance::Rows(5),
                &[(9, good, now), (2, ip, now), (3, name, now)],
                &["missing_name 3, invalid_ip 2", "hint: fix the rows"],
            ),
            (
                Tolerance::Rows(2),
                &[(5, refused, before), (1, refused, now)],
                &[],
            ),
            (
                Tolerance::Rows(2),
                &[(5, refused, before), (2, refused, now)],
                &[
                    "2 of 7 rows failed: `--max-failures 2` is reached",
                    "5 that failed before this start do not count",
                    "most frequent: refused 2\n",
                ],
            ),
            // A share is not judged by the first rows.
            (percent, &[(99, ip, now)], &[]),
            (percent, &[(91, good, now), (9, ip, now)], &[]),
            (
                percent,
                &[(90, good, now), (10, ip, now)],
                &["10 of 100 rows failed"],
            ),
        ] {
            let report = stops(most, rows);
            assert_eq!(report.is_some(), !words.is_empty(), "{rows:?}: {report:?}");
            let report = report.unwrap_or_default();
            assert!(words.iter().all(|words| report.contains(words)), "{report}");
        }
    }
}
