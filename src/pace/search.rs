//! The search for a limit of the service: of calls a second, or of calls in flight.
//!
//! It grows until a call is refused, closes in on the limit, stays on a plateau just below it, and probes above it from time to
//! time. It knows no clock and no calls: times are seconds, and counts of accepted and refused calls are passed in.

use serde::{Deserialize, Serialize};

use crate::telemetry::pace::Search;

/// One value, the knowledge about its limit, and the next step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct LimitSearch {
    /// The value that is allowed now.
    pub(super) value: f64,
    least: f64,
    most: f64,
    /// Calls in flight are whole numbers.
    is_whole: bool,
    /// The share of a limit to use.
    share: f64,
    /// The highest value that was sustained; 0 if none was.
    sustained: f64,
    /// The least that was refused; 0 if nothing was.
    refused: f64,
    /// The limit may be a guess, far below the real one, or due to chance.
    is_rough: bool,
    /// The stage, for people to read as well.
    pub(super) stage: Search,
    /// When the plateau ends, if there is one.
    plateau_until: f64,
    /// Steps above the limit, while the search probes there.
    probe_steps: u32,
    /// The factor of growth until the first refusal.
    growth: f64,
    /// For how many seconds the value has been fully used since it last changed.
    observed: f64,
    /// Seconds of the next plateau.
    plateau: f64,
    /// Seconds of the last standstill after a refusal.
    standstill: f64,
    /// The value of the plateau before the search probed above the limit.
    before_probe: f64,
    /// The least value since the last refusal.
    slowest: f64,
    /// The rate that was accepted before the last refusal, if clearly more was sent; otherwise 0.
    last_limited: f64,
    /// How many calls were accepted from one standstill to the next, in how many seconds, and the pace that was refused; 0 if
    /// there was none.
    last_quota: (f64, f64, f64),
    /// The rate that was accepted before the last refusal; 0 if there were too few calls to tell.
    measured: f64,
    /// Refusals without a step in between that was sustained.
    refusals_in_a_row: u32,
    /// Refusals at a pace that had not been sustained.
    expected_refusals: u32,
}

/// The factor of each growth: growing too far costs one refusal for each call in flight, as a refusal pauses all calls.
const GROWTH: f64 = 2.0;
/// The share that is left each interval while answers queue: gently, as answers show the queue as it was. Growth after that
/// is as gentle, or the queue would be as long again at once.
pub(super) const GENTLE: f64 = 0.9;
/// Two values this close are not told apart: closing in further would cost refusals for little gain.
const CLOSE: f64 = 1.05;
/// The share of a limit that a plateau has: a measurement is a little high, as buckets have a burst.
const NEAR: f64 = 0.99;
/// A refused value that had been sustained is decreased to this share: a visible difference, and little lost if it does not help.
pub(super) const DECREASE: f64 = 0.8;
/// Seconds of the first plateau, and of the longest. Each probe that finds the same limit doubles them: two probes an hour cost
/// little, and a limit that rose is found on the same day.
const PLATEAUS: (f64, f64) = (120.0, 1_800.0);
/// A plateau is at least this many times as long as the last standstill: then probes cost a twentieth of the time at most.
const STANDSTILLS: f64 = 20.0;
/// The first steps above a limit: overshooting by so little costs a call or two.
const PROBE_STEP: f64 = 0.03;
/// How many steps above a limit are as small; each further one is twice as large as the one before.
const SMALL_STEPS: u32 = 4;
/// Seconds that a step above a limit lasts at least: a service that counts in windows of 10 s refuses at their end.
const LONG_STEP: f64 = 15.0;

impl LimitSearch {
    /// A search that starts with this value and uses this share of a limit, so that others have room.
    pub(super) fn new(first: f64, within: (f64, f64), is_whole: bool, share: f64) -> Self {
        let (least, most) = within;
        Self {
            value: first.clamp(least, most),
            least,
            most,
            is_whole,
            share,
            is_rough: true,
            growth: GROWTH,
            plateau: PLATEAUS.0,
            slowest: f64::MAX,
            ..Self::default()
        }
    }

    /// Starts near the limit that an earlier run found, if it did.
    pub(super) fn start_near(&mut self, limit: Option<f64>) {
        let Some(limit) = limit.filter(|limit| *limit < self.most) else {
            return;
        };
        self.refused = limit + self.unit();
        self.sustained = limit;
        self.is_rough = false;
        self.set(limit * DECREASE * self.share);
        self.stage = Search::ClosingIn;
    }

    /// Whether the user allows no more.
    pub(super) fn is_at_most(&self) -> bool {
        self.value >= self.most
    }

    /// The most that the service accepts, if that was found for certain.
    pub(super) fn limit(&self) -> Option<f64> {
        (self.refused > 0.0 && !self.is_rough).then_some(self.refused - self.unit())
    }

    /// The limit for people, once it was refused twice.
    pub(super) fn limit_to_display(&self) -> Option<f64> {
        let is_sure = self.expected_refusals > 1 || !self.is_rough;
        (self.refused > 0.0 && is_sure).then_some(self.refused - self.unit())
    }

    /// Whether anything was refused since the search started.
    pub(super) fn has_refused(&self) -> bool {
        self.refused > 0.0
    }

    /// Forgets the limit, and grows again from this value.
    pub(super) fn forget(&mut self, value: f64) {
        *self = Self::new(value, (self.least, self.most), self.is_whole, self.share);
    }

    /// From here on, a refused value is the limit.
    pub(super) fn limit_found(&mut self, now: f64, refused: f64) {
        self.refused = refused;
        self.is_rough = false;
        self.sustained = refused - self.unit();
        self.narrow(now);
    }

    /// Whether this value is above the limit, while the search probes there.
    pub(super) fn is_past_limit(&self, value: f64) -> bool {
        self.stage == Search::ProbingUp && value >= self.refused
    }

    /// Something other than a refusal calls for less.
    pub(super) fn slow_to(&mut self, value: f64) {
        if value < self.value {
            self.set(value);
            self.growth = 1.0 / GENTLE;
            if matches!(self.stage, Search::Plateau | Search::ProbingUp) {
                self.stage = Search::ClosingIn;
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
            Search::Growing => self.grow(self.growth),
            Search::ClosingIn if self.value < self.sustained => {
                let more = (self.value * GROWTH).max(self.value + self.unit());
                self.set(more.min(self.sustained));
            }
            Search::ClosingIn if self.observed >= step => {
                self.sustained = self.value;
                self.refusals_in_a_row = 0;
                self.halve(now);
            }
            Search::Plateau if now >= self.plateau_until => self.probe_up(0),
            Search::ProbingUp
                if self.observed >= step && (self.is_rough || self.observed >= LONG_STEP) =>
            {
                self.sustained = self.value;
                self.probe_up(self.probe_steps);
            }
            _ => {}
        }
        self.value.to_bits() != before.to_bits()
    }

    /// The service refused at `pace`; `measured` is the rate that it accepted since it refused before, if that was enough to
    /// tell. Returns whether the refusal was expected: the pace had not been sustained before.
    pub(super) fn refused(&mut self, now: f64, pace: f64, measured: Option<f64>) -> bool {
        let is_expected = pace > self.sustained;
        self.expected_refusals += u32::from(is_expected);
        let is_first = self.refused == 0.0;
        let before = std::mem::replace(&mut self.measured, measured.unwrap_or(0.0));
        let limited = self.limited(measured, is_first);
        let is_probing = self.stage == Search::ProbingUp;
        if is_probing && self.probe_steps <= SMALL_STEPS && !self.is_rough {
            // The limit is where it was.
            self.plateau = (self.plateau * 2.0).min(PLATEAUS.1);
            self.stay_at(now, self.before_probe);
            return is_expected;
        }
        if let Some(limit) = limited {
            self.sustained = limit;
            self.refused = limit;
            self.narrow(now);
            return is_expected;
        }
        self.refused = pace;
        match (self.stage, measured) {
            (Search::ProbingUp, _) if is_expected => {
                // The limit is higher than it was.
                self.is_rough = false;
                self.halve(now);
                return true;
            }
            (Search::Plateau, _) if !is_expected => {
                // The plateau was a little too high: a bucket takes its time to run empty.
                self.sustained = pace / self.share / CLOSE;
                self.narrow(now);
                return false;
            }
            (_, measured) if !is_expected => {
                let next = measured.map_or(pace * DECREASE * DECREASE, |rate| {
                    (pace * DECREASE).min(rate / CLOSE)
                });
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
        self.stage = Search::ClosingIn;
        is_expected
    }

    /// After a refusal all calls stood still for this number of seconds, up to `now`.
    pub(super) fn stood_still(&mut self, now: f64, seconds: f64) {
        self.standstill = seconds;
        self.plateau_until = self.plateau_until.max(now + seconds * STANDSTILLS);
    }

    /// From one standstill to the end of the next, which took `lasts` seconds, the service accepted so many calls: the quota of
    /// a window, and certain if the last one was the same. If it differed, callers are blocked for exceeding a limit, and how
    /// long says nothing about that limit. Returns whether the quota is certain, or `None` for a block.
    pub(super) fn has_window(&mut self, now: f64, calls: f64, lasts: f64) -> Option<bool> {
        let quota = (calls, lasts, self.refused);
        let (last, lasted, pace) = std::mem::replace(&mut self.last_quota, quota);
        // At the same pace a block, too, starts after the same number of calls.
        let is_other_pace = pace.min(self.refused) < pace.max(self.refused) * DECREASE;
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
            if limited < self.sustained * DECREASE {
                // A limit that has fallen may rise again.
                self.plateau = PLATEAUS.0;
            }
            limited.max(last)
        })
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

    /// Sets the middle between the sustained value and the refused one, or starts a plateau if the two are close.
    fn halve(&mut self, now: f64) {
        if self.refused - self.sustained > self.unit() && self.refused > self.sustained * CLOSE {
            self.set(f64::midpoint(self.sustained, self.refused));
            self.stage = Search::ClosingIn;
        } else {
            self.narrow(now);
        }
    }

    /// Starts a plateau just below the limit, or probes above it right away if it is only a guess.
    fn narrow(&mut self, now: f64) {
        self.refusals_in_a_row = 0;
        let near = if self.is_whole { 1.0 } else { NEAR };
        self.stay_at(now, self.sustained * near * self.share);
        if self.is_rough {
            self.probe_up(0);
        }
    }

    fn stay_at(&mut self, now: f64, value: f64) {
        self.set(value);
        self.before_probe = self.value;
        self.plateau_until = now + self.plateau.max(self.standstill * STANDSTILLS);
        self.stage = Search::Plateau;
    }

    /// Takes the next step above the limit, first to the share of it that is left to others.
    fn probe_up(&mut self, steps: u32) {
        if steps == 0 {
            self.set(self.value / self.share);
        }
        let small = if self.is_rough { 0 } else { SMALL_STEPS };
        let doublings = (steps + 1).saturating_sub(small).min(5);
        self.grow(1.0 + (PROBE_STEP * f64::from(1_u32 << doublings)).min(GROWTH - 1.0));
        self.probe_steps = steps + 1;
        self.stage = Search::ProbingUp;
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
    fn a_probe_above_the_limit_waits_for_twenty_times_the_standstill_of_the_last_one() {
        let mut search = LimitSearch::new(10.0, (0.1, 1_000.0), false, 1.0);
        search.limit_found(0.0, 10.0);
        let probes_at = |search: &mut LimitSearch, from: u32| {
            (from..10_000).find(|at| search.quiet((*at).into(), 1.0, 3.0, true))
        };
        assert_eq!(probes_at(&mut search, 1), Some(120));
        let _ = search.refused(135.0, search.value, None);
        search.stood_still(435.0, 300.0);
        assert_eq!(probes_at(&mut search, 436), Some(435 + 6_000));
    }
}
