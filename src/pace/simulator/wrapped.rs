//! Services of which certain rows, or the way to them, are peculiar, and one that bears everything.

use std::collections::HashSet;

use super::models::{Hint, Model, Work, refused};
use super::rows::Row;
use crate::pace::CallOutcome;

/// Does at once whatever is asked.
pub(super) struct NoLimit {
    /// The most that anybody has in flight.
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
    /// Every so many-th.
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

/// Another service that refuses some rows whatever anybody does. Compared with the service alone.
pub(super) struct BadRows<M> {
    pub(super) service: M,
    pub(super) bad: RefusedRows,
    pub(super) hint: Hint,
}

/// A refusal that is decided before any work.
const REFUSAL: f64 = 0.05;

impl<M: Model> Model for BadRows<M> {
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

/// Another service that refuses every so many-th row the first time.
pub(super) struct RefusedOnce<M> {
    pub(super) service: M,
    pub(super) every: Row,
    pub(super) hint: Hint,
    /// The rows that were refused and have not come again.
    pub(super) refused: HashSet<Row>,
}

impl<M: Model> Model for RefusedOnce<M> {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        self.service.way(random)
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        // A row that is refused by the service itself afterwards is refused here again; that is rare.
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

/// Another service, so many seconds away and back.
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

/// Another service that decides only when a call has been under way for between this and that, all times as likely: so
/// does the stand-in.
pub(super) struct UnderWay<M> {
    pub(super) service: M,
    pub(super) least: f64,
    pub(super) most: f64,
    /// Of what the service allows, what calls that are sent at regular intervals get without more than one refusal in
    /// fifty.
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

/// Another service that decides when a call arrives and answers what it accepts after between this and that, all times as
/// likely.
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
