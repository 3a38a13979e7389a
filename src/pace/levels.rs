//! Whether the service limits the calls in flight, and not those a second.
//!
//! Both grow together, so that a refusal alone does not tell them apart. A service that counts calls in flight refuses the
//! ones that find many others out, at any pace, and never those that find few. Time is told.

use std::collections::VecDeque;
use std::time::Duration;

/// How many were in flight when calls were accepted, and when they were refused.
#[derive(Debug, Default)]
pub(super) struct InFlightLevels {
    /// Of the last accepted calls.
    accepted: VecDeque<u32>,
    /// The highest accepted, in this stretch of time and the one before.
    highest: [u32; 2],
    stretch: u64,
    suspicion: Option<Suspicion>,
}

/// Refusals that are as if calls in flight were limited.
#[derive(Debug, Clone, Copy)]
struct Suspicion {
    lowest: u32,
    times: u32,
}

/// A limit of calls in flight must be seen so often.
pub(super) const SEEN: u32 = 3;
/// Accepted calls that are remembered: enough for their highest tenth.
const REMEMBERED: usize = 128;
const HIGHEST: usize = 10;
/// How long a stretch is, in seconds: a search goes through several paces in two of them.
const STRETCH: u64 = 30;

impl InFlightLevels {
    /// A call was accepted that was the `level`th in flight.
    pub(super) fn accepted(&mut self, now: Duration, level: u32) {
        self.turn(now);
        if self.accepted.len() == REMEMBERED {
            self.accepted.pop_front();
        }
        self.accepted.push_back(level);
        let [current, _] = &mut self.highest;
        *current = level.max(*current);
    }

    /// A call was refused that was the `level`th in flight; `is_borne`: at a pace that is borne otherwise. How many are the
    /// limit, if that is certain by now: the least that was refused.
    pub(super) fn refused(&mut self, now: Duration, level: u32, is_borne: bool) -> Option<u32> {
        self.turn(now);
        let [current, before] = self.highest;
        let is_highest = level > current.max(before);
        // On the wire calls are in flight and not counted, so that a few above the limit are accepted.
        let is_high = is_borne && level >= self.high();
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

    /// What a tenth of the accepted calls reached.
    fn high(&self) -> u32 {
        let mut sorted: Vec<u32> = self.accepted.iter().copied().collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        sorted
            .get(sorted.len() / HIGHEST)
            .copied()
            .unwrap_or_default()
    }

    fn turn(&mut self, now: Duration) {
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
    fn who_refuses_only_what_finds_many_others_out_limits_them() {
        let mut levels = InFlightLevels::default();
        accepted(&mut levels, 20);
        assert_eq!(levels.refused(SECOND, 21, false), None);
        assert_eq!(levels.refused(SECOND, 23, false), None);
        assert_eq!(levels.refused(SECOND, 22, false), Some(21));
    }

    #[test]
    fn who_refuses_fewer_in_flight_at_a_lower_rate_limits_the_rate() {
        let mut levels = InFlightLevels::default();
        accepted(&mut levels, 20);
        levels.refused(SECOND, 27, false);
        assert_eq!(levels.refused(SECOND, 7, false), None);
        for _ in 0..10 {
            assert_eq!(levels.refused(SECOND, 7, true), None);
        }
        assert_eq!(
            levels.refused(SECOND, 27, false),
            None,
            "counted from the start"
        );
    }

    #[test]
    fn one_in_flight_is_never_too_many() {
        let mut levels = InFlightLevels::default();
        for _ in 0..10 {
            assert_eq!(levels.refused(SECOND, 1, true), None);
        }
    }

    #[test]
    fn after_a_while_it_is_forgotten_how_many_there_were() {
        let mut levels = InFlightLevels::default();
        accepted(&mut levels, 20);
        let later = SECOND * 100;
        for level in [8, 8, 8] {
            levels.accepted(later, 7);
            levels.refused(later, level, false);
        }
        assert!(levels.suspicion.is_none(), "found");
    }
}
