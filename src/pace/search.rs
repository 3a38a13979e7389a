//! The search for a limit of the service: of calls a second, or of calls in flight.
//!
//! It grows until a call is refused, closes in on the limit, holds just below it, and looks past it from time to time. It
//! knows no clock and no calls: times are seconds, and counts of accepted and refused calls are passed in.

use serde::{Deserialize, Serialize};

use crate::telemetry::pace::Search;

/// One value, the knowledge about its limit, and the next step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct LimitSearch {
    /// The value that is allowed now.
    value: f64,
    least: f64,
    most: f64,
    /// Calls in flight are whole numbers.
    is_whole: bool,
    /// The share of a limit to hold.
    held_share: f64,
    /// The most that is known to be sustained; 0 if nothing is.
    sustained: f64,
    /// The least that was refused; 0 if nothing was.
    refused: f64,
    /// The limit may be a guess far below the real one, or chance.
    is_rough: bool,
    stage: Stage,
    /// The factor of growth while no limit is in sight.
    growth: f64,
    /// For how many seconds the value has been fully used since it last changed.
    observed: f64,
    /// Seconds of the next hold.
    hold: f64,
    /// Seconds of the last standstill after a refusal.
    standstill: f64,
    /// The value held before the search looked past the limit.
    held: f64,
    /// The least value since the last refusal.
    slowest: f64,
    /// What was accepted before the last refusal, if clearly more was sent; otherwise 0.
    last_limited: f64,
    /// How many calls were accepted from one standstill to the next, in how many seconds, and the pace that was refused; 0 if
    /// there was none.
    last_quota: (f64, f64, f64),
    /// What was accepted before the last refusal; 0 if that was too little to tell.
    measured: f64,
    /// Refusals without a step in between that was sustained.
    refusals_in_a_row: u32,
    /// Refusals at a pace that had not been sustained.
    seen: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
enum Stage {
    /// No limit is in sight.
    #[default]
    Growing,
    /// Between what was sustained and what was refused.
    ClosingIn,
    /// Just below the limit, until this time.
    Holding(f64),
    /// Past the limit, after this many steps.
    Looking(u32),
}

/// Slow start: growing too far costs one refusal for each call in flight, as a refusal pauses all calls.
const GROWTH: f64 = 2.0;
/// The share that is left each interval while answers queue: gently, as answers show the queue as it was. Growth after that
/// is as gentle, or the queue would be as long again at once.
pub(super) const GENTLE: f64 = 0.9;
/// Two values this close are not told apart: closing in further would cost refusals for little gain.
const CLOSE: f64 = 1.05;
/// The share of a limit that is held: a measurement is a little high, as buckets have a burst.
const NEAR: f64 = 0.99;
/// A value that should have been sustained is cut to this share: a visible difference, and little lost if it does not help.
pub(super) const CUT: f64 = 0.8;
/// Seconds of the first hold, and of the longest. Each look that finds the same limit doubles them: two looks an hour cost
/// little, and a limit that rose is found on the same day.
const HOLDS: (f64, f64) = (120.0, 1_800.0);
/// A hold is at least this many times as long as the last standstill: then looks cost a twentieth of the time at most.
const STANDSTILLS: f64 = 20.0;
/// The first steps past a limit: overshooting by so little costs a call or two.
const LOOK: f64 = 0.03;
/// How many steps past a limit are as small; each further one is twice as large as the one before.
const SMALL_LOOKS: u32 = 4;
/// Seconds that a step past a limit lasts at least: a service that counts in windows of 10 s refuses at their end.
const LONG_STEP: f64 = 15.0;

impl LimitSearch {
    pub(super) fn new(first: f64, (least, most): (f64, f64), is_whole: bool) -> Self {
        Self {
            value: first.clamp(least, most),
            least,
            most,
            is_whole,
            held_share: 1.0,
            is_rough: true,
            growth: GROWTH,
            hold: HOLDS.0,
            slowest: f64::MAX,
            ..Self::default()
        }
    }

    /// Holds only this share of a limit, so that others have room.
    pub(super) const fn holding(mut self, share: f64) -> Self {
        self.held_share = share;
        self
    }

    /// Starts near a limit that an earlier run found.
    pub(super) fn start_near(&mut self, limit: f64) {
        if limit >= self.most {
            return;
        }
        self.refused = limit + self.unit();
        self.sustained = limit;
        self.is_rough = false;
        self.set(limit * CUT * self.held_share);
        self.stage = Stage::ClosingIn;
    }

    /// The value that is allowed now.
    pub(super) const fn value(&self) -> f64 {
        self.value
    }

    /// Whether that is all that the user allows.
    pub(super) fn is_at_most(&self) -> bool {
        self.value >= self.most
    }

    /// The most that the service accepts, if that was found for certain.
    pub(super) fn limit(&self) -> Option<f64> {
        (self.refused > 0.0 && !self.is_rough).then_some(self.refused - self.unit())
    }

    /// The same for people, who are told when it has been seen twice.
    pub(super) fn shown_limit(&self) -> Option<f64> {
        let is_seen = self.seen > 1 || !self.is_rough;
        (self.refused > 0.0 && is_seen).then_some(self.refused - self.unit())
    }

    /// Whether anything was refused since the search started.
    pub(super) fn has_refused(&self) -> bool {
        self.refused > 0.0
    }

    /// The stage, for people to read.
    pub(super) const fn stage(&self) -> Search {
        match self.stage {
            Stage::Growing => Search::Growing,
            Stage::ClosingIn => Search::ClosingIn,
            Stage::Holding(_) => Search::Holding,
            Stage::Looking(_) => Search::Looking,
        }
    }

    /// Forgets the limit, and grows again from this value.
    pub(super) fn forget(&mut self, value: f64) {
        *self = Self::new(value, (self.least, self.most), self.is_whole).holding(self.held_share);
    }

    /// From here on, a refused value is the limit.
    pub(super) fn limit_found(&mut self, now: f64, refused: f64) {
        self.refused = refused;
        self.is_rough = false;
        self.sustained = refused - self.unit();
        self.narrow(now);
    }

    /// Whether this value is past the limit, in a look that is under way.
    pub(super) fn is_past_limit(&self, value: f64) -> bool {
        matches!(self.stage, Stage::Looking(_)) && value >= self.refused
    }

    /// Something other than a refusal calls for less.
    pub(super) fn slow_to(&mut self, value: f64) {
        if value < self.value {
            self.set(value);
            self.growth = 1.0 / GENTLE;
            if matches!(self.stage, Stage::Holding(_) | Stage::Looking(_)) {
                self.stage = Stage::ClosingIn;
            }
        }
    }

    /// Half of it: after an outage, all who waited come back together.
    pub(super) fn step_back(&mut self) {
        self.slow_to(self.value / GROWTH);
    }

    /// The value was in use for `seconds` without a refusal; too much of it shows within `step`. `is_used` says whether a
    /// higher one would have been of use. Returns whether the value changed.
    pub(super) fn quiet(&mut self, now: f64, seconds: f64, step: f64, is_used: bool) -> bool {
        if !is_used {
            return false;
        }
        let before = self.value;
        self.observed += seconds;
        match self.stage {
            Stage::Growing => self.grow(self.growth),
            Stage::ClosingIn if self.value < self.sustained => {
                let more = (self.value * GROWTH).max(self.value + self.unit());
                self.set(more.min(self.sustained));
            }
            Stage::ClosingIn if self.observed >= step => {
                self.sustained = self.value;
                self.refusals_in_a_row = 0;
                self.halve(now);
            }
            Stage::Holding(until) if now >= until => self.look(0),
            Stage::Looking(steps) if self.observed >= self.length_of_look(step) => {
                self.sustained = self.value;
                self.look(steps);
            }
            _ => {}
        }
        self.value.to_bits() != before.to_bits()
    }

    /// The service refused at `pace`; `measured` is what it accepted since it refused before, if that was enough to tell.
    /// Returns whether the pace explains the refusal: if not, that much had been sustained.
    pub(super) fn refused(&mut self, now: f64, pace: f64, measured: Option<f64>) -> bool {
        let is_explained = pace > self.sustained;
        self.seen += u32::from(is_explained);
        let is_first = self.refused == 0.0;
        let before = std::mem::replace(&mut self.measured, measured.unwrap_or(0.0));
        let limited = self.limited(measured, is_first);
        if let Stage::Looking(steps) = self.stage
            && steps <= SMALL_LOOKS
            && !self.is_rough
        {
            // The limit is where it was.
            self.hold = (self.hold * 2.0).min(HOLDS.1);
            self.hold_at(now, self.held);
            return is_explained;
        }
        if let Some(limit) = limited {
            self.measured_twice(now, limit);
            return is_explained;
        }
        self.refused = pace;
        match (self.stage, measured) {
            (Stage::Looking(_), _) if is_explained => {
                // The limit is higher than it was.
                self.is_rough = false;
                self.halve(now);
                return true;
            }
            (Stage::Holding(_), _) if !is_explained => {
                // The held value was a little too much: a bucket takes its time to run empty.
                self.sustained = pace / self.held_share / CLOSE;
                self.narrow(now);
                return false;
            }
            (_, measured) if !is_explained => {
                let next = measured.map_or(pace * CUT * CUT, |rate| (pace * CUT).min(rate / CLOSE));
                self.is_rough = true;
                self.set(next);
                self.sustained = self.sustained.min(next);
            }
            (_, Some(rate)) if !is_first => self.close_in_on(rate, pace),
            (_, measured) => {
                self.refusals_in_a_row += 1;
                // Right after a measurement that one still holds.
                let half = (pace / GROWTH).max(before.min(pace) / CLOSE);
                self.set(measured.map_or(half, |rate| half.min(rate)));
                self.sustained = self.sustained.min(self.value);
            }
        }
        self.stage = Stage::ClosingIn;
        is_explained
    }

    /// After a refusal all calls stood still for so many seconds, up to `now`.
    pub(super) fn stood_still(&mut self, now: f64, seconds: f64) {
        self.standstill = seconds;
        if let Stage::Holding(until) = &mut self.stage {
            *until = until.max(now + seconds * STANDSTILLS);
        }
    }

    /// From one standstill to the end of the next, which took `lasts` seconds, the service accepted so many calls. That is the
    /// quota of a window, and certain if it was the same before. If it was another one, callers are blocked for exceeding a
    /// limit, which this says nothing about. Returns whether it is certain, or `None` for a block.
    pub(super) fn has_window(&mut self, now: f64, calls: f64, lasts: f64) -> Option<bool> {
        let quota = (calls, lasts, self.refused);
        let (last, lasted, pace) = std::mem::replace(&mut self.last_quota, quota);
        // At the same pace a block begins after the same number of calls as well.
        let is_other_pace = pace.min(self.refused) < pace.max(self.refused) * CUT;
        let is_same = is_other_pace && calls.min(last) * CLOSE >= calls.max(last);
        if !is_same && last > 0.0 {
            return None;
        }
        self.is_rough = true;
        // A standstill ends late by chance, and then the next window seems as much shorter.
        self.sustained = if is_same {
            (calls + last) / (lasts + lasted)
        } else {
            calls / lasts
        };
        self.refused = self.sustained;
        self.narrow(now);
        Some(is_same)
    }

    /// The limit, if twice in succession more was sent all the time, and the same rate was accepted.
    fn limited(&mut self, measured: Option<f64>, is_first: bool) -> Option<f64> {
        let rate = measured?;
        let slowest = std::mem::replace(&mut self.slowest, f64::MAX);
        let limited = if !is_first && rate * CLOSE < slowest {
            rate
        } else {
            0.0
        };
        let last = std::mem::replace(&mut self.last_limited, limited);
        let is_same =
            limited > 0.0 && last > 0.0 && limited.min(last) * CLOSE * CLOSE > limited.max(last);
        is_same.then(|| {
            // Pauses may have made both too low.
            self.is_rough = limited * GROWTH < self.refused;
            if limited < self.sustained * CUT {
                // A limit that has fallen may rise again.
                self.hold = HOLDS.0;
            }
            limited.max(last)
        })
    }

    fn measured_twice(&mut self, now: f64, limit: f64) {
        self.sustained = limit;
        self.refused = limit;
        self.narrow(now);
    }

    /// The service accepted `rate` and refused at `pace`, which was more than it had sustained.
    fn close_in_on(&mut self, rate: f64, pace: f64) {
        self.refusals_in_a_row += 1;
        // A value that was sustained before and is refused again is not sustained any more.
        self.sustained = if self.refusals_in_a_row < 2 {
            self.sustained.max(rate)
        } else {
            rate
        };
        let middle = f64::midpoint(self.sustained, pace);
        self.set(middle.min((rate * GROWTH).max(self.sustained)));
    }

    /// Goes to the middle between what was sustained and what was refused, or holds if the two are close.
    fn halve(&mut self, now: f64) {
        if self.refused - self.sustained > self.unit() && self.refused > self.sustained * CLOSE {
            self.set(f64::midpoint(self.sustained, self.refused));
            self.stage = Stage::ClosingIn;
        } else {
            self.narrow(now);
        }
    }

    /// Holds just below the limit, or looks past it right away if it is only a guess.
    fn narrow(&mut self, now: f64) {
        self.refusals_in_a_row = 0;
        let near = if self.is_whole { 1.0 } else { NEAR };
        self.hold_at(now, self.sustained * near * self.held_share);
        if self.is_rough {
            self.look(0);
        }
    }

    fn hold_at(&mut self, now: f64, value: f64) {
        self.set(value);
        self.held = self.value;
        let hold = self.hold.max(self.standstill * STANDSTILLS);
        self.stage = Stage::Holding(now + hold);
    }

    /// Takes the next step past the limit, or what would be one without the share that is left to others.
    fn look(&mut self, steps: u32) {
        if steps == 0 {
            self.set(self.value / self.held_share);
        }
        let small = if self.is_rough { 0 } else { SMALL_LOOKS };
        let doublings = (steps + 1).saturating_sub(small).min(5);
        self.grow(1.0 + (LOOK * f64::from(1_u32 << doublings)).min(GROWTH - 1.0));
        self.stage = Stage::Looking(steps + 1);
    }

    fn length_of_look(&self, step: f64) -> f64 {
        if self.is_rough {
            step
        } else {
            step.max(LONG_STEP)
        }
    }

    fn grow(&mut self, by: f64) {
        self.set((self.value * by).max(self.value + self.unit()));
    }

    fn set(&mut self, value: f64) {
        let value = if self.is_whole { value.floor() } else { value };
        self.value = value.clamp(self.least, self.most);
        self.slowest = self.slowest.min(self.value);
        self.observed = 0.0;
    }

    const fn unit(&self) -> f64 {
        if self.is_whole { 1.0 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_past_the_limit_waits_for_twenty_times_the_standstill_of_the_last_one() {
        let mut search = LimitSearch::new(10.0, (0.1, 1_000.0), false);
        search.limit_found(0.0, 10.0);
        let looks_at = |search: &mut LimitSearch, from: u32| {
            (from..10_000).find(|at| search.quiet((*at).into(), 1.0, 3.0, true))
        };
        assert_eq!(looks_at(&mut search, 1), Some(120));
        let _ = search.refused(135.0, search.value(), None);
        search.stood_still(435.0, 300.0);
        assert_eq!(looks_at(&mut search, 436), Some(435 + 6_000));
    }
}
