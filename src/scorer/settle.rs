//! What follows a call that has ended: for its row, and for the run. Nothing here waits.

use std::time::Duration;

use bytes::Bytes;

use super::attempt::EndedCall;
use super::caller::KeyReplaced;
use super::outage::{FailedBy, OutageVerdict};
use super::outcome::{RowOutcome, Stop};
use super::parts::Scorer;
use super::policies::AfterFailure;
use super::row_call::{RowCall, RowHistory};
use super::stop_reasons;
use super::transactions::RequestHash;
use crate::base::error::Error;
use crate::pace::{Attempts, FreshRows, PaceEvent, Undurable};
use crate::row::RowNumber;
use crate::service::{Class, Classified, Fault, Health, Service};
use crate::telemetry::event::{CallEnd, CancelReason, Event, Next};
use crate::verdict::{Answer, Verdict};

/// What follows a call, for its row.
pub(super) enum NextStep {
    /// The answer is made durable, with its whole body; then the row has its verdict. With a stop, this answer ends the run.
    Keep(Answer, Bytes, Option<Stop>),
    /// The row has failed, which is made durable if it is not to be sent again. With a stop, this answer ends the run.
    Fail(Fault, Option<Stop>),
    /// The row ends like this, with nothing to make durable.
    End(RowOutcome),
    /// The row is tried again as soon as a call may start.
    Retry,
    /// The row is tried again after this back-off.
    BackOff(Duration),
}

impl NextStep {
    /// Whether the run stops.
    const fn stops(&self) -> bool {
        match self {
            Self::Keep(.., stop) | Self::Fail(_, stop) => stop.is_some(),
            Self::End(outcome) => outcome.stop.is_some(),
            Self::Retry | Self::BackOff(_) => false,
        }
    }
}

impl<S: Service> Scorer<S> {
    /// Decides what follows a call, and reports it.
    pub(super) fn settle<'a>(
        &self,
        call: &RowCall,
        ended: EndedCall<'a>,
        history: &mut RowHistory,
    ) -> (NextStep, Undurable<'a>) {
        let EndedCall {
            outcome,
            undurable,
            change,
            when,
            end,
            is_probe,
            key,
        } = ended;
        history.again = None;
        let row = call.row;
        let next = match outcome {
            Classified::Answered(answer, body) => {
                let answered = Event::AttemptAnswered(end);
                self.recorder.events.emit_at(when, answered);
                let stop = self.answered(call, history.request, &answer, key);
                NextStep::Keep(answer, body, stop)
            }
            Classified::Throttled { wait, status } => {
                let refused = self.caller.gate.refused_for(when);
                let stop = self.policies.borrow_mut().throttled(wait, refused);
                self.throttled(end, stop, change, history, status)
            }
            Classified::Failed(fault) => {
                let after = self.after_failure(row, &fault, is_probe, change, history);
                self.failed(call, fault, after, end, history)
            }
            Classified::Refused(error) => self.refused(end, error),
            Classified::KeyRefused(error) => match self.caller.replace_key(key, error) {
                // As with a throttle, nothing was done, and none of the row's attempts is used up.
                Ok(replaced) => {
                    if replaced == KeyReplaced::Now {
                        self.recorder.events.emit(Event::KeyRenewed);
                    }
                    let again = Next::Again(Duration::ZERO);
                    self.recorder.run_refused(end, again);
                    NextStep::Retry
                }
                Err(error) => self.refused(end, error),
            },
        };
        if let (Some(PaceEvent::Paused(pause)), false) = (change, next.stops()) {
            self.recorder.events.emit(Event::CallsPaused(pause));
        }
        (next, undurable)
    }

    /// What a good answer means for the run. Why it must stop, if it must.
    fn answered(
        &self,
        call: &RowCall,
        request: RequestHash,
        answer: &Answer,
        key: u64,
    ) -> Option<Stop> {
        self.caller.key.borrow_mut().verdict(key);
        self.caller.gate.service_works();
        self.policies.borrow_mut().answered();
        let missing = self.recorder.check(call.row, request, answer)?;
        if missing.level && self.policies.borrow().give_up.stops_without_decisions() {
            return Some(stop_reasons::no_level(&missing));
        }
        self.recorder.fields_missing(missing);
        None
    }

    /// What follows a refusal that asks for fewer calls: all pause, or only this row waits, which may have been refused too
    /// often. With a stop, the pause would be too long.
    fn throttled(
        &self,
        call: CallEnd,
        stop: Option<Stop>,
        change: Option<PaceEvent>,
        history: &RowHistory,
        status: u16,
    ) -> NextStep {
        let report = |next| {
            self.recorder.events.emit(Event::Throttled { call, next });
        };
        if let Some(stop) = stop {
            report(Next::Stop);
            return NextStep::End(RowOutcome::stopped(call.row, stop));
        }
        let least = match change {
            Some(PaceEvent::RowWaits(least)) => Some(least),
            _ => None,
        };
        let refusals = &history.refusals;
        if least.is_some() && refusals.are_not_chance() {
            let fault = Fault::throttled(refusals.times(), status);
            let verdict = Verdict::Failed(fault.failure);
            report(Next::GiveUp);
            return NextStep::End(RowOutcome::verdict(call.row, verdict));
        }
        let wait = refusals.wait(least, self.caller.gate.fraction());
        report(Next::Again(wait));
        if wait.is_zero() {
            NextStep::Retry
        } else {
            NextStep::BackOff(wait)
        }
    }

    /// What follows a failed call.
    fn after_failure(
        &self,
        row: RowNumber,
        fault: &Fault,
        is_probe: bool,
        change: Option<PaceEvent>,
        history: &mut RowHistory,
    ) -> AfterFailure {
        let attempts = &mut history.attempts;
        if let Some(PaceEvent::Down { lasted, .. }) = change
            && let Some(stop) = self.outage_continues(row, lasted, fault, attempts)
        {
            return AfterFailure::Stop(stop);
        }
        // The service is down and the row happened to be its probe: that is not held against the row.
        if is_probe && fault.class != Class::OutcomeUnknown {
            match fault.health {
                Health::Gone | Health::BusyOrAway => return AfterFailure::BackOff(Duration::ZERO),
                // It may be the row after all, so a further failure of it shows nothing new.
                Health::Failed => {
                    attempts.forgive();
                    return AfterFailure::BackOff(Duration::ZERO);
                }
                Health::AtWork | Health::Slow => {}
            }
        }
        let fraction = self.caller.gate.fraction();
        let after = self
            .policies
            .borrow_mut()
            .failed((row, fault), attempts, fraction);
        if self.policies.borrow().give_up.works() {
            self.caller.gate.service_works();
        }
        if let AfterFailure::GiveUp { warn: Some(rows) } = after {
            self.recorder.events.emit(Event::ManyRefused { rows });
        }
        if self.policies.borrow().retries.newly_used_up() {
            self.recorder.events.emit(Event::RetriesUsedUp);
        }
        after
    }

    /// A call failed after the service had been taken to be down for `lasted`. Why the run must stop, if it must.
    fn outage_continues(
        &self,
        row: RowNumber,
        lasted: Duration,
        fault: &Fault,
        attempts: &Attempts,
    ) -> Option<Stop> {
        let by = self.failed_by(fault, attempts);
        let mut policies = self.policies.borrow_mut();
        let patience = policies.patience.outage;
        match policies.outage.continues(lasted, patience, by) {
            OutageVerdict::Wait => None,
            OutageVerdict::Down => Some(stop_reasons::down_for(&policies.host, lasted, row, fault)),
            OutageVerdict::Rows => {
                if let Some(lasted) = self.caller.gate.dismiss_outage() {
                    let dismissed = Event::OutageDismissed { lasted };
                    self.recorder.events.emit(dismissed);
                }
                None
            }
        }
    }

    /// What kind of call has failed, as far as an outage is concerned.
    fn failed_by(&self, fault: &Fault, attempts: &Attempts) -> FailedBy {
        if fault.health != Health::Failed {
            FailedBy::NoRow
        } else if attempts.is_first() {
            FailedBy::FreshRow
        } else if self.caller.gate.fresh_rows() == FreshRows::None {
            FailedBy::LastRows
        } else {
            FailedBy::RepeatedRow
        }
    }

    /// Reports a failed call and what follows it.
    fn failed(
        &self,
        call: &RowCall,
        fault: Fault,
        after: AfterFailure,
        end: CallEnd,
        history: &mut RowHistory,
    ) -> NextStep {
        let next = match &after {
            AfterFailure::BackOff(back_off) => Next::Again(*back_off),
            AfterFailure::GiveUp { .. } => Next::GiveUp,
            AfterFailure::Stop(_) => Next::Stop,
        };
        self.recorder.attempt_failed(end, &fault, next);
        match after {
            AfterFailure::BackOff(back_off) => {
                history.repeats(fault.class);
                NextStep::BackOff(back_off)
            }
            AfterFailure::GiveUp { .. } => NextStep::Fail(fault, None),
            // It is this answer that ends the run: the row has its verdict, and the rejects say why.
            AfterFailure::Stop(stop) if stop.reason == CancelReason::NoVerdicts => {
                NextStep::Fail(fault, Some(stop))
            }
            AfterFailure::Stop(stop) => NextStep::End(RowOutcome::stopped(call.row, stop)),
        }
    }

    /// The service refuses the run, which stops.
    fn refused(&self, call: CallEnd, error: Error) -> NextStep {
        self.recorder.run_refused(call, Next::Stop);
        let stop = Stop::new(CancelReason::Refused, error);
        NextStep::End(RowOutcome::stopped(call.row, stop))
    }
}
