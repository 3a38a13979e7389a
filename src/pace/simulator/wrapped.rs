//! Services in front of another one, which refuse certain rows or are far away, and one that takes everything.

use std::collections::HashSet;

use super::models::{Hint, Model, Work, refused};
use super::rows::Row;
use crate::pace::types::CallOutcome;

/// Takes every call.
pub(super) struct NoLimit {
    /// The most calls in flight that the program has.
    pub(super) ceiling: usize,
    pub(super) work: Work,
}

impl Model for NoLimit {
    fn call(&mut self, _: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        (CallOutcome::Answered, self.work.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        self.ceiling as f64 / self.work.mean()
    }
}

/// Which rows are always refused.
#[derive(Clone, Copy)]
pub(super) enum RefusedRows {
    These(&'static [Row]),
    /// One row in this many.
    Every(Row),
}

impl RefusedRows {
    fn has(self, row: Row) -> bool {
        match self {
            Self::These(rows) => rows.contains(&row),
            Self::Every(many) => row % many == many / 2,
        }
    }
}

/// Another service that always refuses some rows. The pace is compared with the service alone.
pub(super) struct AlwaysRefused<M> {
    pub(super) service: M,
    pub(super) bad: RefusedRows,
    pub(super) hint: Hint,
}

/// A refusal that is decided before any work.
const REFUSAL: f64 = 0.05;

impl<M: Model> Model for AlwaysRefused<M> {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        self.service.way(random)
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        if self.bad.has(row) {
            return (refused(self.hint, 1.0), REFUSAL);
        }
        self.service.call(now, row, random)
    }

    fn allows(&self, now: f64) -> f64 {
        self.service.allows(now)
    }
}

/// Another service that refuses one row in `every` the first time.
pub(super) struct RefusedOnce<M> {
    pub(super) service: M,
    pub(super) every: Row,
    pub(super) hint: Hint,
    /// The rows that were refused and have not been tried again.
    pub(super) refused: HashSet<Row>,
}

impl<M: Model> Model for RefusedOnce<M> {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        self.service.way(random)
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        // A row that the service itself refuses afterwards is refused here again, which is rare.
        if row.is_multiple_of(self.every) && !self.refused.remove(&row) {
            self.refused.insert(row);
            return (refused(self.hint, 1.0), REFUSAL);
        }
        self.service.call(now, row, random)
    }

    fn allows(&self, now: f64) -> f64 {
        self.service.allows(now)
    }
}

/// A service that becomes another one of its kind `at` some second.
pub(super) struct Changed<M> {
    pub(super) before: M,
    pub(super) after: M,
    pub(super) at: f64,
}

impl<M: Model> Model for Changed<M> {
    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        if now < self.at {
            self.before.call(now, row, random)
        } else {
            self.after.call(now, row, random)
        }
    }

    fn allows(&self, now: f64) -> f64 {
        if now < self.at {
            self.before.allows(now)
        } else {
            self.after.allows(now)
        }
    }
}

/// Another service, this many seconds away and back.
pub(super) struct Far<M> {
    pub(super) service: M,
    pub(super) wire: f64,
}

impl<M: Model> Model for Far<M> {
    fn way(&mut self, _: &mut fastrand::Rng) -> f64 {
        self.wire / 2.0
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let (how, time) = self.service.call(now, row, random);
        (how, time + self.wire / 2.0)
    }

    fn allows(&self, now: f64) -> f64 {
        self.service.allows(now)
    }
}

/// Another service that decides once a call has been under way for a time between `least` and `most`, each as likely, as the
/// stand-in does.
pub(super) struct UnderWay<M> {
    pub(super) service: M,
    pub(super) least: f64,
    pub(super) most: f64,
    /// The share of the allowed calls that regular intervals get with at most one refusal in fifty.
    pub(super) best: f64,
}

impl<M: Model> Model for UnderWay<M> {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        self.least + (self.most - self.least) * random.f64()
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        self.service.call(now, row, random)
    }

    fn allows(&self, now: f64) -> f64 {
        self.service.allows(now) * self.best
    }
}

/// Another service that decides when a call arrives and answers after a time between `least` and `most`, each as likely.
pub(super) struct Evenly<M> {
    pub(super) service: M,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl<M: Model> Model for Evenly<M> {
    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let (how, time) = self.service.call(now, row, random);
        if how != CallOutcome::Answered {
            return (how, time);
        }
        (how, self.least + (self.most - self.least) * random.f64())
    }

    fn allows(&self, now: f64) -> f64 {
        self.service.allows(now)
    }
}
