//! Whether it is the service that is down, or the rows that are left are ones over which it always fails.
//!
//! Ten failures in a row look like an outage. Somewhere in a file, or at its end, they may as well be ten rows of the kind
//! over which the service fails whenever it is asked; nobody should wait for their end, and then be told to come back.
//! Rows that have not asked yet tell the two apart, and while there are any they are believed.

use std::cell::Cell;
use std::collections::HashSet;
use std::time::Duration;

use crate::ledger::RequestKey;

/// How long a service that answers may fail over the rows that are left, until it is put down to them. Most restarts are
/// over by then, and a file's end waits for it but once: the next run knows.
const RESTART: Duration = Duration::from_secs(5 * 60);

/// So many known rows are given up in a row, without an answer in between, before the next ones are news: what was known
/// may be of an evening on which the service was down, and it may be down again.
const IN_A_ROW: u32 = 40;

/// Whose call has failed while the service is taken to be down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// It failed in a way that is no row's doing.
    Anybody,
    /// A row's that had not failed before.
    Newcomer,
    /// That of a row that had failed before, and others may still come.
    Repeater,
    /// As that, and no other row is left to ask.
    LastOnes,
}

/// What it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Means {
    /// The service is waited for.
    Wait,
    /// It has been waited for long enough.
    Down,
    /// It is the rows.
    Rows,
}

/// What was seen of the outage that is on.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    shown: Cell<bool>,
    /// For how long it had lasted when it was the first of nothing but failures that may be the rows' doing.
    failing_since: Cell<Option<Duration>>,
    rows: Cell<bool>,
    poison: HashSet<RequestKey>,
    /// Of those, how many were answered in this run, how many failed again, and how many did so since any answer.
    answered: Cell<u32>,
    failed: Cell<u32>,
    failed_in_a_row: Cell<u32>,
}

impl Outage {
    /// What will be seen of outages where the service has failed over these before, while it answered others.
    #[must_use]
    pub(crate) fn with_poison(poison: HashSet<RequestKey>) -> Self {
        Self {
            poison,
            ..Self::default()
        }
    }

    /// Whether the service has failed over this before, and that is to be believed.
    pub(super) fn is_poison(&self, key: Option<&RequestKey>) -> bool {
        // What it answers today it failed over because of the hour.
        let believed = self.answered.get() <= self.failed.get();
        believed && self.failed_in_a_row.get() < IN_A_ROW && self.is_known(key)
    }

    /// A request was answered.
    pub(super) fn answered(&self, key: Option<&RequestKey>) {
        self.failed_in_a_row.set(0);
        if self.is_known(key) {
            self.answered.set(self.answered.get().saturating_add(1));
        }
    }

    /// A request was given up, because the service failed over it.
    pub(super) fn gave_up(&self, key: Option<&RequestKey>) {
        if self.is_known(key) {
            let one_more = |count: &Cell<u32>| count.set(count.get().saturating_add(1));
            one_more(&self.failed);
            one_more(&self.failed_in_a_row);
        }
    }

    fn is_known(&self, key: Option<&RequestKey>) -> bool {
        key.is_some_and(|key| self.poison.contains(key))
    }

    /// Whether what seemed an outage was the rows.
    pub(super) const fn is_rows(&self) -> bool {
        self.rows.get()
    }

    /// A call failed after the service has been taken to be down for so long; nobody waits for longer than `patience`.
    pub(super) fn went_on(&self, lasted: Duration, patience: Duration, whose: Whose) -> Means {
        // What made it seem down counts as little as what repeats it.
        let is_news = matches!(whose, Whose::Anybody | Whose::Newcomer);
        let shown = !lasted.is_zero() && (is_news || self.shown.get());
        self.shown.set(shown);
        let before = self.failing_since.get().filter(|_| !lasted.is_zero());
        let since = (whose != Whose::Anybody).then(|| before.unwrap_or(lasted));
        self.failing_since.set(since);
        let failing = since.map_or(Duration::ZERO, |since| lasted.saturating_sub(since));
        let means = match whose {
            _ if lasted.is_zero() => Means::Wait,
            Whose::LastOnes if failing >= RESTART.min(patience) => Means::Rows,
            _ if lasted < patience => Means::Wait,
            _ if shown => Means::Down,
            _ => Means::Rows,
        };
        self.rows.set(means == Means::Rows);
        means
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * 60)
    }

    #[test]
    fn rows_that_have_not_asked_yet_show_an_outage() {
        let outage = Outage::default();
        for (lasted, whose, expected) in [
            (0, Whose::Newcomer, Means::Wait),
            (10, Whose::Repeater, Means::Wait),
            (20, Whose::Newcomer, Means::Down),
            (20, Whose::Repeater, Means::Down),
            // Another one.
            (0, Whose::Newcomer, Means::Wait),
            (14, Whose::Newcomer, Means::Wait),
            (15, Whose::Repeater, Means::Down),
            (0, Whose::Newcomer, Means::Wait),
            (14, Whose::Repeater, Means::Wait),
            (15, Whose::Repeater, Means::Rows),
        ] {
            let means = outage.went_on(minutes(lasted), minutes(15), whose);
            assert_eq!(means, expected, "{whose:?} after {lasted} min");
        }
    }

    #[test]
    fn the_last_ones_are_to_blame_themselves_after_five_minutes() {
        let outage = Outage::default();
        let after = |lasted, patience| {
            let second = Duration::from_secs;
            outage.went_on(second(lasted), second(patience), Whose::LastOnes)
        };
        assert_eq!(after(0, 900), Means::Wait);
        assert_eq!(after(299, 900), Means::Wait);
        assert_eq!(after(300, 900), Means::Rows);
        assert_eq!(after(5, 5), Means::Rows, "nobody waits for so long");
    }

    #[test]
    fn a_failure_that_is_no_rows_doing_begins_the_minutes_anew() {
        let outage = Outage::default();
        let after = |lasted, whose| outage.went_on(minutes(lasted), minutes(15), whose);
        assert_eq!(after(0, Whose::Anybody), Means::Wait);
        assert_eq!(after(4, Whose::Anybody), Means::Wait);
        assert_eq!(after(6, Whose::LastOnes), Means::Wait);
        assert_eq!(after(10, Whose::LastOnes), Means::Wait);
        assert_eq!(after(11, Whose::LastOnes), Means::Rows);
    }

    #[test]
    fn what_is_known_is_believed_until_today_shows_otherwise() {
        let key = RequestKey::some;
        let known = || Outage::with_poison((0..100).map(key).collect());
        let outage = known();
        assert!(outage.is_poison(Some(&key(1))));
        assert!(!outage.is_poison(Some(&key(200))) && !outage.is_poison(None));
        outage.answered(Some(&key(1)));
        assert!(!outage.is_poison(Some(&key(2))), "it is answered today");
        let outage = known();
        for _ in 0..IN_A_ROW {
            assert!(outage.is_poison(Some(&key(3))));
            outage.gave_up(Some(&key(3)));
        }
        assert!(
            !outage.is_poison(Some(&key(4))),
            "nothing is answered today"
        );
        outage.answered(Some(&key(200)));
        assert!(outage.is_poison(Some(&key(4))));
    }
}
