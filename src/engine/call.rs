//! One row's way to its verdict: permit, call, classification, back-off, and again.
//!
//! This is the only place where calls are made. `pace` says when a call may start, `service` says what its outcome means,
//! `settle` says what follows it. An answer is durable before it is a verdict.

use std::pin::Pin;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::parts::Engine;
use super::row_call::{Claim, EndedCall, RowCall, RowHistory, RowOutcome};
use super::settle::NextStep;
use super::stop::Stop;
use crate::base::error::Error;
use crate::ledger::{self, ClaimResult, Claimed, Holding, Urgency};
use crate::pace::{Allowance, Attempts, CallOutcome, Closed, PaceEvent, Permit, RowRefusals};
use crate::row::RowNumber;
use crate::service::{Classified, Exchange, Fault, Health, Quota, Service, classify};
use crate::telemetry::event::{Again, CallEnd, Event};
use crate::telemetry::hub::Events;
use crate::verdict::Verdict;

/// A call that fails this much later than its time limit stood still with this process or its machine: a timer is never that
/// late otherwise.
const STOOD_STILL: Duration = Duration::from_secs(1);
/// How long to wait before another look at a lease that has ended, or at a request that another run calls for.
const LOOKED_AT_AGAIN: Duration = Duration::from_millis(500);

impl<S: Service> Engine<S> {
    /// Gets the row's verdict; `permit` is for the first attempt.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` stores its arguments twice, and this is allocated and moved for each row"
    )]
    pub(super) fn score<'a>(
        &'a self,
        mut call: RowCall,
        permit: Permit<'a>,
    ) -> impl Future<Output = RowOutcome> + 'a {
        async move {
            let mut history = RowHistory {
                request: self.seen.borrow().answers.hash(&call.body),
                calls: 0,
                attempts: Attempts::default(),
                refusals: RowRefusals::default(),
                again: call.claim.taken_over.then_some(Again::TakenOver),
                is_doubtful: false,
            };
            let outcome = self.attempts(&mut call, &mut history, permit).await;
            // Another run may ask for what has no answer. If one of its calls may have been billed, the next one counts that.
            match &outcome.verdict {
                Some(Verdict::Scored(..)) => {}
                None if history.is_doubtful => self.ledger.abandon(call.key),
                _ => self.ledger.release(call.key),
            }
            outcome
        }
    }

    /// Makes attempts until one settles the row.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` stores its arguments twice, and this is part of what is allocated for each row"
    )]
    fn attempts<'a>(
        &'a self,
        call: &mut RowCall,
        history: &mut RowHistory,
        mut permit: Permit<'a>,
    ) -> impl Future<Output = RowOutcome> {
        async move {
            loop {
                // A permit may have been given just before the run started to stop.
                if self.gate.is_closed() {
                    return RowOutcome::left(call.row);
                }
                if self.ledger.holding(call.claim.worker) == Holding::Held {
                    if let Err((reason, error)) = self.limits.calls.reserve() {
                        return RowOutcome::stopped(call.row, Stop::new(reason, error));
                    }
                    let ended = self.attempt(call, history, permit).await;
                    // Held until the result is durable, and dropped before any other wait: it keeps others from calling.
                    let (next, undurable) = self.settle(call, ended, history);
                    match next {
                        NextStep::Keep(answer, body, stop) => {
                            let answered = ledger::Outcome::Answer(body);
                            let kept = self.keep(call, answered).await;
                            drop(undurable);
                            return self.ended(call.row, kept, || self.scored(answer), stop);
                        }
                        NextStep::Fail(fault, stop) => {
                            let kept = self.keep_failure(call, &fault).await;
                            drop(undurable);
                            let verdict = || Verdict::Failed(fault.failure);
                            return self.ended(call.row, kept, verdict, stop);
                        }
                        NextStep::End(outcome) => return outcome,
                        NextStep::Retry => drop(undurable),
                        NextStep::BackOff(length) => {
                            drop(undurable);
                            if self.gate.back_off(length).await == Err(Closed) {
                                return RowOutcome::left(call.row);
                            }
                        }
                    }
                } else {
                    drop(permit);
                    if let Err(ended) = self.claim_again(call, history).await {
                        return ended;
                    }
                }
                let is_first = history.attempts.is_first() && history.refusals.times() == 0;
                let next = if is_first {
                    self.gate.permit().await
                } else {
                    self.gate.permit_again(&history.refusals).await
                };
                permit = match next {
                    Ok(permit) => permit,
                    Err(Closed) => return RowOutcome::left(call.row),
                };
            }
        }
    }

    /// Makes one call. When it returns, the next call may start, though only a few before this answer is durable.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` stores its arguments twice, and this is part of what is allocated for each row"
    )]
    fn attempt<'a>(
        &'a self,
        call: &RowCall,
        history: &mut RowHistory,
        permit: Permit<'a>,
    ) -> impl Future<Output = EndedCall<'a>> {
        async move {
            let key = self.seen.borrow().key.number();
            history.calls = history.calls.saturating_add(1);
            self.ledger.count_call();
            let (row, again) = (call.row, history.again);
            let began = Event::AttemptBegan { row, again };
            self.events.emit_at(permit.began(), began);
            let mut in_flight = CallInFlight {
                engine: self,
                call,
                attempt: history.calls,
                is_out: true,
            };
            let exchange = self.service.ask(call.body.clone()).await;
            in_flight.is_out = false;
            self.judge(exchange, permit, Instant::now(), key, row, history)
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
        self.apply_quota(&exchange);
        let is_probe = permit.is_probe();
        let latency = when - permit.began();
        self.latest_call.set(latency);
        let end = CallEnd {
            row,
            attempt: history.calls,
            status: exchange.as_ref().ok().map(|reply| reply.status),
            latency,
        };
        let outcome = classify(exchange, &self.fields);
        let stood_still = latency > self.service.longest_call().saturating_add(STOOD_STILL);
        let how = if stood_still && !is_probe && matches!(outcome, Classified::Failed(_)) {
            // The service may have answered long ago.
            CallOutcome::Abandoned
        } else {
            self.shows(&outcome, !history.attempts.is_first(), is_probe)
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
    fn apply_quota(&self, exchange: &Exchange) {
        let Ok(reply) = exchange else {
            return;
        };
        let quota = Quota::of(&reply.headers, SystemTime::now);
        if let (Some(calls), Some(lasts)) = (quota.remaining, quota.reset) {
            self.gate.allowed(Allowance { calls, lasts });
        }
    }

    /// What an outcome means for the pace; `is_repeat`: an attempt of the row has failed before.
    fn shows(&self, outcome: &Classified, is_repeat: bool, is_probe: bool) -> CallOutcome {
        match outcome {
            Classified::Throttled { wait, .. } => match wait {
                // The run stops, so the pause is of no use.
                Some(wait) if *wait > self.limits.patience.wait => CallOutcome::Abandoned,
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
}

impl<S> Engine<S> {
    /// Makes an answer durable, with its whole body.
    async fn keep(&self, call: &RowCall, answer: ledger::Outcome) -> Result<(), Error> {
        let mut paid = PaidAnswer {
            events: &self.events,
            row: call.row,
            is_durable: false,
        };
        self.ledger.keep(call.key, answer).await?;
        paid.is_durable = true;
        Ok(())
    }

    /// Makes it durable that a request is not to be sent again, if that is so.
    async fn keep_failure(&self, call: &RowCall, fault: &Fault) -> Result<(), Error> {
        if fault.class.is_for_good() {
            let failure = ledger::Outcome::Failure(fault.failure.clone());
            self.ledger.keep(call.key, failure).await?;
        }
        Ok(())
    }

    /// How a row has ended whose result was to be made durable: it has its verdict if that is so. The run may have to stop
    /// for this reason, or since there is no space for further results.
    fn ended(
        &self,
        row: RowNumber,
        kept: Result<(), Error>,
        verdict: impl FnOnce() -> Verdict,
        stop: Option<Stop>,
    ) -> RowOutcome {
        let given_up = || self.ledger.given_up().map(Stop::of_ledger);
        let stop = stop.or_else(given_up);
        match kept {
            Ok(()) => RowOutcome {
                stop,
                ..RowOutcome::verdict(row, verdict())
            },
            Err(error) => RowOutcome::stopped(row, stop.unwrap_or_else(|| Stop::of_ledger(error))),
        }
    }

    /// Waits until the row may be called for again, after its lease has ended; otherwise returns how the row has ended. Hardly
    /// any row needs this, so it is a future of its own.
    fn claim_again<'a>(
        &'a self,
        call: &'a mut RowCall,
        history: &'a mut RowHistory,
    ) -> Pin<Box<dyn Future<Output = Result<(), RowOutcome>> + 'a>> {
        Box::pin(async move {
            loop {
                let claim = &mut call.claim;
                match self.ledger.holding(claim.worker) {
                    Holding::Held => return Ok(()),
                    Holding::AwaitsRenewal => {}
                    Holding::Lost => {
                        let claimed = self.claim(vec![call.key], Urgency::Now).await;
                        let Claimed { worker, results } =
                            claimed.map_err(|stop| RowOutcome::stopped(call.row, stop))?;
                        match results.into_iter().next() {
                            Some(ClaimResult::Ours { taken_over }) => {
                                if taken_over && !claim.taken_over {
                                    // Between two calls of this row another run may have called for it.
                                    history.again = Some(Again::TakenOver);
                                }
                                // It stays so, also where the claim is made again.
                                let taken_over = taken_over || claim.taken_over;
                                *claim = Claim { worker, taken_over };
                                continue;
                            }
                            Some(ClaimResult::Known(found)) => {
                                if let Some(known) = found.known {
                                    return Err(RowOutcome::verdict(call.row, self.known(known)));
                                }
                            }
                            Some(ClaimResult::Taken) | None => {}
                        }
                    }
                }
                let waited = self.gate.back_off(LOOKED_AT_AGAIN).await;
                waited.map_err(|Closed| RowOutcome::left(call.row))?;
            }
        })
    }
}

/// A call that is out. A future that is dropped runs no code of its own: this reports that its call was abandoned, and may have
/// been billed.
struct CallInFlight<'a, S> {
    engine: &'a Engine<S>,
    call: &'a RowCall,
    attempt: u32,
    is_out: bool,
}

impl<S> Drop for CallInFlight<'_, S> {
    fn drop(&mut self) {
        if !self.is_out {
            return;
        }
        let (row, attempt) = (self.call.row, self.attempt);
        let abandoned = Event::AttemptAbandoned { row, attempt };
        self.engine.events.emit(abandoned);
        self.engine.ledger.abandon(self.call.key);
    }
}

/// A paid answer on its way to the disk. Dropped before it is there, it reports that the answer may be lost.
struct PaidAnswer<'a> {
    events: &'a Events,
    row: RowNumber,
    is_durable: bool,
}

impl Drop for PaidAnswer<'_> {
    fn drop(&mut self) {
        if !self.is_durable {
            self.events.emit(Event::AnswerLost(self.row));
        }
    }
}
