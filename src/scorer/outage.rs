//! Whether it is the service that is down, or the rows that are left are ones over which it always fails.
//!
//! Ten failures in a row look like an outage. Somewhere in a file, or at its end, they may as well be ten rows of the kind
//! over which the service fails whenever it is asked; nobody should wait for their end, and then be told to come back.
//! Rows that have not asked yet tell the two apart, and while there are any they are believed.

use std::cell::Cell;
use std::collections::HashSet;
use std::time::Duration;

use crate::ledger::Key;

/// How long a service that answers may fail over the rows that are left, until it is put down to them. A restart is over
/// by then.
const RESTART: Duration = Duration::from_secs(60);

/// Whose call has failed while the service is taken to be down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// A row's that had not failed before, or it failed in a way that is no row's doing.
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
pub struct Outage {
    shown: Cell<bool>,
    rows: Cell<bool>,
    poison: HashSet<Key>,
}

impl Outage {
    /// What will be seen of outages where the service has failed over these before, while it answered others.
    #[must_use]
    pub fn with_poison(poison: HashSet<Key>) -> Self {
        Self {
            poison,
            ..Self::default()
        }
    }

    /// Whether the service has failed over this before.
    pub(super) fn is_poison(&self, key: Option<&Key>) -> bool {
        key.is_some_and(|key| self.poison.contains(key))
    }

    /// Whether what seemed an outage was the rows.
    pub(super) const fn is_rows(&self) -> bool {
        self.rows.get()
    }

    /// A call failed after the service has been taken to be down for so long; nobody waits for longer than `patience`.
    pub(super) fn went_on(&self, lasted: Duration, patience: Duration, whose: Whose) -> Means {
        // What made it seem down counts as little as what repeats it.
        let shown = !lasted.is_zero() && (whose == Whose::Newcomer || self.shown.get());
        self.shown.set(shown);
        let means = match whose {
            _ if lasted.is_zero() => Means::Wait,
            Whose::LastOnes if lasted >= RESTART.min(patience) => Means::Rows,
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
    fn the_last_ones_are_to_blame_themselves_after_a_minute() {
        let outage = Outage::default();
        let after = |lasted, patience| {
            let second = Duration::from_secs;
            outage.went_on(second(lasted), second(patience), Whose::LastOnes)
        };
        assert_eq!(after(0, 900), Means::Wait);
        assert_eq!(after(59, 900), Means::Wait);
        assert_eq!(after(60, 900), Means::Rows);
        assert_eq!(after(5, 5), Means::Rows, "nobody waits for so long");
    }
}
