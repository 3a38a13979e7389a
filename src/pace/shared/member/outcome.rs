//! What the end of a call changes for this worker, and what the leader hears of it.

use std::time::Duration;

use super::state::{Hold, Member};
use crate::pace::breaker::FailureKind;
use crate::pace::pause;
use crate::pace::random_refusals::RandomRefusals;
use crate::pace::shared::report::{Ended, ReportedCall, micros};
use crate::pace::types::{Allowance, Call, CallOutcome, PaceEvent, Try};
use crate::telemetry::pace::Pause;
use crate::telemetry::shared_pace::HOLD;

impl Member {
    /// A call ended, which was this try of its row. `fraction` is random, from 0 up to 1.
    pub(in crate::pace) fn call_ended(
        &mut self,
        now: Duration,
        call: Call,
        outcome: CallOutcome,
        tried: Try,
        fraction: f64,
    ) -> Option<PaceEvent> {
        self.out = self.out.saturating_sub(1);
        if self.probe == Some(call.began) {
            self.probe = None;
        }
        self.note(now, call, outcome, tried);
        let outcome = match outcome {
            CallOutcome::BusyOrAway if self.is_busy(now, call, tried) => {
                CallOutcome::Throttled(None)
            }
            other => other,
        };
        match outcome {
            CallOutcome::Abandoned => None,
            CallOutcome::Answered => {
                let back = self.breaker.good(call.began, now);
                self.report.resumed |= back.is_some();
                back
            }
            CallOutcome::Throttled(wait) => self.throttled(now, call, wait, tried, fraction),
            CallOutcome::Failed => self.failed(now, call, FailureKind::ErrorAnswer),
            CallOutcome::BusyOrAway | CallOutcome::Unavailable | CallOutcome::TimedOut => {
                self.failed(now, call, FailureKind::NoAnswer)
            }
        }
    }

    /// Whether a bare 503 to this call asks for fewer calls, or is about its row, as far as this worker can see.
    fn is_busy(&mut self, now: Duration, call: Call, tried: Try) -> bool {
        if tried.is_alone() {
            return !self.breaker.is_open();
        }
        let counts = call.epoch == self.epoch;
        !self.is_unlimited() && self.breaker.is_busy(call.began, now, self.out, counts)
    }

    fn failed(&mut self, now: Duration, call: Call, kind: FailureKind) -> Option<PaceEvent> {
        let change = self.breaker.bad(call.began, now, kind);
        if matches!(change, Some(PaceEvent::Down { lasted, .. }) if lasted.is_zero()) {
            self.report.down = true;
        }
        change
    }

    /// An answer's headers said what is left.
    pub(in crate::pace) fn allowed(&mut self, allowance: Allowance) {
        let lasts = u64::try_from(allowance.lasts.as_millis()).unwrap_or(u64::MAX);
        self.report.allowance = Some((allowance.calls, lasts));
    }

    /// The service is not down, although it seemed so: for how long it was taken to be.
    pub(in crate::pace) fn dismiss_outage(&mut self, now: Duration) -> Option<Duration> {
        let since = self.breaker.dismiss()?;
        self.report.resumed = true;
        Some(now.saturating_sub(since))
    }

    /// Remembers for the leader how a call ended.
    fn note(&mut self, now: Duration, call: Call, outcome: CallOutcome, tried: Try) {
        let how = match outcome {
            CallOutcome::Abandoned => return,
            CallOutcome::Answered => Ended::Answered,
            CallOutcome::Throttled(wait) => {
                let wait = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
                Ended::Refused(wait)
            }
            CallOutcome::BusyOrAway => Ended::BusyOrAway,
            CallOutcome::Failed | CallOutcome::Unavailable => Ended::Failed,
            CallOutcome::TimedOut => Ended::TimedOut,
        };
        let names_wait =
            matches!(outcome, CallOutcome::Throttled(wait) if pause::named(wait).is_some());
        if self.is_unlimited() && !names_wait {
            return;
        }
        let ended = ReportedCall {
            ago: 0,
            took: micros(now.saturating_sub(call.began)),
            epoch: call.epoch,
            tried,
            how,
        };
        self.ended.push((now, ended));
        self.asked.urgent |= self.alone;
    }

    /// The service refused a call. Only the row waits if the refusal is known to be about the row, or random; otherwise all
    /// calls of this worker hold, and the shared row and the leader learn of it.
    fn throttled(
        &mut self,
        now: Duration,
        call: Call,
        wait: Option<Duration>,
        tried: Try,
        fraction: f64,
    ) -> Option<PaceEvent> {
        let by_chance = self.state.random.is_some() && RandomRefusals::is_row_alone(wait);
        let asked = pause::named(wait);
        let unlimited = self.is_unlimited() && asked.is_none();
        if tried.is_alone() || by_chance || unlimited {
            return Some(PaceEvent::RowWaits(wait.unwrap_or_default()));
        }
        if call.epoch != self.epoch || self.paused_until > now {
            return None;
        }
        let length = asked.map_or(HOLD, |wait| pause::stretched(wait, fraction));
        self.slots.clear();
        self.paused_until = now + length;
        self.hold = Hold::Untold { epoch: call.epoch };
        self.asked.urgent = true;
        Some(PaceEvent::Paused(Pause { length, asked }))
    }
}
