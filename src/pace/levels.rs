//! Whether the service limits the calls in flight, and not the calls a second.
//!
//! Both grow together, so a refusal alone does not tell them apart. A service that counts calls in flight refuses those that
//! arrive while many others are out, at any pace, and never those that arrive while few are.

use std::collections::VecDeque;

use crate::telemetry::pace::FoundLimit;

/// How many calls were in flight when calls were accepted, and when they were refused.
#[derive(Debug, Default)]
pub(super) struct InFlightLevels {
    /// The levels of the last accepted calls.
    accepted: VecDeque<u32>,
    /// Levels of refusals that look as if calls in flight were limited.
    suspicious: Vec<u32>,
}

/// Accepted calls that are remembered: enough to tell their highest tenth.
const REMEMBERED: usize = 128;
/// A level is high if at most one in this many accepted calls was above it: on the wire calls are in flight but not counted,
/// so that a few above the limit are accepted.
const HIGH_ONE_IN: usize = 10;
/// … and if this share of them was below it: where all calls reach the level that is allowed, so does any that is refused.
const BELOW: f64 = 0.75;

impl InFlightLevels {
    /// A call was accepted that was the `level`th in flight.
    pub(super) fn accepted(&mut self, level: u32) {
        if self.accepted.len() == REMEMBERED {
            self.accepted.pop_front();
        }
        self.accepted.push_back(level);
    }

    /// A call was refused that was the `level`th in flight; `is_sustained` says whether its pace is sustained otherwise.
    /// Returns the lowest refused level once it is certain that this is the limit.
    pub(super) fn refused(&mut self, level: u32, is_sustained: bool) -> Option<u32> {
        let is_highest = self.reached(level) == 0;
        let is_rare = self.reached(level + 1) * HIGH_ONE_IN <= self.accepted.len();
        let is_high = is_rare && self.share_below(level) >= BELOW;
        if level < 2 || !(is_highest || (is_sustained && is_high)) {
            self.suspicious.clear();
            return None;
        }
        self.suspicious.push(level);
        // As often as any limit that is trusted.
        if self.suspicious.len() < FoundLimit::SURE_FROM as usize {
            return None;
        }
        std::mem::take(&mut self.suspicious).into_iter().min()
    }

    /// The share of accepted calls that did not reach this level.
    #[allow(clippy::cast_precision_loss, reason = "a hundred calls")]
    fn share_below(&self, level: u32) -> f64 {
        1.0 - self.reached(level) as f64 / self.accepted.len().max(1) as f64
    }

    /// How many accepted calls reached this level.
    fn reached(&self, level: u32) -> usize {
        let accepted = self.accepted.iter();
        accepted.filter(|accepted| **accepted >= level).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(levels: &mut InFlightLevels, up_to: u32) {
        for level in (1..=up_to).cycle().take(200) {
            levels.accepted(level);
        }
    }

    #[test]
    fn refusals_only_at_new_heights_show_a_limit_of_calls_in_flight() {
        let mut levels = InFlightLevels::default();
        accepted(&mut levels, 20);
        assert_eq!(levels.refused(21, false), None);
        assert_eq!(levels.refused(23, false), None);
        assert_eq!(levels.refused(22, false), Some(21));
    }

    #[test]
    fn refusals_at_lower_levels_speak_for_a_limit_of_the_rate() {
        let mut levels = InFlightLevels::default();
        accepted(&mut levels, 20);
        levels.refused(27, false);
        assert_eq!(levels.refused(7, false), None);
        for _ in 0..10 {
            assert_eq!(levels.refused(7, true), None);
        }
        assert_eq!(levels.refused(27, false), None, "counting starts over");
    }

    #[test]
    fn refusals_at_a_level_that_most_calls_reach_are_chance() {
        let refused = |at_most: u32| {
            let mut levels = InFlightLevels::default();
            (0..3)
                .filter_map(|_| {
                    accepted(&mut levels, at_most);
                    levels.refused(at_most, true)
                })
                .last()
        };
        assert_eq!(refused(2), None, "half of them do");
        assert_eq!(refused(8), Some(8), "one in eight does");
    }

    #[test]
    fn one_in_flight_is_never_too_many() {
        let mut levels = InFlightLevels::default();
        for _ in 0..10 {
            assert_eq!(levels.refused(1, true), None);
        }
    }

    #[test]
    fn old_levels_are_forgotten() {
        let mut levels = InFlightLevels::default();
        accepted(&mut levels, 20);
        for _ in 0..REMEMBERED {
            levels.accepted(7);
        }
        let found = [8, 8, 8].map(|level| levels.refused(level, false));
        assert_eq!(found, [None, None, Some(8)]);
    }
}
