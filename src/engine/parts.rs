//! What the run has only one of, between the calls of its rows: the service, the gate, the ledger and the limits.
//!
//! What changes is plain data behind a `RefCell`, which is never borrowed across an `await`.

use std::cell::RefCell;
use std::time::Duration;

use super::checks::AnswerChecks;
use super::seen::{KeyGeneration, Outage, Seen};
use super::stop::Stop;
use crate::ledger::{
    Claimed, KnownOutcome, LedgerWriter, RequestKey, RunEnd, Urgency, WorkerNumber,
};
use crate::pace::{CallBudget, FailureBudget, Gate, GiveUpPolicy, RetryPolicy};
use crate::raw_json::Pointer;
use crate::telemetry::event::{CancelReason, Event};
use crate::telemetry::hub::Events;
use crate::verdict::{Answer, DecisionPolicy, Verdict};

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
    pub(super) seen: RefCell<Seen>,
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
    /// How long nothing may be accepted, and the longest pause that the service may ask for: then a person should be told, and a
    /// nightly job should free its slot.
    pub(crate) max_wait: Duration,
    /// How many calls may be made.
    pub(crate) calls: CallBudget,
    /// How many rows may fail.
    pub(crate) failures: FailureBudget,
    /// The service's host, for messages.
    pub(crate) host: String,
}

impl<S> Engine<S> {
    /// An engine before its first row.
    #[must_use]
    pub(crate) fn new(
        service: S,
        gate: Gate,
        ledger: LedgerWriter,
        events: Events,
        answers: AnswerRules,
        limits: Limits,
        give_up: GiveUpPolicy,
    ) -> Self {
        let seen = Seen {
            give_up,
            outage: Outage::default(),
            key: KeyGeneration::default(),
            answers: AnswerChecks::new(&answers.fields, answers.decisions.level_field()),
        };
        Self {
            service,
            gate,
            ledger,
            events,
            answers,
            limits,
            seen: RefCell::new(seen),
        }
    }

    /// Where events go.
    pub(crate) const fn events(&self) -> &Events {
        &self.events
    }

    /// The rows of the next of several files come now. `before` is how many bytes the files before it have.
    pub(crate) fn start_file(&self, file: u64, before: u64) {
        self.seen.borrow_mut().answers.start_file(file);
        self.events.emit(Event::FileStarted { file, before });
    }

    /// No more answers will come, and this is how the run ends once its files are written.
    pub(crate) fn end(&self, end: RunEnd) {
        let missing = self.seen.borrow_mut().answers.end();
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

    /// The verdict of an answer that is durable.
    pub(super) fn scored(&self, answer: Answer) -> Verdict {
        let decision = self.answers.decisions.decide(&answer);
        Verdict::Scored(answer, decision)
    }

    /// The verdict of a row whose request is known from the ledger.
    pub(super) fn known(&self, known: KnownOutcome) -> Verdict {
        match known {
            KnownOutcome::Answer(answer) => {
                self.seen.borrow_mut().give_up.worked_before();
                self.scored(answer)
            }
            KnownOutcome::Failure(failure) => Verdict::Failed(failure),
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

    /// Claims requests.
    ///
    /// # Errors
    /// The ledger cannot be written, so the run must stop.
    pub(super) async fn claim(
        &self,
        requests: Vec<RequestKey>,
        urgency: Urgency,
    ) -> Result<Claimed, Stop> {
        let claimed = self.ledger.claim(requests, urgency).await;
        claimed.map_err(Stop::of_ledger)
    }

    /// Waits while the claims of this worker await the renewal of its lease. Without end where none is named.
    pub(super) async fn lease_renewal(&self, worker: Option<WorkerNumber>) {
        match worker {
            Some(worker) => self.ledger.lease_settled(worker).await,
            None => std::future::pending().await,
        }
    }
}
