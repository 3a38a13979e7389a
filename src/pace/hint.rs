//! What the service's headers say is left of its quota. It can slow calls down, and never speeds them up.

use serde::{Deserialize, Serialize};

use super::tally::Tally;
use crate::telemetry::pace;

/// What headers said, and whether they are believed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct QuotaHint {
    /// Calls a second that they ask for, and until when.
    rate: f64,
    until: f64,
    /// What was left when the window was first heard of, and what is left now.
    first_left: f64,
    left: f64,
    /// Calls that were accepted since then.
    accepted: f64,
    is_disbelieved: bool,
}

/// Seconds of the windows that are believed. Headers count whole seconds, so that a rate over fewer is chance; with the rest
/// of a day's quota there would be a call a minute.
const WINDOWS: std::ops::RangeInclusive<f64> = 3.0..=300.0;
/// At least this many calls are made in a window: headers can be wrong, and only a refusal must stop calls.
const LEAST_CALLS: f64 = 5.0;
/// What is left must have fallen by half of this many accepted calls.
const COUNTED: f64 = 10.0;

impl QuotaHint {
    /// Looks at what headers said since the last step. `in_flight` is how many calls may have been out when they were sent.
    pub(super) fn step(&mut self, now: f64, tally: &Tally, in_flight: f64) {
        self.accepted += f64::from(tally.accepted);
        let Some((left, lasts)) = tally.left.filter(|(_, lasts)| WINDOWS.contains(lasts)) else {
            return;
        };
        // Whole seconds are named, so the next window may start a little earlier: then there is more left than there was.
        if now >= self.until || (now + 1.0 >= self.until && left > self.left) {
            // The call that brought this news is counted afterwards.
            (self.first_left, self.accepted) = (left, -1.0);
            self.until = now + lasts;
        }
        self.left = left;
        let has_stayed = self.accepted >= COUNTED && left > self.first_left - self.accepted / 2.0;
        let has_more = self.accepted > self.first_left + in_flight;
        // Such headers do not count calls.
        self.is_disbelieved |= has_stayed || has_more;
        self.rate = left.max(LEAST_CALLS) / lasts;
    }

    /// Calls a second that headers ask for; `None` if they ask for nothing that is believed.
    pub(super) fn rate(&self, now: f64) -> Option<f64> {
        (!self.is_disbelieved && now < self.until).then_some(self.rate)
    }

    /// Whether nothing is known that holds now.
    pub(super) fn is_awaited(&self, now: f64) -> bool {
        !self.is_disbelieved && now >= self.until
    }

    /// What they ask for, for people to read.
    pub(super) fn shown(&self, now: f64) -> pace::Hint {
        if self.is_disbelieved {
            return pace::Hint::Disbelieved;
        }
        self.rate(now).map_or(pace::Hint::Silent, pace::Hint::Asks)
    }
}
