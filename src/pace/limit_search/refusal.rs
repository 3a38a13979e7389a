//! What a refusal says of the limit that is searched for, and how much is tried next.

use std::time::Duration;

use super::{
    FEW, FIRST_HOLD, GROWTH, LONGEST_HOLD, LOOK, LimitSearch, LowestRefused, Quantity, SMALL_LOOKS,
    SPARE, Stage,
};
use crate::pace::throughput::Measurement;

/// What a refusal means for the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pace) enum Finding {
    /// There was too much.
    TooMuch,
    /// So much was borne before.
    Unexplained,
}

/// A cut below what should have been borne.
const CUT: f64 = 0.8;
/// The same where nothing was measured.
const CUT_BLINDLY: f64 = 0.65;
/// A cut is to no less than so much of what was accepted at best, with pauses and all …
const HALF: f64 = 0.5;
/// … and that is believed less each time.
const FORGOTTEN: f64 = 0.8;
/// Refusals in a row after which only what was just measured counts, and soon is tried.
const IN_A_ROW: u32 = 2;
/// A cut that rests on no measure goes no lower: with fewer calls nothing could be seen within minutes.
const BLIND: f64 = 1.0;
/// The middle is too much to try when the service was seen to accept so much less.
const FAR: f64 = 2.0;
/// So many steps before the one that was refused may have been borne by what a bucket had saved up.
const LAST_STEPS: u32 = 3;
/// What is allowed is clearly more than what was accepted when it is so many times as much.
const ABOVE: f64 = 1.08;
/// What was accepted at two paces is the same when one is so much of the other.
const SAME: f64 = 0.9;

impl LimitSearch {
    /// The service refused at `pace`. `measured` is what it took since it refused before, where that is known; `exact`: that
    /// is its limit, as it counts in windows.
    pub(in crate::pace) fn refused(
        &mut self,
        now: Duration,
        pace: f64,
        measured: Option<Measurement>,
        exact: bool,
    ) -> Finding {
        let finding = if self.is_borne(pace) {
            Finding::Unexplained
        } else {
            Finding::TooMuch
        };
        let before = self.refused;
        // The first count began with all that a bucket had saved up, and of few calls no rate can be told.
        let since_refused = measured.filter(|_| before.is_some());
        if let Some(measured) = since_refused {
            self.best = self.best.max(measured.rate);
        }
        let measured_well = since_refused.filter(|measured| !is_few(*measured));
        let limit = self.limit_shown_by(measured_well, exact);
        let looked = match (self.stage, before) {
            (Stage::Looking { steps }, Some(before)) if steps <= SMALL_LOOKS && !before.rough => {
                Some((steps, before))
            }
            _ => None,
        };
        if let Some((steps, before)) = looked {
            self.looked_in_vain(now, steps, before);
        } else if let Some(limit) = limit {
            self.hold_below(now, pace, limit, exact);
        } else {
            self.refused = Some(LowestRefused {
                at: pace,
                times: before.map_or(0, |before| before.times) + 1,
                rough: before.is_none_or(|before| before.rough),
            });
            match (self.stage, finding) {
                (Stage::Looking { .. }, _) => self.has_risen(now),
                (Stage::Holding { .. }, Finding::Unexplained) if !self.crept => {
                    self.creep(now, pace, since_refused);
                }
                (_, Finding::Unexplained) => self.check(pace, measured_well, before),
                (_, Finding::TooMuch) => match (measured_well, before) {
                    (Some(measured), _) if measured.rate < pace => self.close_in(pace, measured),
                    (_, None) => self.close_in_first(pace, measured),
                    (_, Some(_)) => self.close_in_blindly(pace, since_refused),
                },
            }
        }
        finding
    }

    /// It turns out that the service counts in windows: it accepts no more than that.
    pub(in crate::pace) fn at_most(&mut self, accepted: f64) {
        if let Some(refused) = &mut self.refused
            && accepted < refused.at
        {
            refused.at = accepted.max(self.least);
            self.borne = self.borne.min(accepted * SPARE);
            self.set(self.value.min(accepted * SPARE));
            self.stage = Stage::ClosingIn;
        }
    }

    /// What was accepted is the limit where more was sent all the time, twice at different paces.
    fn limit_shown_by(
        &mut self,
        measured: Option<Measurement>,
        exact: bool,
    ) -> Option<Measurement> {
        let slowest = std::mem::replace(&mut self.slowest, f64::INFINITY);
        let limited = measured.filter(|measured| measured.rate * ABOVE < slowest);
        let last = std::mem::replace(&mut self.limited, limited);
        let limited = limited?;
        match last {
            Some(last) if is_same(last.rate, limited.rate) => Some(Measurement {
                rate: last.rate.max(limited.rate),
                ..limited
            }),
            _ => exact.then_some(limited),
        }
    }

    /// A small look past the limit was refused: it is where it was, or the last step but two was borne for long.
    fn looked_in_vain(&mut self, now: Duration, steps: u32, before: LowestRefused) {
        self.refused = Some(LowestRefused {
            times: before.times + 1,
            ..before
        });
        self.hold = (self.hold * 2).min(LONGEST_HOLD);
        let borne = steps.saturating_sub(LAST_STEPS);
        let more = (0..borne).fold(1.0, |more, _| more * (1.0 + LOOK));
        self.hold_at(now, self.held * more);
    }

    /// The limit was measured. After long pauses that may be too low, if it was not found before.
    fn hold_below(&mut self, now: Duration, pace: f64, limit: Measurement, exact: bool) {
        let before = std::mem::replace(&mut self.found, limit.rate);
        let rough = !exact && !is_same(before, limit.rate) && limit.has_long_pauses();
        self.borne = limit.rate;
        self.refused = Some(LowestRefused {
            at: if rough {
                pace.min(limit.without_pauses)
            } else {
                limit.rate
            },
            times: self.refused.map_or(0, |before| before.times) + 1,
            rough,
        });
        self.settle(now);
    }

    /// The limit is further up than it was.
    fn has_risen(&mut self, now: Duration) {
        if let Some(refused) = &mut self.refused {
            refused.rough = false;
        }
        self.hold = FIRST_HOLD;
        self.halve(now);
    }

    /// What was held to was a little too much: a bucket takes its time to run empty.
    fn creep(&mut self, now: Duration, pace: f64, measured: Option<Measurement>) {
        self.crept = true;
        self.borne = measured
            .map_or(pace, Measurement::likeliest)
            .min(pace * SPARE);
        self.settle(now);
    }

    /// A cut, of which it is to be seen whether it helps.
    fn check(&mut self, pace: f64, measured: Option<Measurement>, before: Option<LowestRefused>) {
        let cut = measured.map_or(pace * CUT_BLINDLY, |measured| {
            (pace * CUT).min(measured.rate * SPARE)
        });
        // No limit is below what was accepted, unless it has changed since.
        let least = if measured.is_none() {
            self.blind(pace)
        } else {
            0.0
        };
        self.set(cut.max(self.best * HALF).max(least));
        self.best *= FORGOTTEN;
        if let Some(refused) = &mut self.refused {
            if let (Stage::Checking, Some(before)) = (self.stage, before) {
                refused.at = before.at;
            }
            refused.rough = true;
        }
        self.stage = Stage::Checking;
    }

    /// To the middle between what was accepted and what was refused, or to the former when that was tried.
    fn close_in(&mut self, pace: f64, measured: Measurement) {
        self.in_a_row += 1;
        // Twice in a row: what was borne before is not borne any more.
        self.borne = if self.in_a_row < IN_A_ROW {
            self.borne.max(measured.rate)
        } else {
            measured.rate
        };
        self.set(if self.in_a_row > IN_A_ROW {
            self.borne * SPARE
        } else {
            let middle = f64::midpoint(self.borne, pace);
            middle.min((measured.likeliest() * FAR).max(self.borne))
        });
        self.stage = Stage::ClosingIn;
    }

    /// The first refusal of a run: half of it, or what was accepted up to now, with all that was saved up.
    fn close_in_first(&mut self, pace: f64, measured: Option<Measurement>) {
        let accepted = measured.map_or(pace, |measured| measured.rate);
        self.close_in_to(accepted.min(pace / GROWTH));
    }

    /// Too little was accepted to tell a rate: half of it, but no less than was accepted.
    fn close_in_blindly(&mut self, pace: f64, measured: Option<Measurement>) {
        let accepted = measured.map_or(0.0, |measured| measured.rate.min(pace));
        self.close_in_to((pace / GROWTH).max(accepted * SPARE).max(self.blind(pace)));
    }

    /// The least that is tried by a cut that rests on no measure, of a pace that was refused.
    fn blind(&self, pace: f64) -> f64 {
        match self.quantity {
            Quantity::Rate => BLIND.min(pace),
            Quantity::InFlight => 0.0,
        }
    }

    fn close_in_to(&mut self, value: f64) {
        self.in_a_row += 1;
        self.set(value);
        self.borne = self.borne.min(self.value);
        self.stage = Stage::ClosingIn;
    }
}

fn is_same(one: f64, other: f64) -> bool {
    (SAME..=1.0 / SAME).contains(&(one / other))
}

const fn is_few(measured: Measurement) -> bool {
    measured.calls < FEW
}
