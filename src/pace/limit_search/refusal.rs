//! What a refusal shows of the limit that is searched for, and how much is tried next.

use std::time::Duration;

use super::search::{
    CLOSE, FIRST_HOLD, GROWTH, LONGEST_HOLD, LimitSearch, LowestRefused, SMALL_LOOKS, Stage,
};
use crate::pace::throughput::{FEWEST_MEASURED, LEAST_UNMEASURED, Measurement, SPARE};

/// What a refusal means for the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pace) enum RefusalKind {
    /// There was too much.
    TooMuch,
    /// That much had been sustained before.
    Unexplained,
}

/// A cut below what should have been sustained leaves this share: enough of a difference to show, and little lost if it
/// does not help. One refusal of a held pace lowers it no further. And with each cut, the most that was accepted between two
/// refusals is believed less by this factor: the limit may have fallen.
pub(in crate::pace) const CUT: f64 = 0.8;
/// Such a cut leaves this share if nothing was measured: the limit may be far below.
const CUT_BLINDLY: f64 = 0.65;
/// From this many refusals in a row only what was just measured counts, and after one more that is what is tried: what was
/// sustained before is out of date.
const IN_A_ROW: u32 = 2;
/// The middle between sustained and refused is not tried if it is more than this many times what was just accepted: it
/// would be refused. A limit that was refused this many times as high before is a guess.
const FAR: f64 = 2.0;
/// Two measurements are the same if one is at least this share of the other: chance makes up for the rest.
const SAME: f64 = 0.9;

impl LimitSearch {
    /// The service refused at `pace`. `measured` is what it accepted since the refusal before, if known.
    pub(in crate::pace) fn refused(
        &mut self,
        now: Duration,
        pace: f64,
        measured: Option<Measurement>,
    ) -> RefusalKind {
        // A blind cut goes no lower, so what is refused there has another reason.
        let kind = if self.is_sustained(pace) || pace <= self.least_blind_cut(pace) {
            RefusalKind::Unexplained
        } else {
            RefusalKind::TooMuch
        };
        let before = self.refused;
        self.gaps.refused();
        // The first count started with all that a bucket had saved up.
        let since_refused = measured.filter(|_| before.is_some());
        if let Some(measured) = since_refused {
            self.best = self.best.max(measured.rate);
        }
        let measured_well = since_refused.filter(|measured| measured.calls >= FEWEST_MEASURED);
        let limit = self.limit_shown_by(measured_well);
        if let (Stage::Looking { steps }, Some(before)) = (self.stage, before)
            && steps <= SMALL_LOOKS
            && !before.rough
        {
            self.limit_confirmed(now, before);
            return kind;
        }
        if let Some(limit) = limit {
            self.hold_below(now, limit);
            return kind;
        }
        self.refused = Some(LowestRefused {
            at: pace,
            times: before.map_or(0, |before| before.times) + 1,
            rough: before.is_none_or(|before| before.rough),
            beyond_chance: before.is_some_and(|before| before.is_beyond_chance_at(pace)),
        });
        match (self.stage, kind) {
            (Stage::Looking { .. }, _) => self.limit_rose(now),
            (Stage::Holding { .. }, RefusalKind::Unexplained) => {
                self.ease(now, pace, since_refused);
            }
            (_, RefusalKind::Unexplained) => self.check(pace, measured_well, before),
            (_, RefusalKind::TooMuch) => match (measured_well, before) {
                (Some(measured), _) if measured.rate < pace => self.close_in(pace, measured),
                (_, None) => self.close_in_first(pace, measured),
                (_, Some(_)) => self.close_in_blindly(pace, since_refused),
            },
        }
        kind
    }

    /// What was accepted is the limit if more was sent all the time, twice at different paces.
    fn limit_shown_by(&mut self, measured: Option<Measurement>) -> Option<f64> {
        let slowest = std::mem::replace(&mut self.slowest, f64::INFINITY);
        let rate = measured.map(|measured| measured.rate);
        let limited = rate.filter(|rate| rate * CLOSE < slowest);
        let last = std::mem::replace(&mut self.last_limited, limited)?;
        let is_same = (SAME..=1.0 / SAME).contains(&(last / limited?));
        limited.filter(|_| is_same).map(|limited| limited.max(last))
    }

    /// A small look past the limit was refused: the limit is where it was.
    fn limit_confirmed(&mut self, now: Duration, before: LowestRefused) {
        self.refused = Some(LowestRefused {
            times: before.times + 1,
            ..before
        });
        self.hold = (self.hold * 2).min(LONGEST_HOLD);
        self.hold_at(now, self.held);
    }

    /// The limit was measured. Far below what was refused before, pauses may have made it too low.
    fn hold_below(&mut self, now: Duration, limit: f64) {
        let before = self.refused;
        self.sustained = limit;
        self.refused = Some(LowestRefused {
            at: limit,
            times: before.map_or(0, |before| before.times) + 1,
            rough: before.is_some_and(|before| limit * FAR < before.at),
            beyond_chance: before.is_some_and(|before| before.is_beyond_chance_at(limit)),
        });
        self.settle(now);
    }

    /// The limit is higher than it was.
    fn limit_rose(&mut self, now: Duration) {
        if let Some(refused) = &mut self.refused {
            refused.rough = false;
        }
        self.hold = FIRST_HOLD;
        self.halve(now);
    }

    /// The held value was a little too much: a bucket takes its time to run empty.
    /// Whatever was measured over a few calls, not much is cut: nothing checks whether that helps.
    fn ease(&mut self, now: Duration, pace: f64, measured: Option<Measurement>) {
        self.sustained = measured
            .map_or(pace, |measured| measured.rate)
            .min(pace * SPARE)
            .max(pace * CUT);
        self.settle(now);
    }

    /// Cuts what should have been sustained, to check whether that helps.
    fn check(&mut self, pace: f64, measured: Option<Measurement>, before: Option<LowestRefused>) {
        self.set(match measured {
            Some(measured) => (pace * CUT).min(measured.rate * SPARE),
            None => (pace * CUT_BLINDLY).max(self.least_blind_cut(pace)),
        });
        self.best *= CUT;
        if let Some(refused) = &mut self.refused {
            if let (Stage::Checking, Some(before)) = (self.stage, before) {
                refused.at = before.at;
            }
            refused.rough = true;
        }
        self.stage = Stage::Checking;
    }

    /// Goes to the middle between what was accepted and what was refused, or to what was accepted after several refusals.
    fn close_in(&mut self, pace: f64, measured: Measurement) {
        self.refusals_in_a_row += 1;
        // Refused twice in a row, what was sustained before is not sustained any more.
        self.sustained = if self.refusals_in_a_row < IN_A_ROW {
            self.sustained.max(measured.rate)
        } else {
            measured.rate
        };
        self.set(if self.refusals_in_a_row > IN_A_ROW {
            self.sustained * SPARE
        } else {
            let middle = f64::midpoint(self.sustained, pace);
            middle.min((measured.rate * FAR).max(self.sustained))
        });
        self.stage = Stage::ClosingIn;
    }

    /// The first refusal of a run: goes to half of the pace, or to what was accepted so far if that is less.
    fn close_in_first(&mut self, pace: f64, measured: Option<Measurement>) {
        let accepted = measured.map_or(pace, |measured| measured.rate);
        self.close_in_to(accepted.min(pace / GROWTH));
    }

    /// Too few calls were accepted to measure a rate: goes to half of the pace, but not below what was accepted.
    fn close_in_blindly(&mut self, pace: f64, measured: Option<Measurement>) {
        let accepted = measured.map_or(0.0, |measured| measured.rate.min(pace));
        let half = (pace / GROWTH).max(accepted * SPARE);
        self.close_in_to(half.max(self.least_blind_cut(pace)));
    }

    /// The least that a cut of a refused pace leaves if it rests on no measurement.
    fn least_blind_cut(&self, pace: f64) -> f64 {
        // If something below that is sustained, more was seen there.
        let least = if self.sustained > 0.0 {
            LEAST_UNMEASURED.min(self.sustained * CUT)
        } else {
            LEAST_UNMEASURED
        };
        least.min(pace)
    }

    fn close_in_to(&mut self, value: f64) {
        self.refusals_in_a_row += 1;
        self.set(value);
        self.sustained = self.sustained.min(self.value);
        self.stage = Stage::ClosingIn;
    }
}

impl LowestRefused {
    /// Whether chance does not explain that this is refused either: it is about what was known before.
    fn is_beyond_chance_at(self, value: f64) -> bool {
        self.beyond_chance && value >= self.at * CUT
    }
}
