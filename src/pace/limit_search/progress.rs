//! What an interval without trouble shows of the limit that is searched for, and how much is tried next.

use std::time::Duration;

use super::search::{GROWTH, LimitSearch, Quantity, Stage};

/// An interval that went by without trouble.
#[derive(Debug, Clone, Copy)]
pub(in crate::pace) struct QuietInterval {
    /// How long an interval is now.
    pub(in crate::pace) length: Duration,
    /// How long a step must last at least, for too much to be refused within it.
    pub(in crate::pace) step: Duration,
    /// All that was allowed was used, so that more would be of use.
    pub(in crate::pace) fully_used: bool,
    /// Growth waits for this many calls, or for a step if they take longer.
    pub(in crate::pace) calls: f64,
    /// The last cut made refusals rarer, as far as can be known by now.
    pub(in crate::pace) cut_helped: bool,
}

/// A step at a rate lasts at least this many calls, and so many must be accepted during cuts that are said to be for nothing: of
/// fewer, a refusal says little.
pub(in crate::pace) const FEWEST_OF_A_STEP: u32 = 5;
/// A step past the limit lasts at least this long: a service that counts in windows of 10 s refuses at their end. A cut that has
/// not been seen to help is checked for this long, or for a usual step if that is longer: refusals that are rarer cost little.
const LONG_STEP: Duration = Duration::from_secs(15);

impl LimitSearch {
    /// An interval went by without trouble.
    pub(in crate::pace) fn quiet(&mut self, now: Duration, interval: QuietInterval) {
        if !interval.fully_used {
            return;
        }
        self.observed += interval.length;
        self.gaps.quiet(interval.length.as_secs_f64() * self.value);
        if let Some(refused) = &mut self.refused
            && self.value <= refused.at
            && self.gaps.is_beyond_chance()
        {
            refused.beyond_chance = true;
        }
        let step = self.step(interval.step);
        match self.stage {
            Stage::Growing => {
                let calls = self.observed.as_secs_f64() * self.value;
                if calls >= interval.calls || self.observed >= step {
                    self.grow(self.growth);
                }
            }
            // Something other than a refusal had lowered it.
            Stage::ClosingIn if self.value < self.sustained => {
                let more = (self.value * GROWTH).max(self.value + self.smallest_step());
                self.set(more.min(self.sustained));
            }
            Stage::ClosingIn => self.sustained_for(now, step),
            Stage::Checking if interval.cut_helped => self.sustained_for(now, step),
            Stage::Checking => self.sustained_for(now, step.max(LONG_STEP)),
            Stage::Holding { until } => {
                if now >= until {
                    self.look(0);
                }
            }
            Stage::Looking { steps } => self.look_further(step, steps),
        }
    }

    /// How long this step lasts.
    fn step(&self, least: Duration) -> Duration {
        match self.quantity {
            Quantity::InFlight => least,
            Quantity::Rate => least.max(Duration::from_secs_f64(
                f64::from(FEWEST_OF_A_STEP) / self.value,
            )),
        }
    }

    /// Once the value was observed for this long, it is sustained and the search continues from there.
    fn sustained_for(&mut self, now: Duration, step: Duration) {
        if self.observed >= step {
            self.sustained = self.value;
            self.refusals_in_a_row = 0;
            self.halve(now);
        }
    }

    /// A step past the limit brought no refusal so far.
    fn look_further(&mut self, step: Duration, steps: u32) {
        let is_guess = self.refused.is_some_and(|refused| refused.rough);
        if self.observed < step.max(if is_guess { Duration::ZERO } else { LONG_STEP }) {
            return;
        }
        self.sustained = self.value;
        if self
            .refused
            .is_none_or(|refused| self.value > refused.at * GROWTH)
        {
            self.forget();
        } else {
            self.look(steps);
        }
    }
}
