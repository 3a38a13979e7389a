//! The budget of a run's rows that may fail.

use crate::base::error::Error;
use crate::base::numbers::Tolerance;
use crate::telemetry::counts::Counts;
use crate::verdict::most_frequent;

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
            counts.state.newly_failed.values().sum::<u64>(),
            counts.chosen(),
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
            .detail(format!("most frequent: {}", most_frequent(&counts.state.newly_failed)))
            .hint("fix the rows that fail, start again once the service has recovered, or raise `--max-failures`");
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
    fn failures_of_this_start_stop_at_their_limit_and_the_most_frequent_reasons_are_named() {
        let good = (Resolution::Scored(None), Origin::Called);
        let failed = |reason, origin| (Resolution::Failed(reason), origin);
        let before = failed(Reason::Refused, Origin::Ledger(None));
        let ip = failed(Reason::InvalidIp, Origin::Called);
        let name = failed(Reason::MissingName, Origin::Duplicate);
        let [five, two] = [5, 2].map(Tolerance::Rows);
        let percent = Tolerance::Percent(10.0);
        // How many rows had failed before, are good, lack an IP address and lack a name.
        for (most, times, words) in [
            (five, [0, 9, 1, 3], ""),
            (five, [0, 9, 2, 3], "missing_name 3, invalid_ip 2"),
            (two, [5, 0, 1, 0], ""),
            (two, [5, 0, 2, 0], "2 of 7 rows failed: `--max-failures 2`"),
            (two, [5, 0, 2, 0], "5 that failed before this start do not"),
            // A share is not judged by the first rows.
            (percent, [0, 0, 99, 0], ""),
            (percent, [0, 91, 9, 0], ""),
            (percent, [0, 90, 10, 0], "10 of 100 rows failed"),
        ] {
            let mut counts = Counts::default();
            for ((resolution, origin), times) in [before, good, ip, name].into_iter().zip(times) {
                for _ in 0..times {
                    let row = RowNumber::FIRST;
                    let event = Event::RowResolved {
                        row,
                        resolution,
                        origin,
                    };
                    counts.apply(Duration::ZERO, &event);
                }
            }
            let error = FailureBudget(Some(most)).used_up(&counts);
            let report = error.map(|error| error.report()).unwrap_or_default();
            assert_eq!(report.is_empty(), words.is_empty(), "{times:?}: {report}");
            assert!(report.contains(words), "{report}");
        }
    }
}
