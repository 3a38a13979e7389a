//! One value that is searched for, what is known about its limit, and the steps of the search.

use std::time::Duration;

use super::chance::RefusalGaps;
use crate::pace::throughput::SPARE;
use crate::telemetry::pace::{FoundLimit, Search};

/// What is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pace) enum Quantity {
    /// Calls a second.
    Rate,
    /// Calls in flight: a whole number.
    InFlight,
}

/// One value, and what is known about its limit.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::pace) struct LimitSearch {
    pub(super) quantity: Quantity,
    pub(super) value: f64,
    pub(super) least: f64,
    most: f64,
    /// The most that the service is known to sustain.
    pub(super) sustained: f64,
    /// The least that it refused.
    pub(super) refused: Option<LowestRefused>,
    /// The gaps between refusals so far.
    pub(super) gaps: RefusalGaps,
    /// Refusals without a sustained step in between.
    pub(super) refusals_in_a_row: u32,
    /// What was accepted before the last refusal, if clearly more was sent.
    pub(super) last_limited: Option<f64>,
    /// The least value since the last refusal. It may be infinite, which JSON cannot say.
    pub(super) slowest: f64,
    /// The most that was accepted from one refusal to the next, pauses included: no limit is below that.
    pub(super) best: f64,
    /// The value that was held before a look past the limit.
    pub(super) held: f64,
    pub(super) stage: Stage,
    /// The growth factor while no limit is in sight.
    pub(super) growth: f64,
    /// For how long the value has been fully used since it last changed.
    pub(super) observed: Duration,
    /// The length of the next hold.
    pub(super) hold: Duration,
}

/// The least value that the service refused.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LowestRefused {
    pub(super) at: f64,
    /// How often the service was seen to refuse it.
    pub(super) times: u32,
    /// It may be a guess far below the limit, or chance.
    pub(super) rough: bool,
    /// Below it, none were refused for longer than chance explains.
    pub(super) beyond_chance: bool,
}

/// Where the search is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stage {
    /// No limit is in sight.
    Growing,
    /// Between what was sustained and what was refused.
    ClosingIn,
    /// A value that had been sustained was refused. The cut is a hypothesis that is being checked.
    Checking,
    /// Just below the limit, until then.
    Holding { until: Duration },
    /// Looking past the limit, this many steps so far.
    Looking { steps: u32 },
}

/// Slow start: growing too far costs as many refusals as there are calls in flight, since a refusal pauses all calls. At this many
/// times a known limit without a refusal, the limit is not there any more.
pub(super) const GROWTH: f64 = 2.0;
/// The share that is left each interval while answers queue: gently, as answers show the queue as it was. Growth after that, or
/// after an outage, is as gentle.
pub(in crate::pace) const WHILE_QUEUEING: f64 = 0.9;
/// A value is close to one that is up to this many times as large: closing in further would cost refusals for little gain, and a
/// measurement is not exact.
pub(super) const CLOSE: f64 = 1.05;
/// The share of the measured limit that is held: the measurement is a little high, as buckets have a burst.
const NEAR: f64 = 0.99;
/// The share of a limit that another run found to start with: that run may have left the bucket empty.
const NEAR_KNOWN: f64 = 0.7;
/// The first hold. A limit that has just been found is looked at again soon.
pub(super) const FIRST_HOLD: Duration = Duration::from_secs(120);
/// Each look that finds the same limit doubles the time until the next one up to this: two an hour cost little, and a limit that
/// rose is found on the same day.
pub(super) const LONGEST_HOLD: Duration = Duration::from_secs(30 * 60);
/// A small step past a limit: overshooting by so little costs a call or two.
const LOOK: f64 = 0.03;
/// This many steps past a limit are small; each later one is twice as large as the one before. Past a limit that was seen once
/// and may have been chance, none are.
pub(super) const SMALL_LOOKS: u32 = 4;

impl LimitSearch {
    /// Starts at `first`, between `least` and `most`.
    pub(in crate::pace) fn new(quantity: Quantity, first: f64, least: f64, most: f64) -> Self {
        Self {
            quantity,
            value: first.clamp(least, most),
            least,
            most,
            sustained: 0.0,
            refused: None,
            gaps: RefusalGaps::default(),
            refusals_in_a_row: 0,
            last_limited: None,
            slowest: f64::INFINITY,
            best: 0.0,
            held: 0.0,
            stage: Stage::Growing,
            growth: GROWTH,
            observed: Duration::ZERO,
            hold: FIRST_HOLD,
        }
    }

    /// What is allowed now.
    pub(in crate::pace) const fn value(&self) -> f64 {
        self.value
    }

    /// Where the search is, for people to read.
    pub(in crate::pace) const fn stage(&self) -> Search {
        match self.stage {
            Stage::Growing => Search::Growing,
            Stage::ClosingIn => Search::ClosingIn,
            Stage::Checking => Search::Checking,
            Stage::Holding { .. } => Search::Holding,
            Stage::Looking { .. } => Search::Looking,
        }
    }

    /// The least that was refused, and how often, once something below it was sustained. While chance explains it, it is
    /// doubtful.
    pub(in crate::pace) fn limit(&self) -> Option<FoundLimit> {
        let refused = self.refused.filter(|_| self.sustained > 0.0)?;
        let found = FoundLimit {
            value: refused.at,
            times: refused.times,
        };
        Some(if refused.beyond_chance {
            found
        } else {
            found.doubted()
        })
    }

    /// Whether the value is the most that the user allows.
    pub(in crate::pace) const fn is_at_most(&self) -> bool {
        self.value >= self.most
    }

    /// Whether the service is known to sustain `value`.
    pub(in crate::pace) fn is_sustained(&self, value: f64) -> bool {
        value <= self.sustained.max(self.best)
    }

    /// Whether a look past the limit is under way, and `value` is beyond the limit.
    pub(in crate::pace) fn is_past_limit(&self, value: f64) -> bool {
        matches!(self.stage, Stage::Looking { .. })
            && self.refused.is_some_and(|refused| value >= refused.at)
    }

    /// `at` was refused often enough, and nothing else explains it: that is the limit.
    pub(in crate::pace) fn limit_found(&mut self, now: Duration, at: f64) {
        self.refused = Some(LowestRefused {
            at,
            times: FoundLimit::SURE_FROM,
            rough: false,
            beyond_chance: true,
        });
        self.sustained = at - self.smallest_step();
        self.settle(now);
    }

    /// A comparison has shown that `sustained` is sustained and `refused` is too much.
    pub(in crate::pace) fn limit_between(&mut self, sustained: f64, refused: f64) {
        self.sustained = sustained;
        self.refused = Some(LowestRefused {
            at: refused,
            times: FoundLimit::REMEMBERED_FROM,
            rough: false,
            beyond_chance: false,
        });
        self.set(sustained);
        self.stage = Stage::ClosingIn;
    }

    /// Something other than a refusal calls for less.
    pub(in crate::pace) fn slow_to(&mut self, value: f64) {
        if value < self.value {
            self.set(value);
            self.growth = 1.0 / WHILE_QUEUEING;
            if let Stage::Holding { .. } | Stage::Looking { .. } = self.stage {
                self.stage = Stage::ClosingIn;
            }
        }
    }

    /// Something other than a refusal calls for far less: as much as a step of growth.
    pub(in crate::pace) fn step_back(&mut self) {
        self.slow_to(self.value / GROWTH);
    }

    /// Another run found the limit: the search starts just below it.
    pub(in crate::pace) fn start_near(&mut self, limit: FoundLimit) {
        if limit.value < self.most {
            self.refused = Some(LowestRefused {
                at: limit.value.max(self.least),
                times: limit.times,
                rough: limit.is_doubtful(),
                beyond_chance: !limit.is_doubtful(),
            });
            self.sustained = limit.value * SPARE;
            self.set(limit.value * NEAR_KNOWN);
            self.stage = Stage::ClosingIn;
        }
    }

    /// What was known about the limit no longer holds.
    pub(in crate::pace) fn forget(&mut self) {
        *self = Self::new(self.quantity, self.value, self.least, self.most);
    }

    /// Raises the value to this.
    pub(in crate::pace) fn raise_to(&mut self, value: f64) {
        self.set(self.value.max(value));
    }

    /// The service turned out to count in windows, and accepts no more than this.
    pub(in crate::pace) fn at_most(&mut self, accepted: f64) {
        if let Some(refused) = &mut self.refused
            && accepted < refused.at
        {
            refused.at = accepted.max(self.least);
            // The service may have refused everything for a while, which says nothing about a limit.
            refused.rough = true;
            self.sustained = self.sustained.min(accepted * SPARE);
            self.set(self.value.min(accepted * SPARE));
            self.stage = Stage::ClosingIn;
        }
    }

    /// Goes to the middle between what was sustained and what was refused, or holds if the two are close.
    pub(super) fn halve(&mut self, now: Duration) {
        let Some(refused) = self.refused else { return };
        let gap = refused.at - self.sustained;
        if gap > self.smallest_step() && refused.at > self.sustained * CLOSE {
            self.set(f64::midpoint(self.sustained, refused.at));
            self.stage = Stage::ClosingIn;
        } else {
            self.settle(now);
        }
    }

    /// Holds just below the limit, or looks past it right away if it is only a guess.
    pub(super) fn settle(&mut self, now: Duration) {
        self.refusals_in_a_row = 0;
        self.hold_at(
            now,
            match self.quantity {
                Quantity::Rate => self.sustained * NEAR,
                Quantity::InFlight => self.sustained,
            },
        );
        if self.refused.is_some_and(|refused| refused.rough) {
            self.look(0);
        }
    }

    pub(super) fn hold_at(&mut self, now: Duration, value: f64) {
        self.best = 0.0;
        self.set(value);
        self.held = self.value;
        self.stage = Stage::Holding {
            until: now + self.hold,
        };
    }

    /// Takes the next step past the limit, after this many.
    pub(super) fn look(&mut self, steps: u32) {
        let Some(refused) = self.refused else { return };
        let small = if refused.rough { 0 } else { SMALL_LOOKS };
        let doublings = (steps + 1).saturating_sub(small).min(8);
        let by = (LOOK * f64::from(1_u32 << doublings)).min(GROWTH - 1.0);
        self.grow(1.0 + by);
        self.stage = Stage::Looking { steps: steps + 1 };
    }

    pub(super) fn grow(&mut self, by: f64) {
        self.set((self.value * by).max(self.value + self.smallest_step()));
    }

    pub(super) fn set(&mut self, value: f64) {
        let value = match self.quantity {
            Quantity::Rate => value,
            Quantity::InFlight => value.floor(),
        };
        self.value = value.clamp(self.least, self.most);
        self.slowest = self.slowest.min(self.value);
        self.observed = Duration::ZERO;
    }

    pub(super) const fn smallest_step(&self) -> f64 {
        match self.quantity {
            Quantity::Rate => 0.0,
            Quantity::InFlight => 1.0,
        }
    }
}
