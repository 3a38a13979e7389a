//! What follows a call that has ended: for its row, and for the run. Nothing here waits.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::parts::Engine;
use super::row_call::{RowCall, RowHistory};
use super::seen::{FailedBy, KeyRefusal, OutageVerdict, Seen};
use super::stop::{self, Stop};
use crate::base::error::Error;
use crate::ledger;
use crate::pace::{
    Allowance, AnsweredBy, Attempts, CallOutcome, FailedAttempt, FreshRows, PaceEvent, Permit,
    Reaction, Trouble, Undurable,
};
use crate::row::RowNumber;
use crate::service::{
    Class, Classified, Exchange, Fault, Health, KeyRenewal, Quota, Service, classify,
};
use crate::telemetry::event::{CallEnd, CancelReason, Event, FailureClass, Next};
use crate::verdict::{Answer, Reason, Verdict};

/// A call that fails this much later than its time limit stood still with this process or its machine: a timer is never that
/// late otherwise.
const STOOD_STILL: Duration = Duration::from_secs(1);
/// How soon a service that cannot be reached at the start is tried again, until that looks like an outage.
const STARTS_AGAIN: Duration = Duration::from_millis(500);

/// What follows a call, for its row.
pub(super) enum NextStep {
    /// The row has its verdict, once what is to be stored is durable. With a stop, this answer ends the run.
    Settle {
        verdict: Verdict,
        stored: Option<ledger::Outcome>,
        stop: Option<Stop>,
    },
    /// The run stops, and the row is left.
    Stop(Stop),
    /// The row is tried again after this time, as soon as a call may start.
    Again(Duration),
}

impl NextStep {
    /// The row has failed, which is stored if it is not to be sent again.
    fn fail(fault: Fault, stop: Option<Stop>) -> Self {
        let stored =
            { fault.class.is_for_good() }.then(|| ledger::Outcome::Failure(fault.failure.clone()));
        let verdict = Verdict::Failed(fault.failure);
        Self::Settle {
            verdict,
            stored,
            stop,
        }
    }

    /// Whether the run stops.
    const fn stops(&self) -> bool {
        match self {
            Self::Settle { stop, .. } => stop.is_some(),
            Self::Stop(_) => true,
            Self::Again(_) => false,
        }
    }
}

impl<S: Service> Engine<S> {
    /// Reports the end of a call to the gate, decides what follows it, and reports that as well.
    pub(super) fn settle<'a>(
        &self,
        call: &RowCall,
        history: &mut RowHistory,
        permit: Permit<'a>,
        exchange: Exchange,
        key: u64,
    ) -> (NextStep, Undurable<'a>) {
        let when = Instant::now();
        self.apply_quota(&exchange);
        let is_probe = permit.is_probe();
        let latency = when - permit.began();
        let end = CallEnd {
            row: call.row,
            attempt: history.calls,
            status: exchange.as_ref().ok().map(|reply| reply.status),
            latency,
        };
        let outcome = classify(exchange, &self.answers.fields);
        let shown = self.shows(&outcome, !history.attempts.is_first(), is_probe, latency);
        let (undurable, change) = permit.finish(when, shown, &mut history.refusals);
        self.report_pace(call.row, change, when);
        history.again = None;
        let next = match outcome {
            Classified::Answered(answer, body) => {
                self.events.emit_at(when, Event::AttemptAnswered(end));
                let stop = self.answered(call, &answer, key);
                NextStep::Settle {
                    verdict: self.scored(answer),
                    stored: Some(ledger::Outcome::Answer(body)),
                    stop,
                }
            }
            Classified::Throttled { wait, status } => {
                let refused = self.gate.refused_for(when);
                self.throttled(end, (wait, refused, status), change, history)
            }
            Classified::Failed(fault) => {
                let refused = self.gate.refused_for(when);
                let after = if fault.health == Health::BusyOrAway && refused > self.limits.max_wait
                {
                    // It may be busy or away: it accepts nothing.
                    Err(stop::down_for(&self.limits.host, refused, call.row, &fault))
                } else {
                    self.after_failure(call.row, &fault, is_probe, change, history)
                };
                self.failed(fault, after, end, history)
            }
            Classified::Refused(error) => self.refused(end, error),
            Classified::KeyRefused(error) => match self.replace_key(key, error) {
                // As with a throttle, nothing was done, and none of the row's attempts is used up.
                Ok(()) => {
                    self.report_refusal(end, Next::Again(Duration::ZERO));
                    NextStep::Again(Duration::ZERO)
                }
                Err(error) => self.refused(end, error),
            },
        };
        if let (Some(PaceEvent::Paused(pause)), false) = (change, next.stops()) {
            self.events.emit(Event::CallsPaused(pause));
        }
        (next, undurable)
    }

    /// Slows calls down if the answer's headers say that little of the quota is left.
    fn apply_quota(&self, exchange: &Exchange) {
        let Ok(reply) = exchange else {
            return;
        };
        let quota = Quota::of(&reply.headers, SystemTime::now);
        if let (Some(calls), Some(lasts)) = (quota.remaining, quota.reset) {
            self.gate.allowed(Allowance { calls, lasts });
        }
    }

    /// What the outcome of a call that took so long means for the pace; `is_repeat`: an attempt of the row has failed before.
    fn shows(
        &self,
        outcome: &Classified,
        is_repeat: bool,
        is_probe: bool,
        took: Duration,
    ) -> CallOutcome {
        let stood_still = took > self.service.longest_call().saturating_add(STOOD_STILL);
        match outcome {
            // The service may have answered long ago.
            Classified::Failed(_) if stood_still && !is_probe => CallOutcome::Abandoned,
            Classified::Throttled { wait, .. } => match wait {
                // The run stops, so the pause is of no use.
                Some(wait) if *wait > self.limits.max_wait => CallOutcome::Abandoned,
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
        match change {
            Some(PaceEvent::Down { lasted, next }) => {
                self.events.emit(Event::ServiceDown { row, lasted, next });
            }
            Some(PaceEvent::Up { lasted }) => self.events.emit(Event::ServiceUp { lasted }),
            // Reported with the refusal.
            Some(PaceEvent::Paused(_) | PaceEvent::RowWaits(_)) | None => {}
        }
        if let Some(change) = self.gate.new_pace(when) {
            self.events.emit(Event::PaceChanged(change));
        }
        if let Some(limit) = self.gate.new_limit() {
            self.ledger.found(limit);
        }
    }

    /// What a good answer means for the run. Why it must stop, if it must.
    fn answered(&self, call: &RowCall, answer: &Answer, key: u64) -> Option<Stop> {
        self.gate.service_works();
        let mut seen = self.seen.borrow_mut();
        let Seen {
            give_up,
            key: keys,
            answers,
            ..
        } = &mut *seen;
        keys.verdict(key);
        give_up.verdict();
        let asked = (call.row, call.key.fingerprint());
        let is_mixed_up = answers.check(asked, answer, &self.events);
        if is_mixed_up && give_up.stops_without_decisions() {
            return Some(stop::mixed_up(&self.limits.host));
        }
        let missing = answers.missing_fields(answer)?;
        if missing.level && give_up.stops_without_decisions() {
            return Some(stop::no_level(&missing));
        }
        self.events.emit(missing.event());
        None
    }

    /// What follows a refusal that asks for fewer calls: all pause, or only this row waits, which may have been refused too
    /// often. The run stops if it would have to wait for too long, or has had nothing but refusals for too long.
    fn throttled(
        &self,
        call: CallEnd,
        (wait, refused, status): (Option<Duration>, Duration, u16),
        change: Option<PaceEvent>,
        history: &RowHistory,
    ) -> NextStep {
        self.seen.borrow_mut().give_up.answered();
        let report = |next| self.events.emit(Event::Throttled { call, next });
        let longest = self.limits.max_wait;
        let stop = match wait.filter(|wait| *wait > longest) {
            Some(wait) => Some(stop::asks_to_wait(wait)),
            None if refused > longest => Some(stop::only_refuses(&self.limits.host, refused)),
            None => None,
        };
        if let Some(stop) = stop {
            report(Next::Stop);
            return NextStep::Stop(stop);
        }
        let least = match change {
            Some(PaceEvent::RowWaits(least)) => Some(least),
            _ => None,
        };
        let refusals = &history.refusals;
        if least.is_some() && refusals.are_not_chance() {
            let fault = Fault::throttled(refusals.times(), status);
            report(Next::GiveUp);
            return NextStep::fail(fault, None);
        }
        let wait = refusals.wait(least, self.gate.fraction());
        report(Next::Again(wait));
        NextStep::Again(wait)
    }

    /// What follows a failed call: another attempt, or nothing.
    ///
    /// # Errors
    /// The run must stop.
    fn after_failure(
        &self,
        row: RowNumber,
        fault: &Fault,
        is_probe: bool,
        change: Option<PaceEvent>,
        history: &mut RowHistory,
    ) -> Result<Next, Stop> {
        let attempts = &mut history.attempts;
        if let Some(PaceEvent::Down { lasted, .. }) = change {
            self.outage_continues(row, lasted, fault, attempts)?;
        }
        // The service is down and the row happened to be its probe: that is not held against the row.
        if is_probe && fault.class != Class::OutcomeUnknown {
            match fault.health {
                Health::Gone | Health::BusyOrAway => return Ok(Next::Again(Duration::ZERO)),
                // It may be the row after all, so a further failure of it shows nothing new.
                Health::Failed => {
                    attempts.forgive();
                    return Ok(Next::Again(Duration::ZERO));
                }
                Health::AtWork | Health::Slow => {}
            }
        }
        self.try_again_or_give_up(row, fault, attempts)
    }

    /// What follows a failure that is not due to an outage.
    fn try_again_or_give_up(
        &self,
        row: RowNumber,
        fault: &Fault,
        attempts: &mut Attempts,
    ) -> Result<Next, Stop> {
        let give_up = &mut self.seen.borrow_mut().give_up;
        let stop = |trouble, rows| {
            let last = (row, &fault.failure);
            Err(stop::for_trouble(&self.limits.host, trouble, rows, last))
        };
        if fault.class == Class::HostNotFound
            && let Reaction::Stop(_) = give_up.react(Trouble::HostNotFound)
        {
            return stop(Trouble::HostNotFound, 1);
        }
        // Nothing was ever sent: the service is waited for as one that goes down later, and the row has not been tried.
        if fault.class == Class::NotConnected && !give_up.has_verdicts() {
            return Ok(Next::Again(STARTS_AGAIN));
        }
        let (failed, trouble) = consequences(fault);
        let fraction = self.gate.fraction();
        if let Some(back_off) = self.limits.retries.next(failed, attempts, fraction) {
            return Ok(Next::Again(back_off));
        }
        let reaction = give_up.react(trouble);
        if give_up.works() {
            self.gate.service_works();
        }
        match reaction {
            Reaction::Stop(rows) => return stop(trouble, rows),
            Reaction::Warn(rows) => self.events.emit(Event::ManyRefused { rows }),
            Reaction::Continue => {}
        }
        Ok(Next::GiveUp)
    }

    /// A call failed after the service had been taken to be down for `lasted`.
    ///
    /// # Errors
    /// The run must stop.
    fn outage_continues(
        &self,
        row: RowNumber,
        lasted: Duration,
        fault: &Fault,
        attempts: &Attempts,
    ) -> Result<(), Stop> {
        let by = if fault.health != Health::Failed {
            FailedBy::NoRow
        } else if attempts.is_first() {
            FailedBy::FreshRow
        } else if self.gate.fresh_rows() == FreshRows::None {
            FailedBy::LastRows
        } else {
            FailedBy::RepeatedRow
        };
        let patience = self.limits.max_wait;
        let outage = &mut self.seen.borrow_mut().outage;
        match outage.continues(lasted, patience, by) {
            OutageVerdict::Wait => {}
            OutageVerdict::Down => {
                return Err(stop::down_for(&self.limits.host, lasted, row, fault));
            }
            OutageVerdict::Rows => {
                if let Some(lasted) = self.gate.dismiss_outage() {
                    self.events.emit(Event::OutageDismissed { lasted });
                }
            }
        }
        Ok(())
    }

    /// Reports a failed call and what follows it.
    fn failed(
        &self,
        fault: Fault,
        after: Result<Next, Stop>,
        call: CallEnd,
        history: &mut RowHistory,
    ) -> NextStep {
        self.events.emit(Event::AttemptFailed {
            call,
            reason: fault.failure.reason,
            class: match fault.class {
                Class::NotProcessed | Class::HostNotFound | Class::NotConnected => {
                    FailureClass::NotProcessed
                }
                Class::OutcomeUnknown => FailureClass::OutcomeUnknown,
                Class::Unclear => FailureClass::Unclear,
                Class::Useless => FailureClass::Useless,
                Class::RowsFault | Class::Forbidden => FailureClass::RowRefused,
            },
            next: *after.as_ref().unwrap_or(&Next::Stop),
        });
        match after {
            Ok(Next::Again(back_off)) => {
                history.repeats(fault.class);
                NextStep::Again(back_off)
            }
            Ok(Next::GiveUp | Next::Stop) => NextStep::fail(fault, None),
            // It is this answer that ends the run: the row has its verdict, and the rejects say why.
            Err(stop) if stop.reason == CancelReason::NoVerdicts => {
                NextStep::fail(fault, Some(stop))
            }
            Err(stop) => NextStep::Stop(stop),
        }
    }

    /// The service refuses the run, which stops.
    fn refused(&self, call: CallEnd, error: Error) -> NextStep {
        self.report_refusal(call, Next::Stop);
        NextStep::Stop(Stop::new(CancelReason::Refused, error))
    }

    /// Reports a call with which the service refused the run or its key: it cost nothing, and no row has failed because
    /// of it.
    fn report_refusal(&self, call: CallEnd, next: Next) {
        self.events.emit(Event::AttemptFailed {
            call,
            reason: Reason::Refused,
            class: FailureClass::RunRefused,
            next,
        });
    }

    /// A call with the key of this generation was refused for its key. Of all calls that went out with a key that was
    /// good so far, the first one looks for a new key. If there is a new one since this call, it is tried again.
    ///
    /// # Errors
    /// There is no other key, so the run must stop with `error`.
    fn replace_key(&self, generation: u64, error: Error) -> Result<(), Error> {
        let key = &mut self.seen.borrow_mut().key;
        match key.refused(generation) {
            KeyRefusal::Outdated => Ok(()),
            // A run that is stopping has no use for another key.
            KeyRefusal::Revoked if !self.gate.is_closed() => match self.service.renew_key() {
                KeyRenewal::Renewed => {
                    key.renewed();
                    self.events.emit(Event::KeyRenewed);
                    Ok(())
                }
                KeyRenewal::Kept(why) => Err(error.detail(why)),
                KeyRenewal::Fixed => Err(error),
            },
            KeyRefusal::Useless if key.has_changed() => Err(error.detail(
                "the key had been read again from its file, and the new one is refused as well",
            )),
            KeyRefusal::Revoked | KeyRefusal::Useless => Err(error),
        }
    }
}

/// What a fault means for the row's next attempt, and for the run if there is none.
const fn consequences(fault: &Fault) -> (FailedAttempt, Trouble) {
    let by = if fault.from_other_program {
        AnsweredBy::OtherProgram
    } else {
        AnsweredBy::Service
    };
    match fault.class {
        Class::OutcomeUnknown => (FailedAttempt::PerhapsBilled, Trouble::GaveUp),
        Class::HostNotFound | Class::NotConnected | Class::NotProcessed => {
            (FailedAttempt::NotProcessed, Trouble::GaveUp)
        }
        Class::Unclear => (FailedAttempt::Refused, Trouble::GaveUp),
        Class::Useless => (FailedAttempt::ForGood, Trouble::Useless(by)),
        Class::Forbidden => (FailedAttempt::ForGood, Trouble::Forbidden),
        Class::RowsFault => (FailedAttempt::ForGood, Trouble::Refused(by)),
    }
}
