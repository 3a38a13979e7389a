//! Whether the service is down, or only always fails over the rows that are left.
//!
//! Ten failures in a row look like an outage. In the middle of a file or at its end they may just as well be ten rows of
//! the kind over which the service always fails; waiting for them would only end in a message to try again later.
//! Fresh rows, for which no call has been made yet, show which it is; while there are any, only their failures count.

use std::collections::HashSet;
use std::time::Duration;

use crate::ledger::RequestKey;

/// How long a service that answers may fail over the rows that are left before they are blamed. Most restarts are over by
/// then, and the end of a file waits for it only once: the next run knows these rows.
const RESTART: Duration = Duration::from_secs(5 * 60);

/// After so many known rows given up in a row, without an answer in between, the next failures count again: the rows may be
/// known from an evening on which the service was down, and it may be down again.
const IN_A_ROW: u32 = 40;

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

/// What was seen of the current outage, and of requests over which the service is known to fail.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    shown: bool,
    /// How long it had lasted when the series of failures that may be due to the rows started.
    failing_since: Option<Duration>,
    is_rows: bool,
    /// Requests over which the service failed in earlier runs while it answered others.
    known: HashSet<RequestKey>,
    /// Of the known requests: how many were answered in this run, …
    answered: u32,
    /// … how many failed again, …
    failed: u32,
    /// … and how many failed since the last answer to any request.
    failed_in_a_row: u32,
}

impl Outage {
    /// For a run that knows requests over which the service failed before, while it answered others.
    #[must_use]
    pub(crate) fn with_failing_requests(known: HashSet<RequestKey>) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }

    /// Whether the service failed over this request before, and that is to be believed.
    pub(super) fn is_known_to_fail(&self, key: Option<&RequestKey>) -> bool {
        // Known requests that are answered in this run failed only at that time.
        let is_believed = self.answered <= self.failed;
        is_believed && self.failed_in_a_row < IN_A_ROW && self.is_known(key)
    }

    /// A request was answered.
    pub(super) fn answered(&mut self, key: Option<&RequestKey>) {
        self.failed_in_a_row = 0;
        if self.is_known(key) {
            self.answered = self.answered.saturating_add(1);
        }
    }

    /// A request was given up because the service failed over it.
    pub(super) fn gave_up(&mut self, key: Option<&RequestKey>) {
        if self.is_known(key) {
            self.failed = self.failed.saturating_add(1);
            self.failed_in_a_row = self.failed_in_a_row.saturating_add(1);
        }
    }

    fn is_known(&self, key: Option<&RequestKey>) -> bool {
        key.is_some_and(|key| self.known.contains(key))
    }

    /// Whether what looked like an outage was the rows.
    pub(super) const fn is_rows(&self) -> bool {
        self.is_rows
    }

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
        let verdict = match by {
            _ if lasted.is_zero() => OutageVerdict::Wait,
            FailedBy::LastRows if failing >= RESTART.min(patience) => OutageVerdict::Rows,
            _ if lasted < patience => OutageVerdict::Wait,
            _ if self.shown => OutageVerdict::Down,
            _ => OutageVerdict::Rows,
        };
        self.is_rows = verdict == OutageVerdict::Rows;
        verdict
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

    #[test]
    fn known_failures_are_believed_until_this_run_shows_otherwise() {
        let key = RequestKey::some;
        let known = || Outage::with_failing_requests((0..100).map(key).collect());
        let mut outage = known();
        assert!(outage.is_known_to_fail(Some(&key(1))));
        assert!(!outage.is_known_to_fail(Some(&key(200))) && !outage.is_known_to_fail(None));
        outage.answered(Some(&key(1)));
        assert!(
            !outage.is_known_to_fail(Some(&key(2))),
            "it was answered in this run"
        );
        let mut outage = known();
        for _ in 0..IN_A_ROW {
            assert!(outage.is_known_to_fail(Some(&key(3))));
            outage.gave_up(Some(&key(3)));
        }
        assert!(
            !outage.is_known_to_fail(Some(&key(4))),
            "nothing was answered in this run"
        );
        outage.answered(Some(&key(200)));
        assert!(outage.is_known_to_fail(Some(&key(4))));
    }
}
