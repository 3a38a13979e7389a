//! What a run remembers between its calls: which API key they go out with, whether the service is down or only always fails
//! over the rows that are left, and what its answers had.
//!
//! A key that is refused after it brought verdicts was revoked or rotated; then its file is worth another look. Only
//! numbers are known here, never a key.
//!
//! Ten failures in a row look like an outage. In the middle of a file or at its end they may just as well be ten rows of
//! the kind over which the service always fails; waiting for them would only end in a message to try again later.
//! Fresh rows, for which no call has been made yet, show which it is; while there are any, only their failures count.

use std::time::Duration;

use super::checks::AnswerChecks;
use crate::pace::GiveUpPolicy;

/// What was seen in the run so far.
pub(super) struct Seen {
    /// Trouble, and whether it must stop the run.
    pub(super) give_up: GiveUpPolicy,
    /// Tells an outage of the service from rows that always fail.
    pub(super) outage: Outage,
    /// Which API key calls go out with.
    pub(super) key: KeyGeneration,
    pub(super) answers: AnswerChecks,
}

/// The keys of a run, counted.
#[derive(Debug, Default)]
pub(super) struct KeyGeneration {
    number: u64,
    proven: bool,
}

/// What the refusal of a key calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyRefusal {
    /// Another key is in use since the call went out: try again with that one.
    Outdated,
    /// The key brought verdicts before, so it may have been rotated. Reported once; after that a verdict must come first.
    Revoked,
    /// The key has never been good, or was already looked for again.
    Useless,
}

impl KeyGeneration {
    /// The number of the key in use; a call that goes out now uses this key.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether the key in use differs from the one that the run started with.
    pub(super) const fn has_changed(&self) -> bool {
        self.number > 0
    }

    /// A call with this key brought a verdict. A late answer to an old key says nothing about the new one.
    pub(super) const fn verdict(&mut self, number: u64) {
        if number == self.number {
            self.proven = true;
        }
    }

    /// A call with this key was refused because of the key.
    pub(super) const fn refused(&mut self, number: u64) -> KeyRefusal {
        if number != self.number {
            KeyRefusal::Outdated
        } else if std::mem::replace(&mut self.proven, false) {
            KeyRefusal::Revoked
        } else {
            KeyRefusal::Useless
        }
    }

    /// Another key is in use from now on.
    pub(super) const fn renewed(&mut self) {
        self.number += 1;
    }
}

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

    #[test]
    fn a_key_is_looked_for_once_after_its_verdicts() {
        let mut key = KeyGeneration::default();
        assert_eq!(key.refused(0), KeyRefusal::Useless, "it was never good");
        key.verdict(0);
        assert_eq!(key.refused(0), KeyRefusal::Revoked);
        assert_eq!(
            key.refused(0),
            KeyRefusal::Useless,
            "it was already looked for"
        );
    }

    #[test]
    fn answers_to_an_old_key_say_nothing_about_the_new_one() {
        let mut key = KeyGeneration::default();
        key.verdict(0);
        assert_eq!(key.refused(0), KeyRefusal::Revoked);
        key.renewed();
        assert_eq!(key.refused(0), KeyRefusal::Outdated);
        key.verdict(0);
        assert_eq!(key.refused(1), KeyRefusal::Useless);
        key.verdict(1);
        assert_eq!(key.refused(1), KeyRefusal::Revoked);
    }

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
