//! Whether the service is down, or only always fails over the rows that are left.
//!
//! Ten failures in a row look like an outage. In the middle of a file or at its end they may just as well be ten rows of
//! the kind over which the service always fails; waiting for them would only end in a message to try again later.
//! Fresh rows, for which no call has been made yet, show which it is; while there are any, only their failures count.

use std::time::Duration;

/// How long a service that answers may fail over the rows that are left before they are blamed.
/// Most restarts are over by then.
const RESTART: Duration = Duration::from_secs(5 * 60);

/// What may have caused a failure while the service is taken to be down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailedBy {
    /// It failed in a way that no row can cause.
    NoRow,
    /// A row that had not failed before.
    FreshRow,
    /// A row that had failed before, while fresh rows may still come.
    RepeatedRow,
    /// A row that had failed before, while no fresh row is left.
    LastRows,
}

/// What a failure during an outage means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutageVerdict {
    /// Wait for the service.
    Wait,
    /// The service has been waited for long enough.
    Down,
    /// It is the rows.
    Rows,
}

/// What was seen of the current outage.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    shown: bool,
    /// How long it had lasted when the series of failures that may be due to the rows started.
    failing_since: Option<Duration>,
}

impl Outage {
    /// A call failed after the service has been taken to be down for `lasted`. The run waits for `patience` at most.
    pub(super) fn continues(
        &mut self,
        lasted: Duration,
        patience: Duration,
        by: FailedBy,
    ) -> OutageVerdict {
        // The failure that made it look down counts as little as one that repeats it.
        let is_news = matches!(by, FailedBy::NoRow | FailedBy::FreshRow);
        self.shown = !lasted.is_zero() && (is_news || self.shown);
        let before = self.failing_since.filter(|_| !lasted.is_zero());
        self.failing_since = (by != FailedBy::NoRow).then(|| before.unwrap_or(lasted));
        let failing = self
            .failing_since
            .map_or(Duration::ZERO, |since| lasted.saturating_sub(since));
        match by {
            _ if lasted.is_zero() => OutageVerdict::Wait,
            FailedBy::LastRows if failing >= RESTART.min(patience) => OutageVerdict::Rows,
            _ if lasted < patience => OutageVerdict::Wait,
            _ if self.shown => OutageVerdict::Down,
            _ => OutageVerdict::Rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * 60)
    }

    #[test]
    fn fresh_rows_show_an_outage() {
        let mut outage = Outage::default();
        for (lasted, by, expected) in [
            (0, FailedBy::FreshRow, OutageVerdict::Wait),
            (10, FailedBy::RepeatedRow, OutageVerdict::Wait),
            (20, FailedBy::FreshRow, OutageVerdict::Down),
            (20, FailedBy::RepeatedRow, OutageVerdict::Down),
            // Another outage.
            (0, FailedBy::FreshRow, OutageVerdict::Wait),
            (14, FailedBy::FreshRow, OutageVerdict::Wait),
            (15, FailedBy::RepeatedRow, OutageVerdict::Down),
            (0, FailedBy::FreshRow, OutageVerdict::Wait),
            (14, FailedBy::RepeatedRow, OutageVerdict::Wait),
            (15, FailedBy::RepeatedRow, OutageVerdict::Rows),
        ] {
            let verdict = outage.continues(minutes(lasted), minutes(15), by);
            assert_eq!(verdict, expected, "{by:?} after {lasted} min");
        }
    }

    #[test]
    fn the_last_rows_are_blamed_after_five_minutes() {
        let mut outage = Outage::default();
        let mut after = |lasted, patience| {
            let second = Duration::from_secs;
            outage.continues(second(lasted), second(patience), FailedBy::LastRows)
        };
        assert_eq!(after(0, 900), OutageVerdict::Wait);
        assert_eq!(after(299, 900), OutageVerdict::Wait);
        assert_eq!(after(300, 900), OutageVerdict::Rows);
        assert_eq!(
            after(5, 5),
            OutageVerdict::Rows,
            "the run does not wait longer than that"
        );
    }

    #[test]
    fn a_failure_that_no_row_can_cause_restarts_the_five_minutes() {
        let mut outage = Outage::default();
        let mut after = |lasted, by| outage.continues(minutes(lasted), minutes(15), by);
        assert_eq!(after(0, FailedBy::NoRow), OutageVerdict::Wait);
        assert_eq!(after(4, FailedBy::NoRow), OutageVerdict::Wait);
        assert_eq!(after(6, FailedBy::LastRows), OutageVerdict::Wait);
        assert_eq!(after(10, FailedBy::LastRows), OutageVerdict::Wait);
        assert_eq!(after(11, FailedBy::LastRows), OutageVerdict::Rows);
    }
}
