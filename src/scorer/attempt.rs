//! One call of a row: sent, waited for, classified and reported to the gate.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::abort::CallInFlight;
use super::parts::Scorer;
use super::row_call::{RowCall, RowHistory};
use crate::pace::{Allowance, CallOutcome, PaceEvent, Permit, Undurable};
use crate::row::RowNumber;
use crate::service::{Classified, Exchange, Health, Quota, Service};
use crate::telemetry::event::{CallEnd, Event};

/// A call that fails this much later than its time limit stood still with this process or its machine: a timer is never that
/// late otherwise.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// A call that has ended, and what it brought.
pub(super) struct EndedCall<'a> {
    /// What it brought.
    pub(super) outcome: Classified,
    /// Keeps others from calling for as long as the answer is not durable. Dropped before any other wait.
    pub(super) undurable: Undurable<'a>,
    /// What its end changed about the pace.
    pub(super) change: Option<PaceEvent>,
    /// When it ended.
    pub(super) when: Instant,
    /// What is reported of it.
    pub(super) end: CallEnd,
    /// Whether it was a single call to a service that is taken to be down.
    pub(super) is_probe: bool,
    /// The generation of the API key that it went out with.
    pub(super) key: u64,
}

impl<S: Service> Scorer<S> {
    /// Makes one call. When it returns, the next call may start, though only a few before this answer is durable.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` stores its arguments twice, and this is part of what is allocated for each row"
    )]
    pub(super) fn attempt<'a>(
        &'a self,
        call: &RowCall,
        history: &mut RowHistory,
        permit: Permit<'a>,
    ) -> impl Future<Output = EndedCall<'a>> {
        async move {
            let key = self.caller.key.borrow().number();
            history.calls = history.calls.saturating_add(1);
            self.recorder.count_call();
            let in_flight = CallInFlight::start(
                &self.recorder,
                permit.began(),
                call,
                history.calls,
                history.again,
            );
            let exchange = self.caller.service.ask(call.body.clone()).await;
            let when = in_flight.ended();
            self.judge(exchange, permit, when, key, call.row, history)
        }
    }

    /// Classifies what a call brought, and reports its end to the gate.
    fn judge<'a>(
        &self,
        exchange: Exchange,
        permit: Permit<'a>,
        when: Instant,
        key: u64,
        row: RowNumber,
        history: &mut RowHistory,
    ) -> EndedCall<'a> {
        self.apply_quota(permit.began(), &exchange);
        let is_probe = permit.is_probe();
        let latency = when - permit.began();
        self.caller.latest.set(latency);
        let end = CallEnd {
            row,
            attempt: history.calls,
            status: exchange.as_ref().ok().map(|reply| reply.status),
            latency,
        };
        let outcome = self.caller.classify(exchange);
        let stood_still = latency > self.longest_call().saturating_add(STOOD_STILL);
        let how = if stood_still && !is_probe && matches!(outcome, Classified::Failed(_)) {
            // The service may have answered long ago.
            CallOutcome::Abandoned
        } else {
            self.ended(&outcome, !history.attempts.is_first(), is_probe)
        };
        let (undurable, change) = permit.finish(when, how, &mut history.refusals);
        self.report_pace(row, change, when);
        EndedCall {
            outcome,
            undurable,
            change,
            when,
            end,
            is_probe,
            key,
        }
    }

    /// Slows calls down if the answer's headers say that little of the quota is left.
    fn apply_quota(&self, began: Instant, exchange: &Exchange) {
        let Ok(reply) = exchange else {
            return;
        };
        let quota = Quota::of(&reply.headers, SystemTime::now);
        if let (Some(calls), Some(lasts)) = (quota.remaining, quota.reset) {
            self.caller.gate.allowed(began, Allowance { calls, lasts });
        }
    }

    /// What an outcome means for the pace; `is_repeat`: an attempt of the row has failed before.
    fn ended(&self, outcome: &Classified, is_repeat: bool, is_probe: bool) -> CallOutcome {
        match outcome {
            Classified::Throttled { wait, .. } => match wait {
                // The run stops, so the pause is of no use.
                Some(wait) if *wait > self.policies.borrow().patience.wait => {
                    CallOutcome::Abandoned
                }
                wait => CallOutcome::Throttled(*wait),
            },
            Classified::Failed(fault) => match fault.health {
                Health::AtWork => CallOutcome::Answered,
                // A row over which the service always fails must not make it look down.
                Health::Failed if is_repeat && !is_probe => CallOutcome::Abandoned,
                // Fresh rows tell an outage from rows that always fail, so they are tried every few seconds. A row that
                // has failed before shows nothing new: it is tried no more often than if the service did not answer.
                Health::Failed if is_repeat => CallOutcome::Unavailable,
                Health::Failed => CallOutcome::Failed,
                Health::BusyOrAway => CallOutcome::BusyOrAway,
                Health::Gone => CallOutcome::Unavailable,
                Health::Slow => CallOutcome::TimedOut,
            },
            Classified::Answered(..) | Classified::Refused(_) | Classified::KeyRefused(_) => {
                CallOutcome::Answered
            }
        }
    }

    /// Reports what the end of a call changed about the pace, and has the ledger remember a new limit.
    fn report_pace(&self, row: RowNumber, change: Option<PaceEvent>, when: Instant) {
        let (gate, events) = (&self.caller.gate, &self.recorder.events);
        match change {
            Some(PaceEvent::Down { lasted, next }) => {
                events.emit(Event::ServiceDown { row, lasted, next });
            }
            Some(PaceEvent::Up { lasted }) => events.emit(Event::ServiceUp { lasted }),
            // Reported with the refusal.
            Some(PaceEvent::Paused(_) | PaceEvent::RowWaits(_)) | None => {}
        }
        if let Some(change) = gate.new_pace(when) {
            events.emit(Event::PaceChanged(change));
        }
        if let (Some(limit), Some(ledger)) = (gate.new_limit(), &self.recorder.ledger) {
            ledger.found(limit);
        }
    }
}
