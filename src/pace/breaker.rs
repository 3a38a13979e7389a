//! Whether the service is there at all: which failures show that it is down, when it is tried meanwhile, and when it is back.
//!
//! It knows nothing of refusals: `pause.rs` is about them. A worker has its own breaker also where several share one pace,
//! because its own network may be what is broken.

use std::time::Duration;

use super::types::{CallOutcome, PaceEvent};

/// How calls have ended lately.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// The share of the last calls that failed, as a moving average.
    failing: f64,
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
/// Failures in a row that show that it is down: a service that fails one call in three does so once in 59,000 calls.
const FAILED_IN_A_ROW: u32 = 10;
/// The share of failures that shows it as well. Where half of the calls fail, rows get their verdicts by being tried again.
const FAILING: f64 = 0.75;
/// How many calls that share is of.
const RECENT: f64 = 40.0;
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

    /// Takes in how a call ended; `is_single` says whether it went alone.
    pub(super) fn ended(
        &mut self,
        now: Duration,
        outcome: CallOutcome,
        is_single: bool,
    ) -> Option<PaceEvent> {
        let is_failed = match outcome {
            CallOutcome::Answered => false,
            CallOutcome::Failed | CallOutcome::Unavailable | CallOutcome::TimedOut => true,
            CallOutcome::BusyOrAway if is_single => {
                // At the pace of single calls a bare 503 is hardly about a limit.
                self.failed_in_a_row += 1;
                return self.open_if_failing(now, outcome);
            }
            CallOutcome::BusyOrAway | CallOutcome::Throttled(_) | CallOutcome::Abandoned => {
                return None;
            }
        };
        if let Some(outage) = &mut self.outage {
            // Calls that had started before say nothing new.
            let event = is_single.then(|| outage.tried(now, outcome)).flatten();
            if let Some(PaceEvent::Up { .. }) = event {
                *self = Self::default();
            }
            return event;
        }
        let left = (-1.0 / RECENT).exp();
        let failed = f64::from(u8::from(is_failed));
        self.failing = self.failing * left + failed * (1.0 - left);
        self.failed_in_a_row = if is_failed {
            self.failed_in_a_row + 1
        } else {
            0
        };
        self.open_if_failing(now, outcome)
    }

    fn open_if_failing(&mut self, now: Duration, last: CallOutcome) -> Option<PaceEvent> {
        if self.failed_in_a_row < FAILED_IN_A_ROW && self.failing <= FAILING {
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
    fn tried(&mut self, now: Duration, outcome: CallOutcome) -> Option<PaceEvent> {
        if outcome == CallOutcome::Answered {
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

    fn waits(&mut self, now: Duration, last: CallOutcome) -> PaceEvent {
        let longest = if last == CallOutcome::Failed {
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
