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
    use crate::verdict::{Decision, Reason, Resolution};

    #[test]
    fn a_budget_of_calls_is_exact() {
        let three = NonZeroU64::new(3).unwrap();
        for (limit, why, words) in [
            (
                CallLimit::Calls(three),
                CancelReason::MaxCalls,
                "`--max-calls 3` allows",
            ),
            (
                CallLimit::Cost(three),
                CancelReason::MaxCost,
                "`--max-cost` pays for: 3",
            ),
        ] {
            let budget = CallBudget::new(Some(limit), 0);
            let made = (0..10).filter(|_| budget.reserve().is_ok()).count();
            assert_eq!(made, 3);
            let (reason, error) = budget.reserve().unwrap_err();
            assert_eq!(reason, why);
            assert_eq!(error.exit().code(), 5);
            assert!(error.report().contains(words), "{}", error.report());
        }
        let spent = CallBudget::new(Some(CallLimit::Calls(three)), 7);
        assert!(spent.reserve().is_err(), "by earlier starts");
        assert!(CallBudget::new(None, 0).reserve().is_ok());
    }

    fn after(good: u64, reasons: &[(Reason, u64)]) -> Counts {
        let mut counts = Counts::default();
        let mut tell = |resolution, times| {
            for _ in 0..times {
                let event = Event::RowResolved {
                    row: RowNumber::FIRST,
                    resolution,
                    origin: Origin::Called,
                };
                counts.apply(Duration::ZERO, &event);
            }
        };
        tell(Resolution::Scored(Some(Decision::Approve)), good);
        for (reason, times) in reasons {
            tell(Resolution::Failed(*reason), *times);
        }
        counts
    }

    #[test]
    fn failures_from_before_this_start_do_not_count() {
        let budget = FailureBudget(Some(Tolerance::Rows(2)));
        let mut counts = Counts::default();
        let mut fail = |reason, origin| {
            let event = Event::RowResolved {
                row: RowNumber::FIRST,
                resolution: Resolution::Failed(reason),
                origin,
            };
            counts.apply(Duration::ZERO, &event);
            budget.used_up(&counts)
        };
        for _ in 0..5 {
            assert!(fail(Reason::Forbidden, Origin::Ledger).is_none());
        }
        assert!(fail(Reason::Refused, Origin::Called).is_none());
        let report = fail(Reason::Refused, Origin::Duplicate).unwrap().report();
        for words in [
            "2 of 7 rows failed: `--max-failures 2` is reached",
            "5 that failed before this start do not count",
            "most frequent: refused 2\n",
        ] {
            assert!(report.contains(words), "{report}");
        }
    }

    #[test]
    fn failures_stop_at_their_limit_and_the_most_frequent_reasons_are_named() {
        let budget = FailureBudget(Some(Tolerance::Rows(5)));
        let reasons = [(Reason::InvalidIp, 1), (Reason::MissingName, 3)];
        assert!(budget.used_up(&after(9, &reasons)).is_none());
        let reasons = [(Reason::InvalidIp, 2), (Reason::MissingName, 3)];
        let error = budget.used_up(&after(9, &reasons)).unwrap();
        let report = error.report();
        assert!(report.contains("missing_name 3, invalid_ip 2"), "{report}");
        assert!(report.contains("hint: fix the rows"), "{report}");
        assert!(FailureBudget(None).used_up(&after(0, &reasons)).is_none());
    }

    #[test]
    fn a_share_of_failures_is_not_judged_by_the_first_rows() {
        let budget = FailureBudget(Some(Tolerance::Percent(10.0)));
        for (good, failed, stops) in [(0, 99, false), (91, 9, false), (90, 10, true)] {
            let counts = after(good, &[(Reason::InvalidIp, failed)]);
            assert_eq!(budget.used_up(&counts).is_some(), stops, "{good} {failed}");
        }
    }
}
