//! Refusals that come at any pace: their share of all calls. Only more than that says something about the pace.
//!
//! They show if the pace was decreased at clearly different paces, and refusals did not become rarer. The share is believed
//! until too few of them come.

use serde::{Deserialize, Serialize};

use super::search::DECREASE;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Noise {
    /// The share of calls; 0 if none was found.
    pub(super) share: f64,
    /// The share follows the counts up to this: a limit must not hide in a share that creeps up.
    most: f64,
    /// The counts in which it was found.
    counted: Count,
    /// The counts since refusals were last within the share.
    pending: Count,
    /// The counts when there were last too many refusals beyond it.
    excessive: Count,
    /// Calls since the last refusal.
    pub(super) quiet: f64,
    /// The refusals beyond the share, as a cumulative sum (CUSUM).
    excess: f64,
    decreases: Decreases,
}

/// Calls, and how many of them were refused.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Count {
    calls: f64,
    refused: f64,
}

/// Decreases in succession that did not help.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Decreases {
    times: u32,
    /// How many of them started at a pace that had been sustained before. The others only show whether refusals become rarer.
    unexpected: u32,
    /// The calls that were accepted before each, and the refusals that led to it.
    accepted: f64,
    refused: f64,
    /// The lowest and the highest pace that was refused.
    lowest: f64,
    highest: f64,
}

/// After this many unexpected decreases without effect, refusals are taken to be random. A falling limit leads to two or three.
const MOST_UNEXPECTED: u32 = 4;
/// If this many times more calls are accepted before a decrease than before earlier ones, the earlier ones helped.
const HELPED: f64 = 4.0;
/// A larger share than this is a limit: calling such a service any faster would be hammering it.
const MAX_SHARE: f64 = 0.3;
/// This number of refusals beyond the share is not chance.
const MAX_EXCESS: f64 = 10.0;
/// This multiple of the share, and this much more, are put down to chance.
const SLACK: (f64, f64) = (1.2, 0.01);
/// One refusal in more calls than this costs too little to look into.
const MAX_CALLS_PER_REFUSAL: f64 = 2_000.0;

impl Noise {
    /// Whether the share roughly explains how many calls were refused.
    pub(super) fn is_calm(&self) -> bool {
        self.excess < MAX_EXCESS / 3.0
    }

    /// These numbers of calls started and were refused. Returns whether more was refused than the share explains.
    pub(super) fn note(&mut self, calls: f64, refused: f64) -> bool {
        self.quiet = if refused > 0.0 {
            0.0
        } else {
            self.quiet + calls
        };
        if self.share == 0.0 {
            return false;
        }
        self.pending.calls += calls;
        self.pending.refused += refused;
        let expected = calls * (self.share * SLACK.0 + SLACK.1);
        self.excess = (self.excess + refused - expected).max(0.0);
        if self.excess >= MAX_EXCESS {
            self.excess = 0.0;
            self.excessive = std::mem::take(&mut self.pending);
            return true;
        }
        if self.excess == 0.0 {
            self.follow();
        }
        false
    }

    /// Moves the share by the pending counts.
    fn follow(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.counted.calls += pending.calls;
        self.counted.refused += pending.refused;
        self.share = (self.counted.refused / self.counted.calls).min(self.most);
        if self.quiet * self.share > MAX_EXCESS {
            // So many calls without a refusal are not chance: random refusals have ended.
            self.share = 0.0;
        }
    }

    /// This pace was decreased after this number of accepted calls; the refusal was expected if the pace had not been sustained
    /// before. Returns whether refusals turn out to be random.
    pub(super) fn decreased(&mut self, pace: f64, accepted: f64, is_expected: bool) -> bool {
        if is_expected && self.share > 0.0 {
            return false;
        }
        let count = if self.share > 0.0 {
            self.excessive
        } else {
            Count {
                calls: accepted.max(1.0),
                refused: 1.0,
            }
        };
        self.decreases.add(pace, count, is_expected);
        let Some(share) = self.decreases.share() else {
            return false;
        };
        *self = Self {
            share,
            most: share * 2.0,
            counted: Count {
                calls: self.decreases.refused / share,
                refused: self.decreases.refused,
            },
            ..Self::default()
        };
        true
    }

    /// Something else explains the refusals.
    pub(super) fn forget_decreases(&mut self) {
        self.decreases = Decreases::default();
    }
}

impl Decreases {
    fn add(&mut self, pace: f64, count: Count, is_expected: bool) {
        let mean = self.accepted / f64::from(self.times.max(1));
        if self.times == 0 || count.calls > mean * HELPED {
            *self = Self {
                lowest: pace,
                highest: pace,
                ..Self::default()
            };
        }
        self.times += 1;
        self.unexpected += u32::from(!is_expected);
        self.accepted += count.calls;
        self.refused += count.refused;
        self.lowest = self.lowest.min(pace);
        self.highest = self.highest.max(pace);
    }

    /// The share of random refusals, if these decreases show it.
    fn share(&self) -> Option<f64> {
        let share = self.refused / (self.accepted + self.refused);
        let is_random = share <= MAX_SHARE && share * MAX_CALLS_PER_REFUSAL >= 1.0;
        // A limit that is now and then exceeded a little refuses at almost one pace.
        let is_apart = self.lowest <= self.highest * DECREASE;
        (self.unexpected >= MOST_UNEXPECTED && is_random && is_apart).then_some(share)
    }
}
