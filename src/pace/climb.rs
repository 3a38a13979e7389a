//! The search for how much of one thing the service bears: calls a second, or calls in flight.
//!
//! Up until it is refused, then just below that, and from time to time a look whether more is allowed by now. It knows
//! no clock and no service: time is told, and somebody else says what was refused.

use std::time::Duration;

/// What is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Calls a second.
    Rate,
    /// Calls in flight: whole ones.
    InFlight,
}

/// One number and what is known of its limit.
#[derive(Debug)]
pub(super) struct Climb {
    kind: Kind,
    value: f64,
    least: f64,
    most: f64,
    /// Where the service refused.
    ceiling: Option<f64>,
    /// The ceiling is a first guess, from steps of [`GROWTH`].
    rough: bool,
    /// The ceiling is from elsewhere, and nothing was refused since.
    known: bool,
    /// What was the ceiling when there was no trouble last.
    settled: Option<f64>,
    stage: Stage,
    hold: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// No limit is in sight.
    Free,
    /// Back up to just below the ceiling.
    Regrowing,
    /// Just below the ceiling, until then.
    Holding(Duration),
    /// Past the ceiling: how many steps so far, and when the next one is due.
    Probing { steps: u32, next: Duration },
}

/// From 2/s to 3,200/s in 22 steps, and never more than two in seven of what is sent are too much.
pub(super) const GROWTH: f64 = 1.4;
/// From so many calls in flight on they grow by an eighth: each call too many is a refusal when the service counts them.
const MANY_IN_FLIGHT: f64 = 16.0;
const GROWTH_OF_MANY: f64 = 1.125;
/// After a refusal: deep enough that a bucket fills up again or a queue drains while the next look is taken.
const CUT: f64 = 0.7;
/// Calls in flight are counted exactly, so less will do.
const CUT_IN_FLIGHT: f64 = 0.8;
/// How near the ceiling is kept to: what is measured there is a little more than the limit, as buckets have a burst.
const SHARE: f64 = 0.95;
/// A step on the way back up, as a share of the ceiling: ten of them from the cut to just below it.
const REGROWTH: f64 = 0.025;
/// How long a ceiling is believed that came from steps of [`GROWTH`] and may be so much too low.
const ROUGH_HOLD: Duration = Duration::from_secs(20);
/// How long the first hold is …
const FIRST_HOLD: Duration = Duration::from_secs(120);
/// … doubling with every look in vain up to this: twice an hour is polite, and a limit that rose is found the same day.
const LONGEST_HOLD: Duration = Duration::from_secs(30 * 60);
/// A step past the hold: what is too much by so little costs a call or two.
const PROBE: f64 = 0.03;
/// After so many of them each next one is twice as large, up to [`GROWTH`]: a limit that is gone costs two minutes.
const SMALL_PROBES: u32 = 4;
/// A ceiling so much below the one before is another one: what fell may rise again soon.
const FALLEN: f64 = 0.8;
/// What a service that counts in windows accepted lately, as a share of what was allowed, is believed down to this: the
/// first window may be used up in its first seconds.
const LEAST_OF_WINDOW: f64 = 0.1;
/// Of another it is believed down to this: what a bucket could not hold while less was sent is missing in it.
const LEAST_OF_BUCKET: f64 = 0.85;
/// How long a step of a probe is watched at least: a service that counts in windows of 10 s refuses at their end.
const PROBE_STEP: Duration = Duration::from_secs(15);

impl Climb {
    /// Starts at `first`, within the bounds.
    pub(super) const fn new(kind: Kind, first: f64, least: f64, most: f64) -> Self {
        Self {
            kind,
            value: first.clamp(least, most),
            least,
            most,
            ceiling: None,
            rough: false,
            known: false,
            settled: None,
            stage: Stage::Free,
            hold: FIRST_HOLD,
        }
    }

    /// As much as may be now.
    pub(super) const fn value(&self) -> f64 {
        self.value
    }

    /// Where the service refused, if it did.
    pub(super) const fn ceiling(&self) -> Option<f64> {
        self.ceiling
    }

    /// As much as is kept to because the service refused more, when nothing else makes it less.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the user's ceiling"
    )]
    pub(super) fn below_ceiling(&self) -> Option<usize> {
        self.ceiling
            .map(|ceiling| self.just_below(ceiling) as usize)
    }

    /// Whether the ceiling is from elsewhere, and nothing was refused since.
    pub(super) const fn is_known(&self) -> bool {
        self.known && self.ceiling.is_some()
    }

    /// Whether it is less than where the service refused.
    pub(super) const fn is_below_ceiling(&self) -> bool {
        matches!(self.stage, Stage::Regrowing | Stage::Holding(_))
    }

    /// Whether it is as much as may ever be.
    pub(super) const fn is_at_most(&self) -> bool {
        self.value >= self.most
    }

    /// The service refused. `accepted` is what it took lately; where it `counts_in_windows`, that is its limit, and
    /// otherwise the limit is between that and what was allowed.
    pub(super) fn refused(&mut self, accepted: Option<f64>, counts_in_windows: bool) {
        let at = match (self.stage, self.ceiling) {
            (Stage::Probing { steps, .. }, Some(ceiling)) => {
                // The step before was borne, for as long as a window lasts; a bucket may have borne it for no longer.
                let borne = self.value / (1.0 + probe(steps));
                let more = if counts_in_windows {
                    PROBE
                } else {
                    PROBE / 2.0
                };
                (borne * (1.0 + more)).max(ceiling.min(self.value))
            }
            (stage, _) => {
                let least = match stage {
                    _ if counts_in_windows => LEAST_OF_WINDOW,
                    Stage::Free => 1.0 / GROWTH,
                    // The first guess may be as much too high.
                    _ if self.rough => 1.0 / GROWTH,
                    _ => LEAST_OF_BUCKET,
                };
                let accepted = accepted.map(|accepted| match stage {
                    // While the rate was growing, what was accepted on average is as much too low as what was allowed is
                    // too high.
                    Stage::Free if !counts_in_windows => (accepted * self.value).sqrt(),
                    _ => accepted,
                });
                let most = self.value;
                accepted.map_or(most, |accepted| accepted.max(most * least).min(most))
            }
        };
        if matches!(self.stage, Stage::Probing { .. }) && !self.rough {
            self.hold = (self.hold * 2).min(LONGEST_HOLD);
        }
        self.rough = self.stage == Stage::Free;
        self.known = false;
        if self.settled.is_some_and(|settled| at < settled * FALLEN) {
            self.settled = None;
            self.hold = FIRST_HOLD;
        }
        self.ceiling = Some(at.max(self.least));
        self.stage = Stage::Regrowing;
        self.value = self.whole(at * self.cut());
    }

    /// It turns out that the service counts in windows and that this one is not over, so its limit is no more than what
    /// was `accepted` in it a second up to now.
    pub(super) fn counts_in_windows(&mut self, accepted: f64) {
        if let Some(ceiling) = self.ceiling {
            let at = accepted.min(ceiling).max(self.least);
            self.ceiling = Some(at);
            self.value = self.whole(self.value.min(at * self.cut()));
        }
    }

    /// The service refused when there was so much, and nothing else is to be taken for its limit.
    pub(super) fn refused_above(&mut self, much: f64) {
        self.value = self.value.min(much).max(self.least);
        self.refused(None, false);
    }

    /// Something other than a refusal says that less is better: so much of what it is, and no limit is known by it.
    pub(super) fn slow_to(&mut self, value: f64) {
        if value >= self.value {
            return;
        }
        self.value = self.whole(value);
        if self.stage != Stage::Free {
            self.stage = Stage::Regrowing;
        }
    }

    /// The limit is known from elsewhere: the search begins just below it.
    pub(super) fn start_near(&mut self, ceiling: f64) {
        if ceiling >= self.most {
            return;
        }
        self.ceiling = Some(ceiling.max(self.least));
        self.stage = Stage::Regrowing;
        self.value = self.whole(ceiling * self.cut());
        // Whoever found it may have had no time to look further, and that was another day.
        self.rough = true;
        self.known = true;
    }

    /// What was known of the limit does not hold any more: the search begins anew.
    pub(super) fn forget(&mut self, first: f64) {
        *self = Self::new(self.kind, first, self.least, self.most);
    }

    /// An interval went by without trouble. `used`: all that is allowed was used, so that more would be of use; `shown`:
    /// how long it takes until too much is refused.
    pub(super) fn calm(&mut self, now: Duration, shown: Duration, used: bool) {
        match (self.stage, self.ceiling) {
            (Stage::Free, _) | (_, None) => {
                if used {
                    self.value = self.grown(GROWTH);
                }
            }
            (Stage::Regrowing, Some(ceiling)) => {
                let top = self.just_below(ceiling);
                let step = (ceiling * REGROWTH).max(self.smallest_step());
                self.value = (self.value + step).min(top).clamp(self.least, self.most);
                if self.value >= top {
                    self.value = self.whole(top);
                    self.settled = Some(ceiling);
                    let hold = if self.rough { ROUGH_HOLD } else { self.hold };
                    self.stage = Stage::Holding(now + hold);
                }
            }
            (Stage::Holding(until), Some(_)) => {
                if used && now >= until {
                    self.probe(now, shown, 0);
                }
            }
            (Stage::Probing { steps, next }, Some(ceiling)) => {
                if !used || now < next {
                    return;
                }
                if self.value > ceiling * GROWTH {
                    // It is not there any more.
                    self.ceiling = None;
                    self.stage = Stage::Free;
                    self.hold = FIRST_HOLD;
                } else {
                    self.probe(now, shown, steps);
                }
            }
        }
    }

    fn probe(&mut self, now: Duration, shown: Duration, before: u32) {
        self.value = self.grown(1.0 + probe(before + 1));
        self.stage = Stage::Probing {
            steps: before + 1,
            next: now + PROBE_STEP.max(shown),
        };
    }

    fn grown(&self, by: f64) -> f64 {
        let by = if self.kind == Kind::InFlight && self.value >= MANY_IN_FLIGHT {
            by.min(GROWTH_OF_MANY)
        } else {
            by
        };
        let more = (self.value * by).max(self.value + self.smallest_step());
        self.whole(more.min(self.most))
    }

    const fn cut(&self) -> f64 {
        match self.kind {
            Kind::Rate => CUT,
            Kind::InFlight => CUT_IN_FLIGHT,
        }
    }

    /// What is kept to when the service refused there.
    const fn just_below(&self, ceiling: f64) -> f64 {
        let below = match self.kind {
            Kind::Rate => ceiling * SHARE,
            Kind::InFlight => ceiling - 1.0,
        };
        below.clamp(self.least, self.most)
    }

    const fn smallest_step(&self) -> f64 {
        match self.kind {
            Kind::Rate => 0.0,
            Kind::InFlight => 1.0,
        }
    }

    fn whole(&self, value: f64) -> f64 {
        let value = match self.kind {
            Kind::Rate => value,
            Kind::InFlight => value.floor(),
        };
        value.clamp(self.least, self.most)
    }
}

/// How much the step with this number goes up.
fn probe(step: u32) -> f64 {
    let doublings = step.saturating_sub(SMALL_PROBES).min(8);
    (PROBE * f64::from(1_u32 << doublings)).min(GROWTH - 1.0)
}
