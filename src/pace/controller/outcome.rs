//! What the end of a call changes.

use std::time::Duration;

use super::state::{Controller, SinceCut};
use crate::pace::breaker::FailureKind;
use crate::pace::random_refusals::FirstTryOutcome;
use crate::pace::types::{Call, CallOutcome, PaceEvent, Try};
use crate::telemetry::pace::PaceCause;

/// Of up to one timeout in this many answers, fewer calls in flight would not be answered sooner: that is a long tail.
const ANSWERS_A_TIMEOUT: u32 = 4;

impl Controller {
    /// A call ended, which was this try of its row. `fraction` is random, from 0 up to 1.
    pub(in crate::pace) fn call_ended(
        &mut self,
        now: Duration,
        call: Call,
        outcome: CallOutcome,
        tried: Try,
        fraction: f64,
    ) -> Option<PaceEvent> {
        let outcome = match outcome {
            CallOutcome::BusyOrAway if self.is_busy(now, call, tried) => {
                CallOutcome::Throttled(None)
            }
            other => other,
        };
        self.out = self.out.saturating_sub(1);
        if self.single == Some(call.began) {
            self.single = None;
        }
        let first_try = match (outcome, tried) {
            (CallOutcome::Answered, Try::First) => FirstTryOutcome::Accepted(call.began),
            (CallOutcome::Answered, _) => FirstTryOutcome::AcceptedLater(call.began),
            (CallOutcome::Throttled(_), Try::First) => FirstTryOutcome::Refused(call.began),
            _ => FirstTryOutcome::NotCounted,
        };
        self.random.ended(call.number, first_try, self.out);
        match outcome {
            CallOutcome::Abandoned => None,
            CallOutcome::Answered => self.answered(now, call),
            CallOutcome::Throttled(wait) => self.throttled(now, call, wait, tried, fraction),
            CallOutcome::Failed => self.failed(now, call, FailureKind::ErrorAnswer),
            CallOutcome::BusyOrAway | CallOutcome::Unavailable => {
                self.failed(now, call, FailureKind::NoAnswer)
            }
            CallOutcome::TimedOut => {
                self.timed_out(now, call);
                self.failed(now, call, FailureKind::NoAnswer)
            }
        }
    }

    /// The service is not down, although it seemed so: for how long it was taken to be.
    pub(in crate::pace) fn dismiss_outage(&mut self, now: Duration) -> Option<Duration> {
        let since = self.breaker.dismiss()?;
        self.resume(now);
        Some(now.saturating_sub(since))
    }

    /// The service did its work, so that what follows a pause is over as well.
    fn answered(&mut self, now: Duration, call: Call) -> Option<PaceEvent> {
        self.pauses.answered(call.began);
        self.interval.answers += 1;
        self.since_cut.answers = self.since_cut.answers.saturating_add(1);
        // While refusals are on their way, more calls are in flight here than at the service.
        if !(self.cut_for..self.last_cut).contains(&call.began) {
            self.levels.accepted(call.level);
        }
        self.throughput.accepted(call);
        self.latency.note(now.saturating_sub(call.began));
        if self.pauses.is_after(call.began) {
            self.half_open = false;
        }
        let back = self.breaker.good(call.began, now);
        if back.is_some() {
            self.resume(now);
        }
        back
    }

    fn timed_out(&mut self, now: Duration, call: Call) {
        self.since_cut.timeouts = self.since_cut.timeouts.saturating_add(1);
        let SinceCut { answers, timeouts } = self.since_cut;
        if call.began >= self.last_cut && timeouts * ANSWERS_A_TIMEOUT > answers {
            self.pace_is_cut(now, now);
            // The service is overloaded.
            self.in_flight.step_back();
            self.cause = Some(PaceCause::TimedOut);
        }
    }

    fn failed(&mut self, now: Duration, call: Call, kind: FailureKind) -> Option<PaceEvent> {
        self.pauses.not_refused(call.began);
        self.interval.failures += 1;
        let change = self.breaker.bad(call.began, now, kind);
        if matches!(change, Some(PaceEvent::Down { lasted, .. }) if lasted.is_zero()) {
            self.is_taken_to_be_down(now);
        }
        change
    }

    /// Whether a bare 503 to this call, which still counts as out, asks for fewer calls, or is about its row, and does not show
    /// an outage.
    fn is_busy(&mut self, now: Duration, call: Call, tried: Try) -> bool {
        if tried.is_alone() {
            return !self.breaker.is_open();
        }
        let counts = call.began >= self.last_cut;
        let others = self.out.saturating_sub(1);
        !self.unlimited && self.breaker.is_busy(call.began, now, others, counts)
    }

    /// The service is taken to be down: what was refused last was the beginning of it.
    fn is_taken_to_be_down(&mut self, now: Duration) {
        if self.breaker.is_unanswered_since(self.last_cut) {
            self.take_back_cut(now, PaceCause::Outage);
        }
    }

    /// An outage is over: calls start slowly again.
    fn resume(&mut self, now: Duration) {
        // All who waited come back together.
        self.rate.step_back();
        self.in_flight.step_back();
        self.cause = Some(PaceCause::Outage);
        self.half_open = false;
        self.set_limiter(now);
    }
}
