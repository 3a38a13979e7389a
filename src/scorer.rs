//! One row's way to its verdict: permit, send, classify, wait, again.
//!
//! This is the only place where calls are made. It knows nothing of files, order or windows; it tells what happens as
//! events and leaves every decision to its parts: `pace` says when, `service` says what an outcome means.

mod absent;
mod after;
mod call;
mod keyring;
mod outage;
mod stops;
mod transactions;

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::time::Instant;

pub(crate) use absent::Absent;
use after::Then;
use call::{Call, Paid};
pub(crate) use keyring::Keyring;
use keyring::Refused;
pub(crate) use outage::Outage;
pub(crate) use transactions::Transactions;

use crate::base::error::{Error, Exit};
use crate::ledger::{LedgerWriter, RequestKey};
use crate::pace::{
    Allowance, Attempts, CallBudget, Change, Closed, Ended, FailureBudget, Fuse, Gate, Permit,
    RetryPolicy, RowRefusals, Unsettled,
};
use crate::raw_json::Pointer;
use crate::row::RowNumber;
use crate::service::{Class, Exchange, Fault, Health, Outcome, Quota, Renewal, Service, classify};
use crate::telemetry::event::{Again, Billing, CancelReason, Event, Next};
use crate::telemetry::hub::Events;
use crate::verdict::{Answer, DecisionPolicy, Failure, Reason, Verdict};

/// Everything that a row's scoring needs.
pub(crate) struct Scorer<S> {
    /// Whoever answers.
    pub(crate) service: S,
    /// Who lets calls begin.
    pub(crate) gate: Gate,
    /// Who says whether a row is tried again.
    pub(crate) retries: RetryPolicy,
    /// How long the service may keep the run waiting.
    pub(crate) patience: Patience,
    /// What shows that the service is down, and not that some rows always fail.
    pub(crate) outage: Outage,
    /// Who says that the run must stop.
    pub(crate) fuse: RefCell<Fuse>,
    /// How many calls may be made.
    pub(crate) calls: CallBudget,
    /// How many rows may fail.
    pub(crate) failures: FailureBudget,
    /// Who makes answers durable; without one nothing is kept.
    pub(crate) keeper: Option<LedgerWriter>,
    /// Which key calls go out with.
    pub(crate) keys: Keyring,
    /// What shows that one answer was given to two users.
    pub(crate) transactions: RefCell<Transactions>,
    /// What shows that a further field is in no answer.
    pub(crate) absent: RefCell<Absent>,
    /// Scores to decisions.
    pub(crate) policy: DecisionPolicy,
    /// Further fields of the answer that are kept; those that are written come first.
    pub(crate) columns: Box<[Pointer]>,
    /// The service's host, for messages.
    pub(crate) host: String,
    /// Where it is told.
    pub(crate) events: Events,
}

/// How long the service may keep the run waiting before it stops: a person should know, and a nightly job should free
/// its place.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a pause that the service asks for, or pauses without an answer in between.
    pub(crate) wait: Duration,
    /// For a service that is down.
    pub(crate) outage: Duration,
}

impl Patience {
    /// As long as an incident of the usual kind.
    pub const DEFAULT: Self = Self {
        wait: Duration::from_secs(15 * 60),
        outage: Duration::from_secs(15 * 60),
    };
}

/// What came of a row.
#[derive(Debug)]
pub(crate) struct Fate {
    /// Its verdict; `None` when it is left for a later run.
    pub(crate) verdict: Option<Verdict>,
    /// The run must stop, for this reason.
    pub(crate) stop: Option<(CancelReason, Error)>,
}

impl Fate {
    const LEFT: Self = Self {
        verdict: None,
        stop: None,
    };

    const fn of(verdict: Verdict) -> Self {
        Self {
            verdict: Some(verdict),
            stop: None,
        }
    }

    /// What became of the row could not be made durable.
    fn not_kept(error: Error) -> Self {
        let reason = match error.exit() {
            Exit::Internal => CancelReason::Internal,
            _ => CancelReason::Ledger,
        };
        Self::stop(reason, error)
    }

    const fn stop(reason: CancelReason, error: Error) -> Self {
        Self {
            verdict: None,
            stop: Some((reason, error)),
        }
    }
}

impl<S: Service> Scorer<S> {
    /// Gets the row's verdict; the first attempt has its `permit` in hand. An answer is durable under `key` before it is
    /// a verdict.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds twice what it is given, and this is allocated and moved for each row"
    )]
    pub(crate) fn score<'a>(
        &'a self,
        row: RowNumber,
        body: Bytes,
        key: Option<RequestKey>,
        mut permit: Permit<'a>,
    ) -> impl Future<Output = Fate> + 'a {
        async move {
            let mut attempts = self.attempts(key.as_ref());
            let mut refusals = RowRefusals::default();
            let (mut again, mut doubtful) = (None, false);
            loop {
                // A permit may have been given just before the run began to stop.
                if self.gate.is_closed() {
                    return Fate::LEFT;
                }
                if let Err(error) = self.calls.reserve() {
                    return Fate::stop(CancelReason::MaxCalls, error);
                }
                let (began, api_key) = (permit.began(), self.keys.number());
                let probe = permit.is_probe();
                let call = Call::begin(&self.events, began, row, again);
                let exchange = self.service.ask(body.clone()).await;
                let ended = call.ended();
                let (outcome, unsettled, change) =
                    self.judge(row, exchange, permit, attempts, &mut refusals, ended);
                // Held until what became of the row is durable, and dropped before any other wait: it keeps others from
                // calling.
                let latency = ended - began;
                let mut next = None;
                match outcome {
                    Outcome::Answered(answer) => {
                        self.events
                            .emit_at(ended, Event::AttemptAnswered { row, latency });
                        self.answered(row, &body, &answer, api_key);
                        self.outage.answered(key.as_ref());
                        let fate = self.keep(row, key, answer).await;
                        drop(unsettled);
                        return fate.unwrap_or_else(Fate::not_kept);
                    }
                    Outcome::Throttled { wait, status } => {
                        drop(unsettled);
                        let throttle = self.throttled(row, wait, ended, change);
                        if let Some(fate) = self.sit_out(throttle, refusals, status).await {
                            return fate;
                        }
                    }
                    Outcome::Failed(fault) => {
                        match self.after(row, &fault, probe, change, &mut attempts) {
                            Then::Again(back_off) => {
                                drop(unsettled);
                                self.tell_failed(row, &fault, latency, Next::Again(back_off));
                                if self.gate.back_off(back_off).await == Err(Closed) {
                                    return Fate::LEFT;
                                }
                                next = Some(match fault.class {
                                    Class::OutcomeUnknown if !doubtful => Again::OutcomeUnknown,
                                    _ => Again::Failed,
                                });
                                doubtful |= fault.class == Class::OutcomeUnknown;
                            }
                            Then::Fail => {
                                self.tell_failed(row, &fault, latency, Next::GiveUp);
                                self.remember(key, &fault, &attempts);
                                let kept = self.keep_failure(key, &body, fault).await;
                                drop(unsettled);
                                return kept.map_or_else(Fate::not_kept, Fate::of);
                            }
                            Then::Stop(reason, error) => {
                                self.tell_failed(row, &fault, latency, Next::Stop);
                                if reason != CancelReason::NoVerdicts {
                                    return Fate::stop(reason, error);
                                }
                                // It is the answer that ends the run: the row has its fate, and the rejects say why.
                                let kept = self.keep_failure(key, &body, fault).await;
                                drop(unsettled);
                                return Fate {
                                    verdict: kept.ok(),
                                    stop: Some((reason, error)),
                                };
                            }
                        }
                    }
                    Outcome::Refused(error) => {
                        self.tell_failed(row, &refused(), latency, Next::Stop);
                        return Fate::stop(CancelReason::Refused, error);
                    }
                    Outcome::KeyRefused(error) => match self.with_another_key(api_key, error) {
                        // Like a throttle: nothing was done, and none of the row's attempts is used up.
                        Ok(()) => {
                            drop(unsettled);
                            let again = Next::Again(Duration::ZERO);
                            self.tell_failed(row, &refused(), latency, again);
                        }
                        Err(error) => {
                            self.tell_failed(row, &refused(), latency, Next::Stop);
                            return Fate::stop(CancelReason::Refused, error);
                        }
                    },
                }
                again = next;
                let permitted = if attempts.is_first() {
                    self.gate.permit().await
                } else {
                    self.gate.permit_again().await
                };
                permit = match permitted {
                    Ok(permit) => permit,
                    Err(Closed) => return Fate::LEFT,
                };
            }
        }
    }

    /// The attempts of a row that begins.
    fn attempts(&self, key: Option<&RequestKey>) -> Attempts {
        let mut attempts = Attempts::default();
        if self.outage.is_poison(key) {
            // That it fails is no news of the service, which worked when it failed before.
            attempts.forgive();
            self.fuse.borrow_mut().worked_before();
        }
        attempts
    }

    /// A call ended at `when`: another one may begin, but not many before the answer of this one is durable.
    fn judge<'a>(
        &self,
        row: RowNumber,
        exchange: Exchange,
        permit: Permit<'a>,
        attempts: Attempts,
        refusals: &mut RowRefusals,
        when: Instant,
    ) -> (Outcome, Unsettled<'a>, Option<Change>) {
        self.heed_quota(&exchange);
        let outcome = classify(exchange, &self.columns);
        let ended = self.ended(&outcome, !attempts.is_first(), permit.is_probe());
        let (unsettled, change) = permit.over(when, ended, refusals);
        self.tell_pace(row, change, when);
        (outcome, unsettled, change)
    }

    /// What headers say of the service's quota may slow calls down.
    fn heed_quota(&self, exchange: &Exchange) {
        let Ok(reply) = exchange else {
            return;
        };
        let quota = Quota::of(&reply.headers, SystemTime::now);
        if let (Some(calls), Some(lasts)) = (quota.remaining, quota.reset) {
            self.gate.allowed(Allowance { calls, lasts });
        }
    }

    /// What the pace must know of an outcome; `repeats`: an attempt of the row had failed before.
    fn ended(&self, outcome: &Outcome, repeats: bool, probe: bool) -> Ended {
        match outcome {
            // The run stops: nobody needs the pause.
            Outcome::Throttled {
                wait: Some(wait), ..
            } if *wait > self.patience.wait => Ended::Abandoned,
            Outcome::Throttled { wait, .. } => Ended::Throttled(*wait),
            Outcome::Failed(fault) => match fault.health {
                Health::AtWork => Ended::Answered,
                // A row over which the service always fails must not make it seem down.
                Health::Failed if repeats && !probe => Ended::Abandoned,
                // Rows that have not asked yet tell an outage from rows that always fail, so they are tried every few
                // seconds. One that has failed before tells nothing new: it is not asked more often than if nobody answered.
                Health::Failed if repeats => Ended::Unwell,
                Health::Failed => Ended::Failed,
                Health::Gone => Ended::Unwell,
                Health::Slow => Ended::TimedOut,
            },
            Outcome::Answered(_) | Outcome::Refused(_) | Outcome::KeyRefused(_) => Ended::Answered,
        }
    }

    fn tell_pace(&self, row: RowNumber, change: Option<Change>, when: Instant) {
        match change {
            Some(Change::Down { lasted, next }) => {
                self.events.emit(Event::ServiceDown { row, lasted, next });
            }
            Some(Change::Up { lasted }) => self.events.emit(Event::ServiceUp { lasted }),
            // Is told with the refusal.
            Some(Change::Paused(_) | Change::RowWaits(_)) | None => {}
        }
        if let Some(pace) = self.gate.new_pace(when) {
            self.events.emit(Event::PaceChanged(pace));
        }
        if let (Some(limit), Some(keeper)) = (self.gate.new_limit(), &self.keeper) {
            keeper.found(limit);
        }
    }

    /// What a good answer means for the run.
    fn answered(&self, row: RowNumber, body: &[u8], answer: &Answer, api_key: u64) {
        self.keys.verdict(api_key);
        self.gate.verdict_came();
        self.retries.success();
        self.fuse.borrow_mut().verdict();
        let id = &answer.transaction_id;
        if let Some(first) = self.transactions.borrow_mut().note(id, body, row) {
            self.events.emit(Event::TransactionRepeated { row, first });
        }
        let absent = self.absent.borrow_mut().note(answer);
        self.tell_absent(absent);
    }

    /// No more answers will come.
    pub(crate) fn end(&self) {
        let absent = self.absent.borrow_mut().take();
        self.tell_absent(absent);
    }

    fn tell_absent(&self, absent: Option<absent::Found>) {
        if let Some((answers, fields)) = absent {
            self.events.emit(Event::FieldsAbsent { answers, fields });
        }
    }

    /// What follows a refusal at `when`: everybody pauses, unless that would be too long to sit out, or the row waits alone.
    fn throttled(
        &self,
        row: RowNumber,
        wait: Option<Duration>,
        when: Instant,
        change: Option<Change>,
    ) -> Throttle {
        self.fuse.borrow_mut().answered();
        let longest = self.patience.wait;
        let waited = self.gate.refused_for(when);
        let stop = match wait.filter(|wait| *wait > longest) {
            Some(wait) => Some(stops::asks_to_wait(wait)),
            None if waited > longest => Some(stops::only_refuses(&self.host, waited)),
            None => None,
        };
        let (throttle, pause) = match (stop, change) {
            (Some(error), _) => (Throttle::Stop(error), None),
            (None, Some(Change::RowWaits(least))) => (Throttle::Row { least }, None),
            (None, Some(Change::Paused(pause))) => (Throttle::Everybody, Some(pause)),
            (None, _) => (Throttle::Everybody, None),
        };
        self.events.emit(Event::Throttled { row, pause });
        throttle
    }

    /// Waits for what a refusal asks of the row alone; its fate, if it has one.
    async fn sit_out(
        &self,
        throttle: Throttle,
        refusals: RowRefusals,
        status: u16,
    ) -> Option<Fate> {
        let least = match throttle {
            Throttle::Everybody => None,
            Throttle::Row { .. } if refusals.are_no_chance() => {
                let fault = Fault::throttled(refusals.times(), status);
                return Some(Fate::of(Verdict::Failed(fault.failure)));
            }
            Throttle::Row { least } => Some(least),
            Throttle::Stop(error) => return Some(Fate::stop(CancelReason::Unavailable, error)),
        };
        let wait = refusals.wait(least, self.gate.fraction());
        let closed = !wait.is_zero() && self.gate.back_off(wait).await == Err(Closed);
        closed.then_some(Fate::LEFT)
    }

    /// Makes an answer durable, and a verdict of it.
    async fn keep(
        &self,
        row: RowNumber,
        key: Option<RequestKey>,
        answer: Answer,
    ) -> Result<Fate, Error> {
        let answer = if let (Some(keeper), Some(key)) = (&self.keeper, key) {
            let paid = Paid::begin(&self.events, row);
            let answer = keeper.keep(key, answer).await?;
            paid.kept();
            answer
        } else {
            answer
        };
        let decision = self.policy.decide(&answer.score);
        Ok(Fate::of(Verdict::Scored(answer, decision)))
    }

    /// Makes durable that a request is not to be sent again in this run, where that is so: its verdict.
    async fn keep_failure(
        &self,
        key: Option<RequestKey>,
        body: &[u8],
        fault: Fault,
    ) -> Result<Verdict, Error> {
        if let (Some(keeper), Some(key), true) = (&self.keeper, key, fault.class.is_for_good()) {
            keeper.keep_failure(key, body, &fault.failure).await?;
        }
        Ok(Verdict::Failed(fault.failure))
    }

    /// Whether there is another key than the one with this number, which was refused; otherwise the run must stop with
    /// `error`. Of all calls that went out with a key that was good so far, the first one looks for a new one.
    fn with_another_key(&self, number: u64, error: Error) -> Result<(), Error> {
        match self.keys.refused(number) {
            Refused::Outdated => Ok(()),
            // A run that is stopping has no more use for a key.
            Refused::Revoked if !self.gate.is_closed() => match self.service.renew_key() {
                Renewal::Renewed => {
                    self.keys.renewed();
                    self.events.emit(Event::KeyRenewed);
                    Ok(())
                }
                Renewal::Kept(why) => Err(error.detail(why)),
                Renewal::Fixed => Err(error),
            },
            Refused::Useless if self.keys.has_changed() => Err(error.detail(
                "the key had been read again from its file, and the new one is refused as well",
            )),
            Refused::Revoked | Refused::Useless => Err(error),
        }
    }

    fn tell_failed(&self, row: RowNumber, fault: &Fault, latency: Duration, next: Next) {
        let billing = match fault.class {
            Class::OutcomeUnknown => Billing::Unknown,
            Class::Useless => Billing::Billed,
            _ => Billing::Unlikely,
        };
        self.events.emit(Event::AttemptFailed {
            row,
            reason: fault.failure.reason,
            billing,
            latency,
            next,
        });
    }
}

/// What follows a refusal that asks for less.
enum Throttle {
    /// All wait for the gate.
    Everybody,
    /// Only this row waits, and may have been refused too often.
    Row {
        /// At least so long.
        least: Duration,
    },
    /// The run stops.
    Stop(Error),
}

/// A refusal of the run as events tell it: it cost nothing, and no row has failed for it.
fn refused() -> Fault {
    Fault {
        class: Class::RowsFault,
        health: Health::AtWork,
        from_stranger: false,
        failure: Failure::new(Reason::Refused, ""),
    }
}

#[cfg(test)]
mod tests;
