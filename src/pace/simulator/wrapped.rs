//! What may stand before a service or go wrong with it: distance, a proxy, headers that lie, bad rows, chance, an outage.

use std::time::Duration;

use super::models::{Hint, Model, TIMEOUT, refused};
use super::rows::Row;
use crate::pace::types::{Allowance, CallSignal};

/// A service with something before it.
pub(super) struct Wrapped<M> {
    service: M,
    by: Wrapper,
    /// When the block ends, or the next call of others comes, …
    until: f64,
    /// … and how long the block lasts.
    block: f64,
}

impl<M> Wrapped<M> {
    pub(super) const fn new(service: M, by: Wrapper) -> Self {
        Self {
            service,
            by,
            until: 0.0,
            block: 0.0,
        }
    }
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
    /// Every so many seconds it fails one call in ten for so many, and is four times as slow.
    BrownOut(f64, f64),
    /// Who exceeds the limit is refused for so many seconds.
    Blocks(f64, Penalty, Hint),
    /// Others make so many calls a second (Poisson).
    Others(f64),
}

/// How a block is made longer.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Penalty {
    Never,
    /// It is twice as long each time, up to ten minutes, unless the last one was over for ten times as long.
    Doubles,
    /// It starts anew with each call.
    Restarts,
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

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        match self.by {
            Wrapper::BadRow(bad) if row == bad => return (refused(Hint::None, 0.0), BRIEF),
            Wrapper::AtRandom(share, hint) if random.f64() < share => {
                return (refused(hint, 1.0), BRIEF);
            }
            Wrapper::Outage(away, from, to) if (from..to).contains(&now) => {
                return match away {
                    Away::Failing => (CallSignal::Failed, BRIEF),
                    Away::Hanging => (CallSignal::TimedOut, TIMEOUT),
                    Away::Refusing => (CallSignal::Throttled(None), BRIEF),
                };
            }
            Wrapper::BrownOut(every, lasts) if now % every > every - lasts => {
                if random.f64() < 0.1 {
                    return (CallSignal::Failed, BRIEF);
                }
                let (how, time) = self.service.call(now, row, random);
                return (how, time * 4.0);
            }
            Wrapper::Blocks(_, penalty, hint) if now < self.until => {
                if penalty == Penalty::Restarts {
                    self.until = now + self.block;
                }
                return (refused(hint, self.until - now), BRIEF);
            }
            Wrapper::Others(rate) => {
                while self.until < now {
                    let _ = self.service.call(self.until, row, random);
                    self.until -= (1.0 - random.f64()).ln() / rate;
                }
            }
            _ => {}
        }
        let (how, time) = self.service.call(now, row, random);
        match (self.by, how) {
            (Wrapper::Blocks(seconds, penalty, hint), CallSignal::Throttled(_)) => {
                let is_again = penalty == Penalty::Doubles && now < self.until + self.block * 10.0;
                self.block = if is_again {
                    (self.block * 2.0).min(600.0)
                } else {
                    seconds
                };
                self.until = now + self.block;
                (refused(hint, self.block), time)
            }
            (Wrapper::Far(wire), how) => (how, time + wire / 2.0),
            (Wrapper::Bare503, CallSignal::Throttled(_)) => (CallSignal::BusyOrAway, time),
            (_, how) => (how, time),
        }
    }

    fn allows(&self, now: f64) -> f64 {
        match self.by {
            Wrapper::Outage(_, from, to) if (from..to).contains(&now) => 0.0,
            Wrapper::Others(rate) => self.service.allows(now) - rate,
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

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        (**self).call(now, row, random)
    }

    fn allows(&self, now: f64) -> f64 {
        (**self).allows(now)
    }

    fn says(&self, now: f64) -> Option<Allowance> {
        (**self).says(now)
    }
}
