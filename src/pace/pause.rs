//! The pause of all calls, after a refusal or while the service is down: all stop, one call goes first, and a bad answer to
//! it doubles the pause.

use serde::{Deserialize, Serialize};

use super::tally::Tally;

/// The present pause, and whether the service is there at all. Times are seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Pauses {
    /// How long the run waits for a service that only refuses, or that is down: then a last call is made.
    patience: LongestWaits,
    /// When the pause ends, or has ended.
    pub(super) until: f64,
    /// One call goes first.
    pub(super) is_alone: bool,
    /// The next pause if no wait is named.
    guess: f64,
    /// The length of the pauses since a call was last accepted, in all. Time in which a laptop slept is not in it.
    pub(super) in_a_row: f64,
    /// The share of the last calls that failed, as a moving average.
    failing: f64,
    failed_in_a_row: u32,
    /// Since when the service is taken to be down.
    pub(super) down_since: Option<f64>,
    /// Good answers since the last bad one, while it is down.
    good: u32,
}

/// How long the service may keep the run waiting, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct LongestWaits {
    pub(super) refused: f64,
    pub(super) down: f64,
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
/// The first wait for a service that is down: a restart takes seconds.
const OUTAGE: f64 = 5.0;
/// The longest wait for it: an incident takes minutes.
const LONGEST_OUTAGE: f64 = 60.0;
/// The longest wait while the service answers with failures. Six calls a minute are no burden to it, and it may fail over
/// certain rows: then about ninety of them can be told from an outage before the run stops waiting.
const WHILE_FAILING: f64 = 10.0;
/// Failures in a row that show that it is down: a service that fails one call in three does so once in 59,000 calls.
const FAILED_IN_A_ROW: u32 = 10;
/// The share of failures that shows it as well. Where half of the calls fail, rows get their verdicts by being tried again.
const FAILING: f64 = 0.75;
/// How many calls that share is of.
const RECENT: f64 = 40.0;
/// Good answers that show that it is back: a single one may be a load balancer's lucky choice.
const GOOD: u32 = 3;

impl Pauses {
    pub(super) const fn new(patience: LongestWaits) -> Self {
        Self {
            patience,
            until: 0.0,
            is_alone: false,
            guess: FIRST_GUESS,
            in_a_row: 0.0,
            failing: 0.0,
            failed_in_a_row: 0,
            down_since: None,
            good: 0,
        }
    }

    /// Whether all calls may start as the pace allows.
    pub(super) fn is_over(&self, now: f64) -> bool {
        !self.is_alone && now >= self.until
    }

    /// Whether the failures in this tally show that the service is down.
    pub(super) fn shows_outage(&self, tally: &Tally) -> bool {
        let mut after = self.clone();
        after.remember(tally);
        self.down_since.is_none() && after.has_failed_often()
    }

    /// Takes in how calls ended. Returns whether the service is back after it was down.
    pub(super) fn ended(&mut self, now: f64, tally: &Tally) -> bool {
        if tally.single_good {
            return self.single_good();
        }
        if self.down_since.is_some() {
            if tally.single_bad && tally.failed > 0 {
                self.still_down(now, tally);
            }
            return false;
        }
        if tally.single_bad && tally.failed > 0 {
            // No limit, but trouble: it counts like any other failure.
            self.is_alone = false;
        }
        self.remember(tally);
        if self.has_failed_often() {
            self.down_since = Some(now);
            self.good = 0;
            self.guess = self.guess.max(OUTAGE);
            self.wait(now, tally);
        }
        false
    }

    fn single_good(&mut self) -> bool {
        let was_down = self.down_since.is_some();
        if was_down {
            self.good += 1;
            if self.good < GOOD {
                return false;
            }
        } else if self.in_a_row > 0.0 {
            self.guess = (self.guess / 2.0).clamp(SHORTEST_GUESS, FIRST_GUESS);
        }
        self.in_a_row = 0.0;
        self.is_alone = false;
        self.failed_in_a_row = 0;
        if was_down {
            self.forget_outage();
        }
        was_down
    }

    /// The service is not down, although it seemed so. Returns since when it was taken to be.
    pub(super) fn dismiss_outage(&mut self, now: f64) -> Option<f64> {
        let since = self.down_since?;
        self.until = self.until.min(now);
        self.is_alone = false;
        self.forget_outage();
        Some(since)
    }

    fn forget_outage(&mut self) {
        self.down_since = None;
        self.failing = 0.0;
        self.failed_in_a_row = 0;
        self.guess = FIRST_GUESS;
    }

    /// The call that was to show whether the service is back failed.
    fn still_down(&mut self, now: f64, tally: &Tally) {
        self.guess = if self.good > 0 {
            OUTAGE
        } else {
            (self.guess * 2.0).min(LONGEST_OUTAGE)
        };
        self.good = 0;
        self.wait(now, tally);
    }

    /// Waits for a service that is down, until patience ends at most.
    fn wait(&mut self, now: f64, tally: &Tally) {
        let longest = if tally.no_answer {
            LONGEST_OUTAGE
        } else {
            WHILE_FAILING
        };
        let rest = self.down_since.unwrap_or(now) + self.patience.down - now;
        self.begin(now, self.guess.min(longest).min(rest.max(0.0)));
    }

    fn remember(&mut self, tally: &Tally) {
        // At the pace of single calls a bare 503 is hardly about a limit.
        let away = u32::from(tally.single_away);
        self.failed_in_a_row = if tally.accepted > 0 {
            tally.failed_last
        } else {
            self.failed_in_a_row + tally.failed + away
        };
        let (accepted, failed) = (f64::from(tally.accepted), f64::from(tally.failed));
        if accepted + failed > 0.0 {
            let left = (-(accepted + failed) / RECENT).exp();
            self.failing = self.failing * left + failed / (accepted + failed) * (1.0 - left);
        }
    }

    fn has_failed_often(&self) -> bool {
        self.failed_in_a_row >= FAILED_IN_A_ROW || self.failing > FAILING
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
        let rest = self.patience.refused - self.in_a_row;
        let length = if rest > 0.0 {
            self.guess.min(rest)
        } else {
            self.guess
        };
        self.begin(now, length);
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
