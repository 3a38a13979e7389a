//! The parts that all calls of a run share: the service, the gate, the ledger, the rules by which the run stops, and its state;
//! and the rules for rows that need a call when the budget is short.
//!
//! The state is plain data behind a `RefCell`, which is never borrowed across an `await`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::checks::AnswerChecks;
use super::stop::Stop;
use crate::base::error::Error;
use crate::base::numbers::Tolerance;
use crate::ledger::{
    Claimed, KnownResult, LedgerWriter, LookupResult, Payment, RequestKey, RunEnd, Urgency,
};
use crate::pace::{Gate, GiveUpPolicy, RetryPolicy, failures_used_up};
use crate::raw_json::Pointer;
use crate::telemetry::counts::{BudgetNumbers, Events};
use crate::telemetry::event::{CancelReason, Event, Origin};
use crate::verdict::{Answer, DecisionPolicy, Failure, Reason, Verdict};

/// If another run has claimed a request, it is looked up again after this time.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Gets verdicts for rows.
pub(crate) struct Engine<S> {
    /// Answers calls: the HTTP client, or a script in tests.
    pub(super) service: S,
    /// Says when a call may start.
    pub(super) gate: Gate,
    /// Makes results durable.
    pub(super) ledger: LedgerWriter,
    /// Where events are sent.
    pub(super) events: Events,
    pub(super) answers: AnswerRules,
    pub(super) rules: StopRules,
    pub(super) state: RefCell<EngineState>,
}

/// How answers are used.
pub(crate) struct AnswerRules {
    /// Makes decisions of them.
    pub(crate) decisions: DecisionPolicy,
    /// Their further fields that are written.
    pub(crate) fields: Box<[Pointer]>,
}

/// When a row fails, and when the run stops.
pub(crate) struct StopRules {
    /// Whether a row is tried again.
    pub(crate) retries: RetryPolicy,
    /// How long nothing may be accepted, and the longest pause that the service may ask for: after this long without success the
    /// run stops, so that a nightly job frees its slot.
    pub(crate) max_wait: Duration,
    /// How many rows may fail.
    pub(crate) max_failures: Option<Tolerance>,
    /// The run continues without calls once its budget leaves none or its hours are over, so that its output is complete.
    pub(crate) finishes: bool,
    /// Requests without an answer in the ledger, if the budget has fewer calls than there are requests: these requests come
    /// first, and an answer that is too old is asked for again only with the calls that they leave.
    pub(crate) new_requests: Option<u64>,
    /// The service's host, for messages.
    pub(crate) host: String,
}

/// The state of the run.
pub(super) struct EngineState {
    /// Trouble, and whether it must stop the run.
    pub(super) give_up: GiveUpPolicy,
    /// How long the current outage had lasted when a series of failures started that may all be due to the rows.
    pub(super) rows_fail_since: Option<Duration>,
    /// The number of the API key that calls carry now, and whether it has brought verdicts. Only numbers are known here, never
    /// a key.
    pub(super) key: u64,
    pub(super) key_works: bool,
    pub(super) answers: AnswerChecks,
    /// Requests that were refused or got useless answers, by fingerprint, each with the time when its call ended, if that may
    /// stop the run. A verdict whose call started later shows that the service works, so that the failure is trusted.
    pub(super) unproven: Vec<(Instant, i64)>,
    /// A limit of the user's own left no call, and the run continues without.
    pub(super) is_limited: bool,
    /// How many of the requests without an answer are still to be called for, if these come first.
    pub(super) new_to_come: Option<u64>,
    /// The answers of earlier runs that were used, a bit for each, by their positions in the ledger, which are close together.
    used: HashMap<i64, u64, RandomState>,
}

/// How a row has ended: its verdict, or `None` if it is left for a later run; and why the run must stop, if it must.
pub(super) type RowEnd = (Option<Verdict>, Option<Stop>);

impl<S> Engine<S> {
    /// An engine before its first row.
    pub(crate) fn new(
        service: S,
        gate: Gate,
        ledger: LedgerWriter,
        events: Events,
        answers: AnswerRules,
        rules: StopRules,
        give_up: GiveUpPolicy,
    ) -> Self {
        let state = EngineState {
            give_up,
            rows_fail_since: None,
            key: 0,
            key_works: false,
            answers: AnswerChecks::new(&answers.fields, answers.decisions.level_field()),
            unproven: Vec::new(),
            is_limited: false,
            new_to_come: rules.new_requests,
            used: HashMap::default(),
        };
        Self {
            service,
            gate,
            ledger,
            events,
            answers,
            rules,
            state: RefCell::new(state),
        }
    }

    /// Where events are sent.
    pub(crate) const fn events(&self) -> &Events {
        &self.events
    }

    /// Reads what budgets leave, also from another thread.
    pub(crate) fn budget_numbers(&self) -> impl Fn() -> Vec<BudgetNumbers> + Send + use<S> {
        self.ledger.budget_numbers()
    }

    /// The rows of the next of several files come now. `before` is how many bytes the files before it have.
    pub(crate) fn start_file(&self, file: u64, before: u64) {
        self.state.borrow_mut().answers.file = file;
        self.events.emit(Event::FileStarted { file, before });
    }

    /// Shares the pace with other runs, for ever. It can be dropped and started again.
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

    /// Whether another row may start while this many are being scored. Until the first verdict, one row at a time is tried
    /// as a probe. While the service is taken to be down, the gate lets one call through at a time anyway, and a fresh row
    /// tells most; so it does if the service refuses all rows that were tried.
    pub(super) fn may_start_beside(&self, rows: usize) -> bool {
        let gate = &self.gate;
        gate.is_proven() || gate.is_down() || gate.refuses_all(rows)
    }

    /// The verdict that an answer makes. A row has it once the answer is durable.
    pub(super) fn scored(&self, answer: Answer) -> Verdict {
        let decision = self.answers.decisions.decide(&answer);
        Verdict::Scored(answer, decision)
    }

    /// The verdict of a row whose request has a result in the ledger.
    pub(super) fn stored(&self, result: KnownResult) -> Verdict {
        match result {
            KnownResult::Answer(answer) => {
                self.state.borrow_mut().give_up.worked_before = true;
                self.scored(answer)
            }
            KnownResult::Failure(failure) => Verdict::Failed(failure),
        }
    }

    /// The origin of a verdict that the ledger has.
    pub(super) fn origin(&self, found: &LookupResult) -> Origin {
        match found.result {
            _ if found.is_of_this_start => Origin::Duplicate,
            Some(KnownResult::Answer(_)) => self.paid_earlier(found.payment),
            _ => Origin::Ledger(None),
        }
    }

    /// The origin of a verdict that an earlier run has paid for.
    pub(super) fn paid_earlier(&self, payment: Payment) -> Origin {
        let state = &mut *self.state.borrow_mut();
        let bits = state.used.entry(payment.seq >> 6).or_default();
        let bit = 1 << (payment.seq & 63);
        let is_first = *bits & bit == 0;
        *bits |= bit;
        Origin::Ledger(is_first.then_some(payment.price))
    }

    /// Fails when too many rows have failed.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn check_failures(&self) -> Result<(), Stop> {
        let used_up = |counts: &_| failures_used_up(self.rules.max_failures, counts);
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

    /// Fails when the budget leaves no call, unless the run continues without.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn check_budget(&self) -> Result<(), Stop> {
        match self.ledger.budget().check() {
            Ok(()) => Ok(()),
            Err(limit) => self.without_call(limit).1.map_or(Ok(()), Err),
        }
    }

    /// How a row ends for which the budget leaves no call, for this reason.
    pub(super) fn without_call(&self, limit: (CancelReason, Error)) -> RowEnd {
        let (reason, error) = limit;
        if !self.rules.finishes {
            return (None, Some(Stop::new(reason, error)));
        }
        self.state.borrow_mut().is_limited = true;
        self.limit_reached(reason);
        (Some(no_call_left()), None)
    }

    /// Whether some requests may end without a call.
    pub(super) fn is_short_of_calls(&self) -> bool {
        let state = self.state.borrow();
        state.is_limited || state.new_to_come.is_some()
    }

    /// The hours of a run that finishes without calls are over. Rows that wait to be called for again end now.
    pub(super) fn end_calls(&self, reason: CancelReason) {
        self.state.borrow_mut().is_limited = true;
        self.limit_reached(reason);
        self.gate.close();
    }

    /// How a row ends for which the gate gives no permit any more: it is left where the run is stopping, and otherwise finished.
    pub(super) fn without_permit(&self) -> RowEnd {
        let is_stopping = self.events.with_counts(|counts| counts.cancelled.is_some());
        ((!is_stopping).then(no_call_left), None)
    }

    fn limit_reached(&self, reason: CancelReason) {
        if self.events.with_counts(|counts| counts.limited.is_none()) {
            self.events.emit(Event::LimitReached(reason));
        }
    }

    /// Whether no call is made for the next row: none is left, or the row has an old answer, and the remaining calls are for
    /// requests without any. `out` is how many requests are out, with that of the row.
    pub(super) fn saves_call(&self, has_old: bool, out: usize) -> bool {
        let state = self.state.borrow();
        let (Some(new), true, false) = (state.new_to_come, has_old, state.is_limited) else {
            return state.is_limited;
        };
        let Some((left, reason)) = self.ledger.budget().left() else {
            return false;
        };
        // The calls in flight have been taken out of the budget.
        let in_flight = self.events.with_counts(|counts| counts.calls.in_flight);
        let to_come = new.saturating_add((out as u64).saturating_sub(in_flight));
        let saves = left < to_come;
        if saves {
            self.limit_reached(reason);
        }
        saves
    }
}

/// The verdict of a row for which a limit of the user's own leaves no call, unless the ledger has an old answer.
pub(super) fn no_call_left() -> Verdict {
    Verdict::Failed(Failure::new(
        Reason::Limit,
        "a limit of yours left no call for it",
    ))
}
