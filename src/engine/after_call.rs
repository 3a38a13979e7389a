//! What follows a call that has ended: for its row, and for the run. Nothing here waits.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::Instant;

use super::state::{Engine, EngineState};
use super::stop::{self, Stop};
use crate::base::error::Error;
use crate::ledger::{LeaseGeneration, PaidResult, RequestKey};
use crate::pace::{
    Allowance, CallSignal, FreshRows, PaceEvent, Permit, Retries, RowRefusals, Trouble, Undurable,
};
use crate::row::RowNumber;
use crate::service::{Classified, Exchange, Fault, Health, Quota, Service, classify};
use crate::telemetry::event::{
    AfterCallKind, CallEnd, CancelReason, Event, FailureClass, RetryCause,
};
use crate::verdict::{Answer, Reason, Verdict};

/// A row whose request is sent.
#[derive(Debug)]
pub(super) struct RowCall {
    pub(super) row: RowNumber,
    /// What is sent.
    pub(super) body: Bytes,
    /// Names the request in the ledger.
    pub(super) key: RequestKey,
    /// A start that is gone had claimed it, and may have called for it.
    pub(super) taken_over: bool,
    /// The lease under which it is claimed, once it is.
    pub(super) lease: LeaseGeneration,
}

/// The calls of a row so far.
#[derive(Default)]
pub(super) struct RowHistory {
    /// All its calls, also those that used up no retry.
    pub(super) calls: u32,
    /// The retries that its failed calls have used up.
    pub(super) retries: Retries,
    /// Its calls that were refused because they were too many.
    pub(super) refusals: RowRefusals,
    /// Its calls that a connection did not take because it ended in order or refused their streams.
    pub(super) left_out: u32,
    /// Why its next call is a retry, if it is one.
    pub(super) again: Option<RetryCause>,
    /// The claimed request has been called for, and was not claimed for a further call since.
    pub(super) is_called: bool,
    /// One of its calls may have been billed without an answer.
    pub(super) is_doubtful: bool,
}

/// If a call fails this much later than its time limit, this process or its machine stood still: a timer is never that late
/// otherwise.
const MAX_TIMER_DELAY: Duration = Duration::from_secs(1);
/// How soon a service that cannot be reached at the start is tried again, until that looks like an outage.
const RETRY_AT_START: Duration = Duration::from_millis(500);

/// How long a service that answers may fail over the remaining rows before they are blamed: most restarts are over by then. At
/// most half of the run's patience, so that the rows are blamed before that ends.
const RESTART_TIME: Duration = Duration::from_secs(5 * 60);

/// A connection that ends in order leaves a row out once, or twice. After this number the row is not unlucky, but the service
/// takes no calls: it counts as one that cannot be reached.
const MOST_LEFT_OUT: u32 = 8;

/// What follows a call, for its row.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each call, which nearly always is the large one"
)]
pub(super) enum AfterCall {
    /// The row has ended: with its verdict, once `stored` is durable, or left for a later run. With a stop, the run ends as
    /// well.
    End {
        verdict: Option<Verdict>,
        stored: Option<PaidResult>,
        stop: Option<Stop>,
    },
    /// The row is called for again after this time, as soon as a call may start.
    Again(Duration),
}

impl AfterCall {
    /// The row has failed. That is stored if it must not be sent again, unless it stops the run.
    fn fail(fault: Fault, stop: Option<Stop>) -> Self {
        let is_stored = fault.is_for_good() && stop.is_none();
        let stored = is_stored.then(|| PaidResult::Failure(fault.failure.clone()));
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
        let classified = classify(exchange, &self.answers.fields);
        let signal = self.signal(&classified, history, is_probe, latency);
        let (undurable, change) = permit.finish(when, signal, &mut history.refusals);
        self.report_pace(call.row, &classified, change, when);
        history.again = None;
        let next = match classified {
            Classified::Answered(answer, body) => {
                self.events.emit_at(when, Event::CallAnswered(end));
                let stop = self.answered(call, &answer, &body, key, when - latency);
                // Otherwise it may be one of the answers that are mixed up.
                let is_kept = !matches!(&stop, Some(it) if it.reason == CancelReason::NoVerdicts);
                AfterCall::End {
                    verdict: is_kept.then(|| self.scored(answer)),
                    stored: is_kept.then_some(PaidResult::Answer(body)),
                    stop,
                }
            }
            Classified::Throttled { wait, .. } => {
                let waited = self.gate.without_success_for(when);
                self.throttled(end, wait, waited, change, history)
            }
            Classified::Failed(fault) => {
                let waited = self.gate.without_success_for(when);
                let after = self.after_failure(call, &fault, is_probe, change, history);
                // A few failures say little. A service that is down, or behind a proxy that says so, has accepted nothing.
                let is_away = self.gate.is_down() || fault.health == Health::BusyOrAway;
                let after = if is_away && waited >= self.rules.max_wait {
                    Err(stop::down_for(&self.rules.host, waited, call.row, &fault))
                } else {
                    after
                };
                self.failed(fault, after, end, history)
            }
            Classified::Refused(error) => self.refused(end, Err(error)),
            Classified::KeyRefused(error) => self.refused(end, self.replace_key(key, error)),
        };
        let stops = matches!(next, AfterCall::End { stop: Some(_), .. });
        if let (Some(PaceEvent::Paused(pause)), false) = (change, stops) {
            let why = end
                .status
                .map_or("refused stream".to_owned(), |it| it.to_string());
            let by = format!("{} ({why})", self.rules.host).into();
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

    /// What the result of a call that took so long means for the pace.
    fn signal(
        &self,
        classified: &Classified,
        history: &RowHistory,
        is_probe: bool,
        took: Duration,
    ) -> CallSignal {
        let is_repeat = history.retries.has_failed;
        let stood_still = took > self.service.longest_call().saturating_add(MAX_TIMER_DELAY);
        match classified {
            // The service may have answered long ago.
            Classified::Failed(_) if stood_still && !is_probe => CallSignal::Abandoned,
            // A refused stream may be chance, or one call too many for its connection. Only the next one of the row says more.
            Classified::Throttled { status: None, .. } if history.left_out == 0 && !is_probe => {
                CallSignal::Abandoned
            }
            Classified::Throttled { wait, .. } => match wait {
                // The run stops, so the pause is of no use.
                Some(wait) if *wait > self.rules.max_wait => CallSignal::Abandoned,
                wait => CallSignal::Throttled(*wait),
            },
            Classified::Failed(fault) => match fault.health {
                Health::AtWork => CallSignal::Answered,
                // A row over which the service always fails must not make it look down.
                Health::Failed if is_repeat && !is_probe => CallSignal::Abandoned,
                // Fresh rows tell an outage from rows that always fail, so they are tried every few seconds. A row that
                // has failed before shows nothing new: it is tried no more often than if the service did not answer.
                // A row that is left out after a retry is left out again and again.
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
        classified: &Classified,
        change: Option<PaceEvent>,
        when: Instant,
    ) {
        match change {
            Some(PaceEvent::Down { lasted, next }) => {
                let words = match classified {
                    Classified::Failed(fault) => fault.to_display(),
                    _ => "too many calls",
                };
                let words = words.trim_start_matches("cannot connect: ");
                let (rules, waited) = (&self.rules, self.gate.without_success_for(when));
                self.events.emit(Event::ServiceDown {
                    row,
                    lasted,
                    next,
                    why: format!("{}: {words}", rules.host).into(),
                    patience: rules.max_wait.saturating_sub(waited),
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

    /// What a good answer means for the run. Returns why the run must stop, if it must.
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
        // A late answer to an old key says nothing about the new one.
        state.key_works |= key == state.key;
        let EngineState {
            give_up,
            answers,
            unproven,
            ..
        } = &mut *state;
        // A verdict that comes while the run is stopping does not make the service good again.
        if !self.gate.is_closed() {
            give_up.verdict();
        }
        unproven.retain(|(ended, _)| *ended > began);
        match answers.check(call.row, call.key.fingerprint(), answer, &self.events) {
            Some(mixed_up) if mixed_up.is_empty() => self.service.renew_connections(),
            Some(mixed_up) if !give_up.keep_going => {
                self.ledger.distrust(mixed_up);
                return Some(stop::mixed_up(&self.rules.host).not_kept(answers.file));
            }
            _ => {}
        }
        let missing = answers.missing_fields(answer, body)?;
        if missing.level && !give_up.keep_going {
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
        wait: Option<Duration>,
        waited: Duration,
        change: Option<PaceEvent>,
        history: &mut RowHistory,
    ) -> AfterCall {
        history.left_out += u32::from(call.status.is_none());
        self.state.borrow_mut().give_up.answered();
        let report = |next| self.events.emit(Event::Throttled { call, next });
        let longest = self.rules.max_wait;
        let stop = match wait.filter(|wait| *wait > longest) {
            Some(wait) => Some(stop::asks_to_wait(wait)),
            None if waited >= longest => Some(stop::only_refuses(&self.rules.host, waited)),
            None => None,
        };
        if let Some(stop) = stop {
            report(AfterCallKind::Stop);
            return AfterCall::stop(stop);
        }
        let least = match change {
            Some(PaceEvent::RowWaits(least)) => Some(least),
            _ => None,
        };
        let refusals = &history.refusals;
        if least.is_some() && refusals.are_not_chance() {
            report(AfterCallKind::GiveUp);
            let fault = Fault::throttled(refusals.times, call.status);
            return AfterCall::fail(fault, None);
        }
        let wait = refusals.wait(least, self.gate.fraction());
        report(AfterCallKind::Again(wait));
        AfterCall::Again(wait)
    }

    /// What follows a failed call: another call, or a failed row.
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
    ) -> Result<AfterCallKind, Stop> {
        // The next call is on another connection, and uses up no retry.
        if fault.health == Health::LeftOut && history.left_out < MOST_LEFT_OUT {
            history.left_out += 1;
            return Ok(AfterCallKind::Again(Duration::ZERO));
        }
        let retries = &mut history.retries;
        if let Some(PaceEvent::Down { lasted, .. }) = change {
            self.outage_continues(lasted, fault, retries);
        }
        // The service is down and the row happened to be its probe: that is not held against the row.
        if is_probe && fault.class != FailureClass::OutcomeUnknown {
            match fault.health {
                Health::Gone | Health::BusyOrAway | Health::HostNotFound | Health::NotConnected => {
                    return Ok(AfterCallKind::Again(Duration::ZERO));
                }
                // It may be the row after all, so a further failure of it shows nothing new.
                Health::Failed => {
                    retries.has_failed = true;
                    return Ok(AfterCallKind::Again(Duration::ZERO));
                }
                Health::AtWork | Health::Slow | Health::LeftOut => {}
            }
        }
        self.try_again_or_give_up(call, fault, retries)
    }

    /// What follows a failure that is not due to an outage.
    fn try_again_or_give_up(
        &self,
        call: &RowCall,
        fault: &Fault,
        retries: &mut Retries,
    ) -> Result<AfterCallKind, Stop> {
        let state = &mut *self.state.borrow_mut();
        let is_other = fault.from_other_program;
        let stop =
            |trouble, rows| stop::for_trouble(&self.rules.host, trouble, rows, call.row, fault);
        if fault.health == Health::HostNotFound
            && let Some(rows) = state.give_up.after(Trouble::HostNotFound, is_other)
        {
            return Err(stop(Trouble::HostNotFound, rows));
        }
        // Nothing was ever sent: the run waits for the service as if it had gone down later, and the row has not been tried.
        if fault.health == Health::NotConnected && !state.give_up.has_verdicts {
            return Ok(AfterCallKind::Again(RETRY_AT_START));
        }
        let back_off = self
            .rules
            .retries
            .next(fault.class, retries, self.gate.fraction());
        if let Some(back_off) = back_off {
            return Ok(AfterCallKind::Again(back_off));
        }
        let trouble = match fault.class {
            FailureClass::OutcomeUnknown | FailureClass::NotProcessed | FailureClass::Unclear => {
                Trouble::GaveUp
            }
            FailureClass::Useless => Trouble::Useless,
            _ if fault.failure.reason == Reason::Forbidden => Trouble::Forbidden,
            FailureClass::RowRefused | FailureClass::RunRefused => Trouble::Refused,
        };
        let stops = state.give_up.after(trouble, is_other);
        if trouble != Trouble::GaveUp && !state.give_up.keep_going {
            let failed = (Instant::now(), call.key.fingerprint());
            state.unproven.push(failed);
        }
        if state.give_up.works {
            self.gate.service_works();
        }
        if let Some(rows) = stops {
            let distrusted = state.unproven.drain(..).map(|(_, request)| request);
            self.ledger.distrust(distrusted.collect());
            let stop = stop(trouble, rows);
            return Err(match stop.reason {
                CancelReason::NoVerdicts => stop.not_kept(state.answers.file),
                _ => stop,
            });
        }
        Ok(AfterCallKind::GiveUp)
    }

    /// A call failed after the service had been taken to be down for `lasted`.
    ///
    /// Ten failures in a row look like an outage. In the middle of a file or at its end they may just as well be ten rows over
    /// which the service always fails; waiting for them would only end in a message to try again later. Fresh rows, for which
    /// no call has been made yet, show which it is. Once none is left, the rows are blamed after a while.
    fn outage_continues(&self, lasted: Duration, fault: &Fault, retries: &Retries) {
        let since = &mut self.state.borrow_mut().rows_fail_since;
        if lasted.is_zero() || fault.health != Health::Failed {
            *since = None;
        }
        if fault.health == Health::Failed {
            let failing = lasted.saturating_sub(*since.get_or_insert(lasted));
            let is_one_of_the_last =
                retries.has_failed && self.gate.fresh_rows() == FreshRows::None;
            let longest = RESTART_TIME.min(self.rules.max_wait / 2);
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
        after: Result<AfterCallKind, Stop>,
        call: CallEnd,
        history: &mut RowHistory,
    ) -> AfterCall {
        self.events.emit(Event::CallFailed {
            call,
            reason: fault.failure.reason,
            class: fault.class,
            next: *after.as_ref().unwrap_or(&AfterCallKind::Stop),
        });
        match after {
            Ok(AfterCallKind::Again(back_off)) => {
                // As after a throttle, the next call is no retry if the service did not take this one.
                if fault.health != Health::LeftOut {
                    let is_unknown = fault.class == FailureClass::OutcomeUnknown;
                    history.again = Some(if is_unknown {
                        RetryCause::OutcomeUnknown
                    } else {
                        RetryCause::Failed
                    });
                    history.is_doubtful |= is_unknown;
                }
                AfterCall::Again(back_off)
            }
            Ok(AfterCallKind::GiveUp | AfterCallKind::Stop) => AfterCall::fail(fault, None),
            // It is this answer that ends the run: the row has its verdict, and the rejects say why.
            Err(stop) if stop.reason == CancelReason::NoVerdicts => {
                AfterCall::fail(fault, Some(stop))
            }
            Err(stop) => AfterCall::stop(stop),
        }
    }

    /// The service refuses the run or its key, and the run stops with this error unless there is another key. The call cost
    /// nothing, no row has failed because of it, and as with a throttle none of the row's retries is used up.
    fn refused(&self, call: CallEnd, other_key: Result<(), Error>) -> AfterCall {
        let (next, after) = match other_key {
            Ok(()) => (
                AfterCallKind::Again(Duration::ZERO),
                AfterCall::Again(Duration::ZERO),
            ),
            Err(error) => {
                let stop = Stop::new(CancelReason::Refused, error);
                (AfterCallKind::Stop, AfterCall::stop(stop))
            }
        };
        self.events.emit(Event::CallFailed {
            call,
            reason: Reason::Refused,
            class: FailureClass::RunRefused,
            next,
        });
        after
    }

    /// A call with the key of this number was refused for its key. A key that brought verdicts may have been rotated: the first
    /// call that it is refused to reads it again from its file. If there is a new one since this call, the row is tried again.
    ///
    /// # Errors
    /// There is no other key, so the run must stop with `error`.
    fn replace_key(&self, number: u64, error: Error) -> Result<(), Error> {
        let state = &mut *self.state.borrow_mut();
        if number != state.key {
            return Ok(());
        }
        let worked = state.key_works;
        state.key_works = false;
        if !worked {
            return Err(match state.key {
                0 => error,
                _ => error.detail(
                    "the key had been read again from its file, and the new one is refused as well",
                ),
            });
        }
        // A run that is stopping has no use for another key.
        if self.gate.is_closed() {
            return Err(error);
        }
        if let Err(why) = self.service.renew_key() {
            return Err(error.detail(why));
        }
        state.key += 1;
        self.events.emit(Event::KeyRenewed);
        Ok(())
    }
}
