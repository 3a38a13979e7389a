//! Two ways to stop all calls for a while: the pause after a refusal, and the breaker while the service fails. In both, all calls
//! stop, one goes first, and a bad answer to it doubles the wait.
//!
//! Neither knows how fast calls start otherwise: the pace decides that.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::tally::Tally;
use super::types::{CallSignal, PaceEvent};

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

    /// Applies the result of the call that went first.
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

/// Whether the service is there at all, as far as the last calls showed. A worker has its own breaker also where several share
/// one pace, because its own network may be what is broken.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failed_in_a_row: u32,
    /// The service is taken to be down.
    outage: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    since: Duration,
    /// When a single call may find out whether the service is back.
    until: Duration,
    /// The wait after the last one.
    wait: Duration,
    /// Good answers since the last bad one.
    good: u32,
}

/// The first wait for a service that is down: a restart takes seconds.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// The longest wait for it: an incident takes minutes.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait while the service answers with failures. Six calls a minute are no burden to it, and it may fail over
/// certain rows: then about ninety of them can be told from an outage before the run stops waiting.
const WHILE_FAILING: Duration = Duration::from_secs(10);
/// Failures in a row that show that it is down: a service that fails one call in three does so once in 59,000 calls,
/// and one that fails three in four after some tens.
const FAILED_IN_A_ROW: u32 = 10;
/// Good answers that show that it is back: a single one may be a load balancer's lucky choice.
const GOOD: u32 = 3;

impl Breaker {
    /// Whether the service is taken to be down.
    pub(super) const fn is_down(&self) -> bool {
        self.outage.is_some()
    }

    /// When the next call may start, one at a time, if the service is taken to be down.
    pub(super) fn until(&self) -> Duration {
        { self.outage.as_ref() }.map_or(Duration::ZERO, |outage| outage.until)
    }

    /// Applies the result of a call; `is_single`: it went alone.
    pub(super) fn ended(
        &mut self,
        now: Duration,
        outcome: CallSignal,
        is_single: bool,
    ) -> Option<PaceEvent> {
        let is_failed = match outcome {
            CallSignal::Answered => false,
            CallSignal::Failed | CallSignal::Unavailable | CallSignal::TimedOut => true,
            CallSignal::BusyOrAway if is_single => {
                // At the pace of single calls a bare 503 is hardly about a limit.
                self.failed_in_a_row += 1;
                return self.open_if_failing(now, outcome);
            }
            CallSignal::BusyOrAway | CallSignal::Throttled(_) | CallSignal::Abandoned => {
                return None;
            }
        };
        if let Some(outage) = &mut self.outage {
            // Calls that had started earlier tell nothing new.
            let event = is_single.then(|| outage.tried(now, outcome)).flatten();
            if let Some(PaceEvent::Up { .. }) = event {
                *self = Self::default();
            }
            return event;
        }
        self.failed_in_a_row = if is_failed {
            self.failed_in_a_row + 1
        } else {
            0
        };
        self.open_if_failing(now, outcome)
    }

    fn open_if_failing(&mut self, now: Duration, last: CallSignal) -> Option<PaceEvent> {
        if self.failed_in_a_row < FAILED_IN_A_ROW {
            return None;
        }
        let mut outage = Outage {
            since: now,
            until: now,
            wait: FIRST_WAIT,
            good: 0,
        };
        let event = outage.waits(now, last);
        self.outage = Some(outage);
        Some(event)
    }

    /// The service is not down, although it seemed so. Returns for how long it was taken to be.
    pub(super) fn dismiss(&mut self, now: Duration) -> Option<Duration> {
        let outage = std::mem::take(self).outage?;
        Some(now.saturating_sub(outage.since))
    }
}

impl Outage {
    /// A single call was made.
    fn tried(&mut self, now: Duration, outcome: CallSignal) -> Option<PaceEvent> {
        if outcome == CallSignal::Answered {
            self.good += 1;
            let lasted = now.saturating_sub(self.since);
            return (self.good >= GOOD).then_some(PaceEvent::Up { lasted });
        }
        self.wait = if self.good > 0 {
            FIRST_WAIT
        } else {
            (self.wait * 2).min(LONGEST_WAIT)
        };
        self.good = 0;
        Some(self.waits(now, outcome))
    }

    fn waits(&mut self, now: Duration, last: CallSignal) -> PaceEvent {
        let longest = if last == CallSignal::Failed {
            WHILE_FAILING
        } else {
            LONGEST_WAIT
        };
        let next = self.wait.min(longest);
        self.until = now + next;
        PaceEvent::Down {
            lasted: now.saturating_sub(self.since),
            next,
        }
    }
}
