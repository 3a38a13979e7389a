//! The pause of all calls after a refusal: all stop, one call goes first, and a refusal of it doubles the pause.
//!
//! It knows nothing of failures: `breaker.rs` is about them.

use serde::{Deserialize, Serialize};

use super::tally::Tally;

/// The present pause. Times are seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Pauses {
    /// When the pause ends, or has ended.
    pub(super) until: f64,
    /// One call goes first.
    pub(super) is_alone: bool,
    /// The next pause if no wait is named.
    guess: f64,
    /// The length of the pauses since a call was last accepted, in all.
    pub(super) in_a_row: f64,
}

/// The first pause if the service names no wait: short, as a few calls too many are soon made up for.
const FIRST_GUESS: f64 = 0.5;
/// A pause that was long enough halves the next one, down to this: more than a round trip, so that one call finds out first.
const SHORTEST_GUESS: f64 = 0.1;
/// The longest pause if the service names no wait: all before it together are longer than the usual windows.
const LONGEST_GUESS: f64 = 30.0;
/// The refusals of calls that were out together ask for the same pause, each up to a second later: headers name whole seconds.
const ROUNDED: f64 = 1.0;
/// A named wait is stretched by up to this share, so that many programs do not come back at the same moment.
const JITTER: f64 = 0.1;

impl Default for Pauses {
    fn default() -> Self {
        Self {
            until: 0.0,
            is_alone: false,
            guess: FIRST_GUESS,
            in_a_row: 0.0,
        }
    }
}

impl Pauses {
    /// Whether all calls may start as the pace allows.
    pub(super) fn is_over(&self, now: f64) -> bool {
        !self.is_alone && now >= self.until
    }

    /// Takes in how the call ended that went first.
    pub(super) fn ended(&mut self, tally: &Tally) {
        if tally.single_good {
            if self.in_a_row > 0.0 {
                self.guess = (self.guess / 2.0).clamp(SHORTEST_GUESS, FIRST_GUESS);
            }
            self.in_a_row = 0.0;
            self.is_alone = false;
        } else if tally.single_failed {
            // No limit, but trouble: it counts like any other failure.
            self.is_alone = false;
        }
    }

    /// All calls pause for a wait that the service named. `random` is from 0 up to 1.
    pub(super) fn named(&mut self, now: f64, wait: f64, random: f64) {
        self.begin(now, wait * (1.0 + JITTER * random));
    }

    /// All calls pause, although the service named no wait: twice as long as before if that did not help.
    pub(super) fn guessed(&mut self, now: f64) {
        if self.in_a_row > 0.0 {
            self.guess = (self.guess * 2.0).min(LONGEST_GUESS);
        }
        self.begin(now, self.guess);
    }

    fn begin(&mut self, now: f64, length: f64) {
        let until = now + length;
        let same = if now < self.until { ROUNDED } else { 0.0 };
        if until > self.until + same {
            self.in_a_row += until - self.until.max(now);
            self.until = until;
            self.is_alone = true;
        }
    }
}
