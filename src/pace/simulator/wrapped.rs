//! What may stand before a service or go wrong with it: distance, a proxy, headers that lie, bad rows, chance, an outage.

use std::time::Duration;

use super::models::{Hint, Model, TIMEOUT, refused};
use super::rows::Row;
use crate::pace::types::{Allowance, CallOutcome};

/// A service with something before it.
pub(super) struct Wrapped<M> {
    pub(super) service: M,
    pub(super) by: Wrapper,
}

/// What is before a service.
#[derive(Clone, Copy)]
pub(super) enum Wrapper {
    /// It is this many seconds away and back.
    Far(f64),
    /// A proxy's refusals are bare 503s.
    Bare503,
    /// Its headers always say that 100 calls are left for 60 s.
    Lying,
    /// This row is always refused.
    BadRow(Row),
    /// This share of calls is refused at any pace.
    AtRandom(f64, Hint),
    /// It is down from one second to another.
    Outage(Away, f64, f64),
}

/// How a service is down: it fails immediately, never answers, or refuses every call.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Away {
    Failing,
    Hanging,
    Refusing,
}

/// Seconds of a refusal or failure that is decided before any work.
const BRIEF: f64 = 0.05;

impl<M: Model> Model for Wrapped<M> {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        match self.by {
            Wrapper::Far(wire) => wire / 2.0,
            _ => self.service.way(random),
        }
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        match self.by {
            Wrapper::BadRow(bad) if row == bad => return (refused(Hint::None, 0.0), BRIEF),
            Wrapper::AtRandom(share, hint) if random.f64() < share => {
                return (refused(hint, 1.0), BRIEF);
            }
            Wrapper::Outage(away, from, to) if (from..to).contains(&now) => {
                return match away {
                    Away::Failing => (CallOutcome::Failed, BRIEF),
                    Away::Hanging => (CallOutcome::TimedOut, TIMEOUT),
                    Away::Refusing => (CallOutcome::Throttled(None), BRIEF),
                };
            }
            _ => {}
        }
        let (how, time) = self.service.call(now, row, random);
        match (self.by, how) {
            (Wrapper::Far(wire), how) => (how, time + wire / 2.0),
            (Wrapper::Bare503, CallOutcome::Throttled(_)) => (CallOutcome::BusyOrAway, time),
            (_, how) => (how, time),
        }
    }

    fn allows(&self, now: f64) -> f64 {
        match self.by {
            Wrapper::Outage(_, from, to) if (from..to).contains(&now) => 0.0,
            _ => self.service.allows(now),
        }
    }

    fn says(&self, now: f64) -> Option<Allowance> {
        match self.by {
            Wrapper::Lying => Some(Allowance {
                calls: 100,
                lasts: Duration::from_secs(60),
            }),
            _ => self.service.says(now),
        }
    }
}

impl Model for Box<dyn Model> {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        (**self).way(random)
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        (**self).call(now, row, random)
    }

    fn allows(&self, now: f64) -> f64 {
        (**self).allows(now)
    }

    fn says(&self, now: f64) -> Option<Allowance> {
        (**self).says(now)
    }
}
