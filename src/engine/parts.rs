//! What the run has only one of, between the calls of its rows: the service, the gate, the ledger, the limits and the state of
//! the run. And what one row has: its request, what it has been through, and how it ends.
//!
//! What changes is plain data behind a `RefCell`, which is never borrowed across an `await`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::mem;
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::checks::AnswerChecks;
use super::stop::Stop;
use crate::base::error::Error;
use crate::ledger::{
    Claimed, KnownResult, LeaseGeneration, LedgerWriter, LookupResult, Payment, RequestKey, RunEnd,
    Urgency,
};
use crate::pace::{Attempts, FailureBudget, Gate, GiveUpPolicy, RetryPolicy, RowRefusals};
use crate::raw_json::Pointer;
use crate::row::RowNumber;
use crate::telemetry::event::{CancelReason, Event, FailureClass, Origin, RetryCause};
use crate::telemetry::hub::Events;
use crate::verdict::{Answer, DecisionPolicy, Failure, Reason, Verdict};

/// Gets verdicts for rows.
pub(crate) struct Engine<S> {
    /// What answers: the HTTP client, or a script in tests.
    pub(super) service: S,
    /// Says when a call may start.
    pub(super) gate: Gate,
    /// Makes results durable.
    pub(super) ledger: LedgerWriter,
    /// Where events go.
    pub(super) events: Events,
    pub(super) answers: AnswerRules,
    pub(super) limits: Limits,
    pub(super) state: RefCell<EngineState>,
}

/// What is made of answers.
pub(crate) struct AnswerRules {
    /// Makes decisions of them.
    pub(crate) decisions: DecisionPolicy,
    /// Their further fields that are written.
    pub(crate) fields: Box<[Pointer]>,
}

/// The limits of the run.
pub(crate) struct Limits {
    /// Whether a row is tried again.
    pub(crate) retries: RetryPolicy,
    /// How long nothing may be accepted, and the longest pause that the service may ask for: after this long without success the
    /// run stops, so that a nightly job frees its slot.
    pub(crate) max_wait: Duration,
    /// How many rows may fail.
    pub(crate) failures: FailureBudget,
    /// The run goes on without calls once its budget leaves none, so that its output is complete.
    pub(crate) finishes: bool,
    /// Requests that the ledger has no answer to, if there is not a call left for each request: calls are left for these
    /// first, before answers are asked for again that are too old.
    pub(crate) new_requests: Option<u64>,
    /// The service's host, for messages.
    pub(crate) host: String,
}

/// What the run has learnt so far.
pub(super) struct EngineState {
    /// Trouble, and whether it must stop the run.
    pub(super) give_up: GiveUpPolicy,
    /// How long the current outage had lasted when a series of failures started that may all be due to the rows.
    pub(super) rows_fail_since: Option<Duration>,
    /// Which API key calls carry.
    pub(super) key: KeyGeneration,
    pub(super) answers: AnswerChecks,
    /// Requests that were refused or got useless answers, by fingerprint, each with the time when its call ended, if that may
    /// stop the run. A verdict whose call started later shows that the service works, so that the failure is trusted.
    pub(super) unproven: Vec<(Instant, i64)>,
    /// A budget left no call, and the run goes on without.
    pub(super) is_limited: bool,
    /// How many of the requests without an answer are still to be called for, if calls are left for them.
    pub(super) new_to_come: Option<u64>,
    /// The answers of earlier runs that were used.
    pub(super) used: UsedAnswers,
}

/// Answers, by their places in the ledger, which are close together: a bit for each.
#[derive(Default)]
pub(super) struct UsedAnswers(HashMap<i64, u64, RandomState>);

impl UsedAnswers {
    /// Adds an answer. Whether it is new.
    fn add(&mut self, place: i64) -> bool {
        let (bits, bit) = (self.0.entry(place >> 6).or_default(), 1 << (place & 63));
        let is_new = *bits & bit == 0;
        *bits |= bit;
        is_new
    }
}

/// The API keys of a run, counted. A key that is refused after it brought verdicts was revoked or rotated; then its file is
/// worth another look. Only numbers are known here, never a key.
#[derive(Debug, Default)]
pub(super) struct KeyGeneration {
    /// The number of the key that a call uses that goes out now.
    pub(super) number: u64,
    is_proven: bool,
}

/// What follows the refusal of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyRefusal {
    /// Another key is in use since the call went out: try again with that one.
    Outdated,
    /// The key brought verdicts before, so it may have been rotated. Reported once; after that a verdict must come first.
    Revoked,
    /// The key has never been good, or was already looked for again.
    Useless,
}

impl KeyGeneration {
    /// A call with this key brought a verdict. A late answer to an old key says nothing about the new one.
    pub(super) const fn verdict(&mut self, number: u64) {
        self.is_proven |= number == self.number;
    }

    /// A call with this key was refused because of the key.
    pub(super) const fn refused(&mut self, number: u64) -> KeyRefusal {
        if number != self.number {
            KeyRefusal::Outdated
        } else if mem::replace(&mut self.is_proven, false) {
            KeyRefusal::Revoked
        } else {
            KeyRefusal::Useless
        }
    }
}

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

/// What a row has been through.
#[derive(Default)]
pub(super) struct RowHistory {
    /// All its calls, also those that used up no attempt.
    pub(super) calls: u32,
    /// Its failed attempts.
    pub(super) attempts: Attempts,
    /// Its calls that were refused because they were too many.
    pub(super) refusals: RowRefusals,
    /// Its calls that a connection ended before, in order, or whose streams were refused.
    pub(super) left_out: u32,
    /// What its next call repeats.
    pub(super) again: Option<RetryCause>,
    /// What was claimed has been called for, and no further call was claimed since.
    pub(super) is_called: bool,
    /// One of its calls may have been billed without an answer.
    pub(super) is_doubtful: bool,
}

impl RowHistory {
    /// The next call repeats one that failed in this way.
    pub(super) fn repeats(&mut self, class: FailureClass) {
        let is_unknown = class == FailureClass::OutcomeUnknown;
        self.again = Some(if is_unknown {
            RetryCause::OutcomeUnknown
        } else {
            RetryCause::Failed
        });
        self.is_doubtful |= is_unknown;
    }
}

/// The verdict of a row for which the budget leaves no call, unless an old answer is known.
pub(super) fn no_call_left() -> Verdict {
    Verdict::Failed(Failure::new(
        Reason::Limit,
        "the budget left no call for it",
    ))
}

/// How a row has ended: its verdict, or `None` when it is left for a later run; and why the run must stop, if it must.
pub(super) type Ending = (Option<Verdict>, Option<Stop>);

/// How this row has ended.
#[derive(Debug)]
pub(super) struct ScoredRow {
    pub(super) row: RowNumber,
    pub(super) verdict: Option<Verdict>,
    pub(super) stop: Option<Stop>,
}

impl<S> Engine<S> {
    /// An engine before its first row.
    pub(crate) fn new(
        service: S,
        gate: Gate,
        ledger: LedgerWriter,
        events: Events,
        answers: AnswerRules,
        limits: Limits,
        give_up: GiveUpPolicy,
    ) -> Self {
        let state = EngineState {
            give_up,
            rows_fail_since: None,
            key: KeyGeneration::default(),
            answers: AnswerChecks::new(&answers.fields, answers.decisions.level_field()),
            unproven: Vec::new(),
            is_limited: false,
            new_to_come: limits.new_requests,
            used: UsedAnswers::default(),
        };
        Self {
            service,
            gate,
            ledger,
            events,
            answers,
            limits,
            state: RefCell::new(state),
        }
    }

    /// Where events go.
    pub(crate) const fn events(&self) -> &Events {
        &self.events
    }

    /// The rows of the next of several files come now. `before` is how many bytes the files before it have.
    pub(crate) fn start_file(&self, file: u64, before: u64) {
        self.state.borrow_mut().answers.start_file(file);
        self.events.emit(Event::FileStarted { file, before });
    }

    /// Keeps a pace that is shared with others, for ever. It can be dropped and started again.
    pub(crate) async fn share_pace(&self) -> Infallible {
        self.gate.share().await
    }

    /// No more answers will come, and this is how the run ends once its files are written.
    pub(crate) fn end(&self, end: RunEnd) {
        let missing = self.state.borrow_mut().answers.end();
        if let Some(missing) = missing {
            self.events.emit(missing.event());
        }
        self.ledger.end(end);
    }

    /// Whether another row may start beside this many that are being scored. Until the first verdict one row is tried at
    /// a time (the canary). While the service is taken to be down there is one call at a time anyway, and a fresh row
    /// shows most; as it does if the service refuses all rows that were tried.
    pub(super) fn may_start_beside(&self, rows: usize) -> bool {
        let gate = &self.gate;
        gate.is_proven() || gate.is_down() || gate.refuses_all(rows)
    }

    /// The verdict that an answer makes. A row has it once the answer is durable.
    pub(super) fn scored(&self, answer: Answer) -> Verdict {
        let decision = self.answers.decisions.decide(&answer);
        Verdict::Scored(answer, decision)
    }

    /// The verdict of a row whose request is known from the ledger.
    pub(super) fn known(&self, known: KnownResult) -> Verdict {
        match known {
            KnownResult::Answer(answer) => {
                self.state.borrow_mut().give_up.worked_before();
                self.scored(answer)
            }
            KnownResult::Failure(failure) => Verdict::Failed(failure),
        }
    }

    /// Where the verdict of a row comes from that has it from the ledger.
    pub(super) fn origin(&self, found: &LookupResult) -> Origin {
        match found.result {
            _ if found.is_of_this_start => Origin::Duplicate,
            Some(KnownResult::Answer(_)) => self.paid_earlier(found.payment),
            _ => Origin::Ledger(None),
        }
    }

    /// The origin of a verdict that an earlier run has paid for.
    pub(super) fn paid_earlier(&self, payment: Payment) -> Origin {
        let is_first = self.state.borrow_mut().used.add(payment.seq);
        Origin::Ledger(is_first.then_some(payment.price))
    }

    /// Fails when no call is left, unless the run goes on without.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn check_budget(&self) -> Result<(), Stop> {
        match self.ledger.budget().check() {
            Ok(()) => Ok(()),
            Err(limit) => self.without_call(limit).1.map_or(Ok(()), Err),
        }
    }

    /// How a row ends for which this limit leaves no call.
    pub(super) fn without_call(&self, (reason, error): (CancelReason, Error)) -> Ending {
        if !self.limits.finishes {
            return (None, Some(Stop::new(reason, error)));
        }
        self.state.borrow_mut().is_limited = true;
        self.limit_reached(reason);
        (Some(no_call_left()), None)
    }

    /// Whether the run goes on without calls.
    pub(super) fn is_limited(&self) -> bool {
        self.state.borrow().is_limited
    }

    /// Whether some requests may go without a call.
    pub(super) fn is_short_of_calls(&self) -> bool {
        let state = self.state.borrow();
        state.is_limited || state.new_to_come.is_some()
    }

    fn limit_reached(&self, reason: CancelReason) {
        if self.events.with_counts(|counts| counts.limited.is_none()) {
            self.events.emit(Event::LimitReached(reason));
        }
    }

    /// Whether no call is made for the next row: none is left, or the row has an answer, if an old one, and the calls that are left
    /// are for those without any. `out` is how many requests are out, with that of the row.
    pub(super) fn saves_call(&self, has_old: bool, out: usize) -> bool {
        let state = self.state.borrow();
        let (Some(new), true, false) = (state.new_to_come, has_old, state.is_limited) else {
            return state.is_limited;
        };
        let Some((left, reason)) = self.ledger.budget().left() else {
            return false;
        };
        // The calls that are in flight have been taken out of the budget.
        let in_flight = self.events.with_counts(|counts| counts.calls.in_flight);
        let to_come = new.saturating_add((out as u64).saturating_sub(in_flight));
        let saves = left < to_come;
        if saves {
            self.limit_reached(reason);
        }
        saves
    }

    /// A request without an answer is about to be called for.
    pub(super) fn new_request(&self) {
        if let Some(new) = &mut self.state.borrow_mut().new_to_come {
            *new = new.saturating_sub(1);
        }
    }

    /// Fails when too many rows have failed.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn check_failures(&self) -> Result<(), Stop> {
        let used_up = |stats: &_| self.limits.failures.used_up(stats);
        match self.events.with_counts(used_up) {
            Some(error) => Err(Stop::new(CancelReason::MaxFailures, error)),
            None => Ok(()),
        }
    }

    /// Claims the first `most` of these requests that are free, and looks all of them up.
    ///
    /// # Errors
    /// The ledger cannot be written, so the run must stop.
    pub(super) async fn claim(
        &self,
        requests: Vec<RequestKey>,
        most: usize,
        urgency: Urgency,
    ) -> Result<Claimed, Stop> {
        let claimed = self.ledger.claim(requests, most, urgency).await;
        claimed.map_err(Stop::of_ledger)
    }
}
