//! The search for how much of one thing the service bears: calls a second, or calls in flight.
//!
//! Doubling until it refuses (slow start), then halving the interval between what it bears and what it refuses, then holding
//! just below, with a look past the limit from time to time. It knows no clock and no service: time is told, and somebody
//! else says what was refused.

use std::time::Duration;

pub(super) use refusal::Finding;

use super::throughput::Measured;
use crate::telemetry::event::{Found, Search};

/// What is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Calls a second.
    Rate,
    /// Calls in flight: whole ones.
    InFlight,
}

/// One number, and what is known of its limit.
#[derive(Debug, Clone)]
pub(super) struct LimitSearch {
    kind: Kind,
    value: f64,
    least: f64,
    most: f64,
    /// The most that is known to be borne.
    borne: f64,
    /// The least that was refused.
    refused: Option<Refused>,
    /// Refusals in a row without a step that was borne.
    in_a_row: u32,
    /// What was accepted before the last refusal, where more was sent.
    limited: Option<Measured>,
    /// The least that was allowed since then.
    slowest: f64,
    /// The most that was accepted from one refusal to the next, pauses and all: no limit is below that.
    best: f64,
    /// The last limit that was measured.
    found: f64,
    /// What was held to before a look.
    held: f64,
    stage: Stage,
    /// How fast it grows while no limit is in sight.
    growth: f64,
    /// How long all that is allowed has been used since the last change.
    watched: Duration,
    /// What was held to was refused: it was a little too much.
    crept: bool,
    /// How long the next hold is.
    hold: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Refused {
    at: f64,
    /// How often the service was seen to refuse so much.
    times: u32,
    /// It may be a guess far too low, or chance.
    rough: bool,
}

/// Where the search is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// No limit is in sight.
    Doubling,
    /// Between what is borne and what is refused.
    Halving,
    /// Less than what was borne was refused: the cut is a hypothesis, and it is being checked.
    Checking,
    /// Just below the limit, until then.
    Holding { until: Duration },
    /// A look past the limit: how many steps so far.
    Looking { steps: u32 },
}

/// Slow start: what is too much by as much costs as many refusals as calls are out, since a refusal pauses everybody.
const GROWTH: f64 = 2.0;
/// The same after it was too much for something else than a limit, as when answers queue.
const GENTLE_GROWTH: f64 = 1.1;
/// A limit is known closely enough when what is refused is so much more than what is borne.
const CLOSE: f64 = 1.05;
/// How near a limit is kept to: what is measured there is a little more, as buckets have a burst.
const NEAR: f64 = 0.99;
/// What was measured is tried with so much to spare.
const SPARE: f64 = 0.95;
/// A limit that another run found is begun with so much of: the bucket may be as empty as that run left it.
const NEAR_KNOWN: f64 = 0.7;
/// How long the first hold is …
const FIRST_HOLD: Duration = Duration::from_secs(120);
/// … doubling with each look that finds the same limit up to this: two looks an hour are polite, and a limit that rose is
/// found the same day.
const LONGEST_HOLD: Duration = Duration::from_secs(30 * 60);
/// A step past a limit that was seen more than once: what is too much by so little costs a call or two.
const LOOK: f64 = 0.03;
/// A step past one that was seen once, and may have been chance.
const LOOK_AT_GUESS: f64 = 0.06;
/// So many steps past a limit are small, then each is twice as large as the one before.
const SMALL_LOOKS: u32 = 4;
/// How long a step past a limit is watched at least: a service that counts in windows of 10 s refuses at their end.
const LOOK_STEP: Duration = Duration::from_secs(15);
/// Of fewer calls a rate is not measured …
const FEW: u64 = 10;
/// … and no step is shorter than that many.
const FEWEST: f64 = 5.0;
/// A cut is checked no longer than that: refusals that are rarer cost little.
const LONGEST_CHECK: Duration = Duration::from_secs(30);
/// How long a step is watched at least after a limit was seen more than once: a bucket filled up in the pause.
const STEP: Duration = Duration::from_secs(3);
/// So much more than the limit that was known, and it is not there any more.
const BEYOND: f64 = 2.5;
/// A limit that was seen so often is no guess.
const SEEN: u32 = 2;

impl LimitSearch {
    /// Starts at `first`, within the bounds.
    pub(super) const fn new(kind: Kind, first: f64, least: f64, most: f64) -> Self {
        Self {
            kind,
            value: first.clamp(least, most),
            least,
            most,
            borne: 0.0,
            refused: None,
            in_a_row: 0,
            limited: None,
            slowest: f64::INFINITY,
            best: 0.0,
            found: 0.0,
            held: 0.0,
            stage: Stage::Doubling,
            growth: GROWTH,
            watched: Duration::ZERO,
            crept: false,
            hold: FIRST_HOLD,
        }
    }

    /// As much as may be now.
    pub(super) const fn value(&self) -> f64 {
        self.value
    }

    /// Where the search is, as people should know it.
    pub(super) const fn stage(&self) -> Search {
        match self.stage {
            Stage::Doubling => Search::Growing,
            Stage::Halving => Search::ClosingIn,
            Stage::Checking => Search::Checking,
            Stage::Holding { .. } => Search::Holding,
            Stage::Looking { .. } => Search::Looking,
        }
    }

    /// The least that was refused, and how often the service refused it, where it bears something below that.
    pub(super) fn limit(&self) -> Option<Found> {
        self.refused
            .filter(|_| self.borne > 0.0)
            .map(|refused| Found {
                value: refused.at,
                times: refused.times,
            })
    }

    /// Whether it is as much as may ever be.
    pub(super) const fn is_at_most(&self) -> bool {
        self.value >= self.most
    }

    /// Whether the service is known to bear so much.
    pub(super) fn is_borne(&self, much: f64) -> bool {
        much <= self.borne.max(self.best)
    }

    /// Whether a look past the limit goes on, and `much` is more than the limit.
    pub(super) fn is_past_limit(&self, much: f64) -> bool {
        matches!(self.stage, Stage::Looking { .. })
            && self.refused.is_some_and(|refused| much >= refused.at)
    }

    /// So much was refused again and again, and nothing else explains it.
    pub(super) fn found(&mut self, now: Duration, at: f64, times: u32) {
        self.refused = Some(Refused {
            at,
            times,
            rough: false,
        });
        self.borne = at - self.smallest_step();
        self.settle(now);
    }

    /// `borne` was borne, and `refused` was too much.
    pub(super) fn is_limited(&mut self, borne: f64, refused: f64) {
        self.borne = borne;
        self.refused = Some(Refused {
            at: refused,
            times: SEEN,
            rough: false,
        });
        self.set(borne);
        self.stage = Stage::Halving;
    }

    /// Something other than a refusal says that less is better.
    pub(super) fn slow_to(&mut self, value: f64) {
        if value < self.value {
            self.set(value);
            self.growth = GENTLE_GROWTH;
            if let Stage::Holding { .. } | Stage::Looking { .. } = self.stage {
                self.stage = Stage::Halving;
            }
        }
    }

    /// The limit is known from elsewhere: the search begins just below it.
    pub(super) fn start_near(&mut self, limit: f64, times: u32) {
        if limit < self.most {
            self.refused = Some(Refused {
                at: limit.max(self.least),
                times,
                rough: times <= SEEN,
            });
            self.borne = limit * SPARE;
            self.set(limit * NEAR_KNOWN);
            self.stage = Stage::Halving;
        }
    }

    /// What was known of the limit does not hold any more.
    pub(super) fn forget(&mut self) {
        *self = Self::new(self.kind, self.value, self.least, self.most);
    }

    /// What it was lowered to was too little.
    pub(super) fn at_least(&mut self, value: f64) {
        self.set(self.value.max(value));
    }

    /// An interval of this length went by without trouble. `used`: all that is allowed was used, so that more would be of use; `shown`: how
    /// long it takes until too much is refused; `helped`: whether the last cut has brought fewer refusals.
    pub(super) fn calm(
        &mut self,
        now: Duration,
        length: Duration,
        shown: Duration,
        used: bool,
        helped: bool,
    ) {
        if !used {
            return;
        }
        self.watched += length;
        let longer = match self.refused {
            Some(refused) if refused.times >= SEEN => STEP,
            _ => Duration::ZERO,
        };
        let shown = match self.kind {
            Kind::Rate => shown
                .max(Duration::from_secs_f64(FEWEST / self.value))
                .max(longer),
            Kind::InFlight => shown,
        };
        match self.stage {
            Stage::Doubling => self.grow(self.growth),
            // It was lowered for something else.
            Stage::Halving if self.value < self.borne => {
                let more = (self.value * GROWTH).max(self.value + self.smallest_step());
                self.set(more.min(self.borne));
            }
            Stage::Halving => {
                if self.watched >= shown {
                    self.borne = self.value;
                    self.is_calm();
                    self.halve(now);
                }
            }
            Stage::Checking => {
                if self.watched
                    >= shown.max(if helped {
                        Duration::ZERO
                    } else {
                        LONGEST_CHECK
                    })
                {
                    self.borne = self.value;
                    self.is_calm();
                    self.halve(now);
                }
            }
            Stage::Holding { until } => {
                if now >= until {
                    self.crept = false;
                    self.look(0);
                }
            }
            Stage::Looking { steps } => {
                let rough = self.refused.is_some_and(|refused| refused.rough);
                if self.watched < shown.max(if rough { Duration::ZERO } else { LOOK_STEP }) {
                    return;
                }
                self.borne = self.value;
                if self
                    .refused
                    .is_none_or(|refused| self.value > refused.at * BEYOND)
                {
                    self.forget();
                } else {
                    self.look(steps);
                }
            }
        }
    }

    /// To the middle between what is borne and what is refused, or to hold where they are close.
    fn halve(&mut self, now: Duration) {
        let Some(refused) = self.refused else { return };
        let gap = refused.at - self.borne;
        if gap > self.smallest_step() && refused.at > self.borne * CLOSE {
            self.set(f64::midpoint(self.borne, refused.at));
            self.stage = Stage::Halving;
        } else {
            self.settle(now);
        }
    }

    /// Holds just below the limit; when that is only a guess, looks past it at once.
    fn settle(&mut self, now: Duration) {
        self.is_calm();
        self.hold_at(
            now,
            match self.kind {
                Kind::Rate => self.borne * NEAR,
                Kind::InFlight => self.borne,
            },
        );
        if self.refused.is_some_and(|refused| refused.rough) {
            self.look(0);
        }
    }

    fn hold_at(&mut self, now: Duration, value: f64) {
        self.best = 0.0;
        self.set(value);
        self.held = self.value;
        self.stage = Stage::Holding {
            until: now + self.hold,
        };
    }

    fn look(&mut self, before: u32) {
        let Some(refused) = self.refused else { return };
        let (look, small) = if refused.rough {
            (LOOK_AT_GUESS, 1)
        } else {
            (LOOK, SMALL_LOOKS)
        };
        let doublings = (before + 1).saturating_sub(small).min(8);
        let by = (look * f64::from(1_u32 << doublings)).min(GROWTH - 1.0);
        self.grow(1.0 + by);
        self.stage = Stage::Looking { steps: before + 1 };
    }

    const fn is_calm(&mut self) {
        self.in_a_row = 0;
    }

    fn grow(&mut self, by: f64) {
        self.set((self.value * by).max(self.value + self.smallest_step()));
    }

    fn set(&mut self, value: f64) {
        let value = match self.kind {
            Kind::Rate => value,
            Kind::InFlight => value.floor(),
        };
        self.value = value.clamp(self.least, self.most);
        self.slowest = self.slowest.min(self.value);
        self.watched = Duration::ZERO;
    }

    const fn smallest_step(&self) -> f64 {
        match self.kind {
            Kind::Rate => 0.0,
            Kind::InFlight => 1.0,
        }
    }
}

mod refusal;
#[cfg(test)]
mod tests;
