//! What follows a call that has ended: for its row, and for the run. Nothing here waits.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::Instant;

use super::parts::{Engine, EngineState, KeyRefusal, RowCall, RowHistory};
use super::stop::{self, Stop};
use crate::base::error::Error;
use crate::ledger;
use crate::pace::{
    Allowance, AnsweredBy, Attempts, CallSignal, FailedAttempt, FreshRows, PaceEvent, Permit,
    Reaction, Trouble, Undurable,
};
use crate::row::RowNumber;
use crate::service::{Classified, Exchange, Fault, Health, KeyRenewal, Quota, Service, classify};
use crate::telemetry::event::{CallEnd, CancelReason, Event, FailureClass, Next};
use crate::verdict::{Answer, Reason, Verdict};

/// A call that fails this much later than its time limit stood still with this process or its machine: a timer is never that
/// late otherwise.
const STOOD_STILL: Duration = Duration::from_secs(1);
/// How soon a service that cannot be reached at the start is tried again, until that looks like an outage.
const STARTS_AGAIN: Duration = Duration::from_millis(500);

/// How long a service that answers may fail over the rows that are left before they are blamed: most restarts are over by
/// then. At most half of the run's patience, so that it is known before that ends.
const RESTART: Duration = Duration::from_secs(5 * 60);

/// A connection that ends in order leaves a row out once, or twice. After this number a row is not unlucky, but the service
/// takes no calls: then it counts as one that cannot be reached.
const MOST_LEFT_OUT: u32 = 8;

/// What follows a call, for its row.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each call, which nearly always is the large one"
)]
pub(super) enum AfterCall {
    /// The row has ended, with its verdict once what is to be stored is durable, or left for a later run. With a stop, the run
    /// ends as well.
    End {
        verdict: Option<Verdict>,
        stored: Option<ledger::PaidResult>,
        stop: Option<Stop>,
    },
    /// The row is tried again after this time, as soon as a call may start.
    Again(Duration),
}

impl AfterCall {
    /// The row has failed, which is stored if it is not to be sent again, unless it stops the run.
    fn fail(fault: Fault, stop: Option<Stop>) -> Self {
        let is_stored = fault.is_for_good() && stop.is_none();
        let stored = is_stored.then(|| ledger::PaidResult::Failure(fault.failure.clone()));
        let verdict = Some(Verdict::Failed(fault.failure));
        Self::End {
            verdict,
            stored,
            stop,
        }
    }

    /// The run stops, and the row is left.
    const fn stop(stop: Stop) -> Self {
        Self::End {
            verdict: None,
            stored: None,
            stop: Some(stop),
        }
    }
}

impl<S: Service> Engine<S> {
    /// Reports the end of a call to the gate, decides what follows it, and reports that as well.
    pub(super) fn after_call<'a>(
        &self,
        call: &RowCall,
        history: &mut RowHistory,
        permit: Permit<'a>,
        exchange: Exchange,
        key: u64,
    ) -> (AfterCall, Undurable<'a>) {
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
        let shown = self.shows(&outcome, history, is_probe, latency);
        let (undurable, change) = permit.finish(when, shown, &mut history.refusals);
        self.report_pace(call.row, &outcome, change, when);
        history.again = None;
        let next = match outcome {
            Classified::Answered(answer, body) => {
                self.events.emit_at(when, Event::AttemptAnswered(end));
                let stop = self.answered(call, &answer, &body, key, when - latency);
                // It may be one of the answers that are mixed up.
                let is_kept =
                    { stop.as_ref() }.is_none_or(|it| it.reason != CancelReason::NoVerdicts);
                AfterCall::End {
                    verdict: is_kept.then(|| self.scored(answer)),
                    stored: is_kept.then_some(ledger::PaidResult::Answer(body)),
                    stop,
                }
            }
            Classified::Throttled { wait, status } => {
                let waited = self.gate.without_success_for(when);
                self.throttled(end, (wait, waited, status), change, history)
            }
            Classified::Failed(fault) => {
                let waited = self.gate.without_success_for(when);
                let after = self.after_failure(call, &fault, is_probe, change, history);
                // A few failures say little. A service that is down, or behind a proxy that says so, has accepted nothing.
                let is_away = self.gate.is_down() || fault.health == Health::BusyOrAway;
                let after = if is_away && waited >= self.limits.max_wait {
                    Err(stop::down_for(&self.limits.host, waited, call.row, &fault))
                } else {
                    after
                };
                self.failed(fault, after, end, history)
            }
            Classified::Refused(error) => self.refused(end, error),
            Classified::KeyRefused(error) => match self.replace_key(key, error) {
                // As with a throttle, nothing was done, and none of the row's attempts is used up.
                Ok(()) => {
                    self.report_refusal(end, Next::Again(Duration::ZERO));
                    AfterCall::Again(Duration::ZERO)
                }
                Err(error) => self.refused(end, error),
            },
        };
        let stops = matches!(next, AfterCall::End { stop: Some(_), .. });
        if let (Some(PaceEvent::Paused(pause)), false) = (change, stops) {
            let why = end
                .status
                .map_or("refused stream".to_owned(), |it| it.to_string());
            let by = format!("{} ({why})", self.limits.host).into();
            self.events.emit(Event::CallsPaused { pause, by });
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

    /// What the outcome of a call that took so long means for the pace.
    fn shows(
        &self,
        outcome: &Classified,
        history: &RowHistory,
        is_probe: bool,
        took: Duration,
    ) -> CallSignal {
        let is_repeat = !history.attempts.is_first();
        let stood_still = took > self.service.longest_call().saturating_add(STOOD_STILL);
        match outcome {
            // The service may have answered long ago.
            Classified::Failed(_) if stood_still && !is_probe => CallSignal::Abandoned,
            // A refused stream may be chance, or one call too many for its connection. Only the next one of the row says more.
            Classified::Throttled { status: None, .. } if history.left_out == 0 && !is_probe => {
                CallSignal::Abandoned
            }
            Classified::Throttled { wait, .. } => match wait {
                // The run stops, so the pause is of no use.
                Some(wait) if *wait > self.limits.max_wait => CallSignal::Abandoned,
                wait => CallSignal::Throttled(*wait),
            },
            Classified::Failed(fault) => match fault.health {
                Health::AtWork => CallSignal::Answered,
                // A row over which the service always fails must not make it look down.
                Health::Failed if is_repeat && !is_probe => CallSignal::Abandoned,
                // Fresh rows tell an outage from rows that always fail, so they are tried every few seconds. A row that
                // has failed before shows nothing new: it is tried no more often than if the service did not answer.
                // One that is left out after it has used up an attempt is so again and again.
                Health::Failed | Health::LeftOut if is_repeat => CallSignal::Unavailable,
                Health::Failed => CallSignal::Failed,
                Health::BusyOrAway => CallSignal::BusyOrAway,
                Health::Gone | Health::HostNotFound | Health::NotConnected => {
                    CallSignal::Unavailable
                }
                Health::Slow => CallSignal::TimedOut,
                Health::LeftOut => CallSignal::Abandoned,
            },
            Classified::Answered(..) | Classified::Refused(_) | Classified::KeyRefused(_) => {
                CallSignal::Answered
            }
        }
    }

    /// Reports what the end of a call changed about the pace, and has the ledger remember a new limit.
    fn report_pace(
        &self,
        row: RowNumber,
        outcome: &Classified,
        change: Option<PaceEvent>,
        when: Instant,
    ) {
        match change {
            Some(PaceEvent::Down { lasted, next }) => {
                let words = match outcome {
                    Classified::Failed(fault) => fault.shown(),
                    _ => "too many calls",
                };
                let words = words.trim_start_matches("cannot connect: ");
                let limits = &self.limits;
                self.events.emit(Event::ServiceDown {
                    row,
                    lasted,
                    next,
                    why: format!("{}: {words}", limits.host).into(),
                    patience: limits
                        .max_wait
                        .saturating_sub(self.gate.without_success_for(when)),
                });
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
    fn answered(
        &self,
        call: &RowCall,
        answer: &Answer,
        body: &Bytes,
        key: u64,
        began: Instant,
    ) -> Option<Stop> {
        self.gate.service_works();
        let mut state = self.state.borrow_mut();
        let EngineState {
            give_up,
            key: keys,
            answers,
            unproven,
            ..
        } = &mut *state;
        keys.verdict(key);
        // One that comes while the run is stopping does not make the service good again.
        if !self.gate.is_closed() {
            give_up.verdict();
        }
        unproven.retain(|(ended, _)| *ended > began);
        let asked = (call.row, call.key.fingerprint());
        match answers.check(asked, answer, &self.events) {
            Some(mixed_up) if mixed_up.is_empty() => self.service.renew_connections(),
            Some(mixed_up) if give_up.stops_by_itself() => {
                self.ledger.distrust(mixed_up);
                return Some(stop::mixed_up(&self.limits.host).not_kept(answers.file));
            }
            _ => {}
        }
        let missing = answers.missing_fields(answer, body)?;
        if missing.level && give_up.stops_by_itself() {
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
        (wait, waited, status): (Option<Duration>, Duration, Option<u16>),
        change: Option<PaceEvent>,
        history: &mut RowHistory,
    ) -> AfterCall {
        history.left_out += u32::from(status.is_none());
        self.state.borrow_mut().give_up.answered();
        let report = |next| self.events.emit(Event::Throttled { call, next });
        let longest = self.limits.max_wait;
        let stop = match wait.filter(|wait| *wait > longest) {
            Some(wait) => Some(stop::asks_to_wait(wait)),
            None if waited >= longest => Some(stop::only_refuses(&self.limits.host, waited)),
            None => None,
        };
        if let Some(stop) = stop {
            report(Next::Stop);
            return AfterCall::stop(stop);
        }
        let least = match change {
            Some(PaceEvent::RowWaits(least)) => Some(least),
            _ => None,
        };
        let refusals = &history.refusals;
        if least.is_some() && refusals.are_not_chance() {
            let fault = Fault::throttled(refusals.times(), status);
            report(Next::GiveUp);
            return AfterCall::fail(fault, None);
        }
        let wait = refusals.wait(least, self.gate.fraction());
        report(Next::Again(wait));
        AfterCall::Again(wait)
    }

    /// What follows a failed call: another attempt, or nothing.
    ///
    /// # Errors
    /// The run must stop.
    fn after_failure(
        &self,
        call: &RowCall,
        fault: &Fault,
        is_probe: bool,
        change: Option<PaceEvent>,
        history: &mut RowHistory,
    ) -> Result<Next, Stop> {
        // The next call is on another connection, and uses up no attempt.
        if fault.health == Health::LeftOut && history.left_out < MOST_LEFT_OUT {
            history.left_out += 1;
            return Ok(Next::Again(Duration::ZERO));
        }
        let attempts = &mut history.attempts;
        if let Some(PaceEvent::Down { lasted, .. }) = change {
            self.outage_continues(lasted, fault, attempts);
        }
        // The service is down and the row happened to be its probe: that is not held against the row.
        if is_probe && fault.class != FailureClass::OutcomeUnknown {
            match fault.health {
                Health::Gone | Health::BusyOrAway | Health::HostNotFound | Health::NotConnected => {
                    return Ok(Next::Again(Duration::ZERO));
                }
                // It may be the row after all, so a further failure of it shows nothing new.
                Health::Failed => {
                    attempts.forgive();
                    return Ok(Next::Again(Duration::ZERO));
                }
                Health::AtWork | Health::Slow | Health::LeftOut => {}
            }
        }
        self.try_again_or_give_up(call, fault, attempts)
    }

    /// What follows a failure that is not due to an outage.
    fn try_again_or_give_up(
        &self,
        call: &RowCall,
        fault: &Fault,
        attempts: &mut Attempts,
    ) -> Result<Next, Stop> {
        let state = &mut *self.state.borrow_mut();
        let stop =
            |trouble, rows| stop::for_trouble(&self.limits.host, trouble, rows, (call.row, fault));
        if fault.health == Health::HostNotFound
            && let Reaction::Stop(_) = state.give_up.react(Trouble::HostNotFound)
        {
            return Err(stop(Trouble::HostNotFound, 1));
        }
        // Nothing was ever sent: the service is waited for as one that goes down later, and the row has not been tried.
        if fault.health == Health::NotConnected && !state.give_up.has_verdicts() {
            return Ok(Next::Again(STARTS_AGAIN));
        }
        let (failed, trouble) = consequences(fault);
        let fraction = self.gate.fraction();
        if let Some(back_off) = self.limits.retries.next(failed, attempts, fraction) {
            return Ok(Next::Again(back_off));
        }
        let reaction = state.give_up.react(trouble);
        if failed == FailedAttempt::ForGood && state.give_up.stops_by_itself() {
            state
                .unproven
                .push((Instant::now(), call.key.fingerprint()));
        }
        if state.give_up.works() {
            self.gate.service_works();
        }
        match reaction {
            Reaction::Stop(rows) => {
                let distrusted = state.unproven.drain(..).map(|(_, request)| request);
                self.ledger.distrust(distrusted.collect());
                let stop = stop(trouble, rows);
                return Err(match stop.reason {
                    CancelReason::NoVerdicts => stop.not_kept(state.answers.file),
                    _ => stop,
                });
            }
            Reaction::Continue => {}
        }
        Ok(Next::GiveUp)
    }

    /// A call failed after the service had been taken to be down for `lasted`.
    ///
    /// Ten failures in a row look like an outage. In the middle of a file or at its end they may just as well be ten rows of
    /// the kind over which the service always fails; waiting for them would only end in a message to try again later. Fresh
    /// rows, for which no call has been made yet, show which it is. Once none is left, the rows are blamed after a while.
    fn outage_continues(&self, lasted: Duration, fault: &Fault, attempts: &Attempts) {
        let since = &mut self.state.borrow_mut().rows_fail_since;
        if lasted.is_zero() || fault.health != Health::Failed {
            *since = None;
        }
        if fault.health == Health::Failed {
            let failing = lasted.saturating_sub(*since.get_or_insert(lasted));
            let is_one_of_the_last =
                !attempts.is_first() && self.gate.fresh_rows() == FreshRows::None;
            let longest = RESTART.min(self.limits.max_wait / 2);
            if is_one_of_the_last
                && !lasted.is_zero()
                && failing >= longest
                && let Some(lasted) = self.gate.dismiss_outage()
            {
                self.events.emit(Event::OutageDismissed { lasted });
            }
        }
    }

    /// Reports a failed call and what follows it.
    fn failed(
        &self,
        fault: Fault,
        after: Result<Next, Stop>,
        call: CallEnd,
        history: &mut RowHistory,
    ) -> AfterCall {
        self.events.emit(Event::AttemptFailed {
            call,
            reason: fault.failure.reason,
            class: fault.class,
            next: *after.as_ref().unwrap_or(&Next::Stop),
        });
        match after {
            Ok(Next::Again(back_off)) => {
                // As after a throttle, a call that the service did not take is not retried, but made.
                if fault.health != Health::LeftOut {
                    history.repeats(fault.class);
                }
                AfterCall::Again(back_off)
            }
            Ok(Next::GiveUp | Next::Stop) => AfterCall::fail(fault, None),
            // It is this answer that ends the run: the row has its verdict, and the rejects say why.
            Err(stop) if stop.reason == CancelReason::NoVerdicts => {
                AfterCall::fail(fault, Some(stop))
            }
            Err(stop) => AfterCall::stop(stop),
        }
    }

    /// The service refuses the run, which stops.
    fn refused(&self, call: CallEnd, error: Error) -> AfterCall {
        self.report_refusal(call, Next::Stop);
        AfterCall::stop(Stop::new(CancelReason::Refused, error))
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
        let key = &mut self.state.borrow_mut().key;
        match key.refused(generation) {
            KeyRefusal::Outdated => Ok(()),
            // A run that is stopping has no use for another key.
            KeyRefusal::Revoked if !self.gate.is_closed() => match self.service.renew_key() {
                KeyRenewal::Renewed => {
                    key.number += 1;
                    self.events.emit(Event::KeyRenewed);
                    Ok(())
                }
                KeyRenewal::Kept(why) => Err(error.detail(why)),
                KeyRenewal::Fixed => Err(error),
            },
            KeyRefusal::Useless if key.number > 0 => Err(error.detail(
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
        FailureClass::OutcomeUnknown => (FailedAttempt::PerhapsBilled, Trouble::GaveUp),
        FailureClass::NotProcessed => (FailedAttempt::NotProcessed, Trouble::GaveUp),
        FailureClass::Unclear => (FailedAttempt::Refused, Trouble::GaveUp),
        FailureClass::Useless => (FailedAttempt::ForGood, Trouble::Useless(by)),
        FailureClass::RowRefused | FailureClass::RunRefused => {
            let is_forbidden = matches!(fault.failure.reason, Reason::Forbidden);
            let trouble = if is_forbidden {
                Trouble::Forbidden(by)
            } else {
                Trouble::Refused(by)
            };
            (FailedAttempt::ForGood, trouble)
        }
    }
}
