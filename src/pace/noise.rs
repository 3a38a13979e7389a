//! Refusals that come at any pace: their share of all calls. Only more than that says something about the pace.
//!
//! Cuts that did not make refusals rarer show them. The share is believed until too few of them come.

use serde::{Deserialize, Serialize};

use super::search::{CUT, LEAST_BLIND};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Noise {
    /// The share of calls; 0 if none is known.
    share: f64,
    /// It follows what is seen, but not beyond this: a limit must not hide in a share that creeps up.
    most: f64,
    /// What it was seen in.
    known: Count,
    /// What was seen since there was last nothing beyond the share.
    pending: Count,
    /// What was seen when there was last too much beyond it.
    excessive: Count,
    /// Calls since the last refusal.
    quiet: f64,
    /// The refusals beyond the share, as a cumulative sum (CUSUM).
    excess: f64,
    cuts: Cuts,
}

/// Calls, and those of them that were refused.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Count {
    calls: f64,
    refused: f64,
}

/// Cuts in succession that did not help.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Cuts {
    times: u32,
    /// How much they count in all.
    weight: f64,
    /// The calls that were accepted before each, and the refusals that led to them.
    accepted: f64,
    refused: f64,
    /// The lowest and the highest pace.
    lowest: f64,
    highest: f64,
}

/// What the calls of an interval show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shown {
    Nothing,
    /// There was nothing beyond the share up to now: a measurement starts here.
    Zero,
    /// More was refused than the share explains.
    Excess,
}

/// Cuts that together count as much and did not help show that refusals are random. A limit that falls explains two or three.
const CUTS: f64 = 4.0;
/// A cut that a higher pace than before explains counts as this part of one that nothing explains.
const EXPLAINED: f64 = 0.25;
/// The accepted calls before a cut are at most this many times those of the cuts before; otherwise these have helped.
const HELPED: f64 = 4.0;
/// A larger share than this is a limit: sending more to such a service would be hammering it.
const MOST: f64 = 0.3;
/// One refusal in more calls than this costs too little to look into.
const RAREST: f64 = 2_000.0;
/// This number of refusals beyond the share is not chance.
const BEYOND: f64 = 10.0;
/// This multiple of the share, and this much more, are put down to chance.
const SLACK: (f64, f64) = (1.2, 0.01);
/// The maximum of calls in a step of the search.
const CALLS_OF_A_STEP: f64 = 300.0;

/// While it grows, this number is enough: a limit that is far exceeded refuses many of them.
pub(super) const CALLS_OF_GROWTH: f64 = 50.0;

/// The calls of a step of the search, so that it shows if this share of them is beyond the limit.
pub(super) fn calls_of_a_step(beyond: f64) -> f64 {
    let shown = BEYOND * 3.0 / beyond.max(f64::EPSILON);
    shown.min(CALLS_OF_A_STEP)
}

impl Noise {
    /// The share of calls that are refused at any pace; 0 if none is known.
    pub(super) const fn share(&self) -> f64 {
        self.share
    }

    /// Calls since the last refusal.
    pub(super) const fn quiet(&self) -> f64 {
        self.quiet
    }

    /// Whether the share explains about the number of refused calls.
    pub(super) fn is_calm(&self) -> bool {
        self.excess < BEYOND / 3.0
    }

    /// These numbers of calls started and were refused.
    pub(super) fn note(&mut self, calls: f64, refused: f64) -> Shown {
        self.quiet = if refused > 0.0 {
            0.0
        } else {
            self.quiet + calls
        };
        if self.share == 0.0 {
            return Shown::Nothing;
        }
        self.pending.calls += calls;
        self.pending.refused += refused;
        let expected = calls * (self.share * SLACK.0 + SLACK.1);
        self.excess = (self.excess + refused - expected).max(0.0);
        if self.excess >= BEYOND {
            self.excess = 0.0;
            self.excessive = std::mem::take(&mut self.pending);
            return Shown::Excess;
        }
        if self.excess > 0.0 {
            return Shown::Nothing;
        }
        self.follow();
        Shown::Zero
    }

    /// The share follows what is pending.
    fn follow(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.known.calls += pending.calls;
        self.known.refused += pending.refused;
        self.share = (self.known.refused / self.known.calls).min(self.most);
        if self.quiet * self.share > BEYOND {
            // So long a silence is not chance: there are no such refusals any more.
            self.share = 0.0;
        }
    }

    /// The pace was cut after this number of accepted calls. Returns whether refusals turn out to be random: while they are known to
    /// be, only cuts that nothing explains count.
    pub(super) fn cut(&mut self, pace: f64, accepted: f64, is_explained: bool) -> bool {
        let seen = if self.share > 0.0 {
            self.excessive
        } else {
            Count {
                calls: accepted.max(1.0),
                refused: 1.0,
            }
        };
        if is_explained && self.share > 0.0 {
            return false;
        }
        self.cuts.add(seen, pace, is_explained);
        let Some(share) = self.cuts.share() else {
            return false;
        };
        *self = Self {
            share,
            most: share * 2.0,
            known: Count {
                calls: self.cuts.refused / share,
                refused: self.cuts.refused,
            },
            ..Self::default()
        };
        true
    }

    /// Something else explains the refusals.
    pub(super) fn explained(&mut self) {
        self.cuts = Cuts::default();
    }
}

impl Cuts {
    fn add(&mut self, seen: Count, pace: f64, is_explained: bool) {
        let mean = self.accepted / f64::from(self.times.max(1));
        if self.times == 0 || seen.calls > mean * HELPED {
            *self = Self {
                lowest: pace,
                highest: pace,
                ..Self::default()
            };
        }
        self.times += 1;
        self.weight += if is_explained { EXPLAINED } else { 1.0 };
        self.accepted += seen.calls;
        self.refused += seen.refused;
        self.lowest = self.lowest.min(pace);
        self.highest = self.highest.max(pace);
    }

    /// The share of random refusals, if these cuts show it.
    fn share(&self) -> Option<f64> {
        let is_apart = self.lowest <= self.highest * CUT || self.lowest <= LEAST_BLIND;
        let share = self.refused / (self.accepted + self.refused);
        let shows = self.weight >= CUTS && is_apart;
        (shows && share <= MOST && share * RAREST >= 1.0).then_some(share)
    }
}
