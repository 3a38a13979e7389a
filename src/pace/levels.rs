//! Whether the service limits the calls in flight, and not the calls a second.
//!
//! Both grow together, so a refusal alone does not tell them apart. A service that counts calls in flight refuses those that
//! arrive while many others are out, at any pace, and never those that arrive while few are. Times are passed in.

use std::collections::VecDeque;
use std::time::Duration;

/// How many calls were in flight when calls were accepted, and when they were refused.
#[derive(Debug, Default)]
pub(super) struct InFlightLevels {
    /// The levels of the last accepted calls.
    accepted: VecDeque<u32>,
    /// The highest accepted level, in this stretch of time and in the one before.
    highest: [u32; 2],
    stretch: u64,
    suspicion: Option<Suspicion>,
}

/// Refusals that look as if calls in flight were limited.
#[derive(Debug, Clone, Copy)]
struct Suspicion {
    lowest: u32,
    times: u32,
}

/// A limit of calls in flight must be seen this often: two refusals in a row still come by chance.
pub(super) const SEEN: u32 = 3;
/// Accepted calls that are remembered: enough to tell their highest tenth.
const REMEMBERED: usize = 128;
/// A level is high if at most one in this many accepted calls reached it: on the wire calls are in flight but not counted,
/// so that a few above the limit are accepted.
const HIGH_ONE_IN: usize = 10;
/// Seconds of a stretch: a search tries several paces in two of them, and what is older may be another limit's.
const STRETCH: u64 = 30;

impl InFlightLevels {
    /// A call was accepted that was the `level`th in flight.
    pub(super) fn accepted(&mut self, now: Duration, level: u32) {
        self.start_stretch(now);
        if self.accepted.len() == REMEMBERED {
            self.accepted.pop_front();
        }
        self.accepted.push_back(level);
        let [current, _] = &mut self.highest;
        *current = level.max(*current);
    }

    /// A call was refused that was the `level`th in flight; `is_sustained` says whether its pace is sustained otherwise, and
    /// `is_rough` whether levels may be wrong by one.
    /// Returns the lowest refused level once it is certain that this is the limit.
    pub(super) fn refused(
        &mut self,
        now: Duration,
        level: u32,
        is_sustained: bool,
        is_rough: bool,
    ) -> Option<u32> {
        self.start_stretch(now);
        let [current, before] = self.highest;
        let highest = current.max(before);
        let is_highest =
            level > highest || (is_rough && level + 1 >= highest && level > self.high());
        let is_high = is_sustained && level >= self.high();
        if level < 2 || !(is_highest || is_high) {
            self.suspicion = None;
            return None;
        }
        let suspicion = self.suspicion.get_or_insert(Suspicion {
            lowest: level,
            times: 0,
        });
        suspicion.lowest = suspicion.lowest.min(level);
        suspicion.times += 1;
        let found = (suspicion.times >= SEEN).then_some(suspicion.lowest);
        if found.is_some() {
            self.suspicion = None;
        }
        found
    }

    /// The level that a tenth of the accepted calls reached.
    fn high(&self) -> u32 {
        let mut sorted: Vec<u32> = self.accepted.iter().copied().collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        sorted
            .get(sorted.len() / HIGH_ONE_IN)
            .copied()
            .unwrap_or_default()
    }

    fn start_stretch(&mut self, now: Duration) {
        let stretch = now.as_secs() / STRETCH;
        if stretch > self.stretch {
            let [current, _] = self.highest;
            let before = if stretch == self.stretch + 1 {
                current
            } else {
                0
            };
            self.highest = [0, before];
            self.stretch = stretch;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn accepted(levels: &mut InFlightLevels, up_to: u32) {
        for level in (1..=up_to).cycle().take(200) {
            levels.accepted(SECOND, level);
        }
    }

    #[test]
    fn refusals_only_at_new_heights_show_a_limit_of_calls_in_flight() {
        let mut levels = InFlightLevels::default();
        accepted(&mut levels, 20);
        assert_eq!(levels.refused(SECOND, 21, false, false), None);
        assert_eq!(levels.refused(SECOND, 23, false, false), None);
        assert_eq!(levels.refused(SECOND, 22, false, false), Some(21));
    }

    #[test]
    fn refusals_at_lower_levels_speak_for_a_limit_of_the_rate() {
        let mut levels = InFlightLevels::default();
        accepted(&mut levels, 20);
        levels.refused(SECOND, 27, false, false);
        assert_eq!(levels.refused(SECOND, 7, false, false), None);
        for _ in 0..10 {
            assert_eq!(levels.refused(SECOND, 7, true, false), None);
        }
        assert_eq!(
            levels.refused(SECOND, 27, false, false),
            None,
            "counting starts over"
        );
    }

    #[test]
    fn one_in_flight_is_never_too_many() {
        let mut levels = InFlightLevels::default();
        for _ in 0..10 {
            assert_eq!(levels.refused(SECOND, 1, true, false), None);
        }
    }

    #[test]
    fn old_levels_are_forgotten() {
        let mut levels = InFlightLevels::default();
        accepted(&mut levels, 20);
        let later = SECOND * 100;
        for level in [8, 8, 8] {
            levels.accepted(later, 7);
            levels.refused(later, level, false, false);
        }
        assert!(levels.suspicion.is_none(), "found");
    }
}
