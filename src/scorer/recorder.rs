//! The part of the scorer that makes results durable, checks answers and reports what happened.

use std::cell::RefCell;

use bytes::Bytes;

use super::missing_fields::{FieldsMissing, MissingFields};
use super::outcome::{RowOutcome, Stop};
use super::paid_answer::PaidAnswer;
use super::row_call::RowCall;
use super::transactions::{RequestHash, RowOfFile, Transactions};
use crate::base::error::Error;
use crate::ledger::{self, LedgerWriter, RequestKey};
use crate::raw_json::Pointer;
use crate::row::RowNumber;
use crate::service::{Class, Fault};
use crate::telemetry::event::{CallEnd, Event, FailureClass, Next};
use crate::telemetry::hub::Events;
use crate::verdict::{Answer, DecisionPolicy, Reason, Verdict};

/// Makes results durable, checks answers and reports what happened.
pub(crate) struct RowRecorder {
    /// Makes results durable; without a ledger nothing is kept.
    pub(super) ledger: Option<LedgerWriter>,
    /// Makes decisions of answers.
    pub(super) decisions: DecisionPolicy,
    /// Where events go.
    pub(super) events: Events,
    checks: RefCell<AnswerChecks>,
}

/// What is watched for in the answers of the whole run.
struct AnswerChecks {
    /// The number of the file whose rows are answered; 0 for a run of one file.
    file: u64,
    transactions: Transactions,
    missing: MissingFields,
    /// A score below zero was seen.
    below_zero: bool,
}

impl RowRecorder {
    /// A recorder that watches the answers for these fields.
    #[must_use]
    pub(crate) fn new(
        ledger: Option<LedgerWriter>,
        decisions: DecisionPolicy,
        events: Events,
        fields: &[Pointer],
    ) -> Self {
        let level = decisions.level_field();
        Self {
            ledger,
            decisions,
            events,
            checks: RefCell::new(AnswerChecks {
                file: 0,
                transactions: Transactions::default(),
                missing: MissingFields::new(fields, level),
                below_zero: false,
            }),
        }
    }

    /// Ends the claim of a row without an answer.
    pub(super) fn release(&self, call: &RowCall) {
        if let (Some(ledger), Some(key)) = (&self.ledger, call.key) {
            ledger.release(key);
        }
    }

    /// Ends the claim of a row that may have been billed without an answer: the run that calls for it next counts that.
    pub(super) fn abandon(&self, call: &RowCall) {
        if let (Some(ledger), Some(key)) = (&self.ledger, call.key) {
            ledger.abandon(key);
        }
    }

    /// A call is made.
    pub(super) fn count_call(&self) {
        if let Some(ledger) = &self.ledger {
            ledger.count_call();
        }
    }

    /// What a row asks, for [`Self::check`].
    pub(super) fn request_hash(&self, body: &[u8]) -> RequestHash {
        self.checks.borrow().transactions.hash(body)
    }

    /// Checks an answer against those before it.
    pub(super) fn check(
        &self,
        row: RowNumber,
        request: RequestHash,
        answer: &Answer,
    ) -> Option<FieldsMissing> {
        let mut checks = self.checks.borrow_mut();
        let id = &answer.transaction_id;
        let here = RowOfFile {
            file: checks.file,
            row,
        };
        let repeated = checks.transactions.note(id, request, here);
        if let Some(first) = repeated {
            self.events.emit(Event::TransactionRepeated {
                row,
                first: first.row,
                first_file: first.file,
            });
        }
        let by_score = self.decisions.level_field().is_none();
        if by_score
            && answer.score.value().is_below_zero()
            && !std::mem::replace(&mut checks.below_zero, true)
        {
            self.events.emit(Event::ScoreBelowZero { row });
        }
        checks.missing.note(answer)
    }

    /// From now on the answers are to rows of this file.
    pub(super) fn start_file(&self, file: u64) {
        self.checks.borrow_mut().file = file;
    }

    /// No more answers will come.
    pub(super) fn answers_ended(&self) {
        let missing = self.checks.borrow_mut().missing.take();
        if let Some(missing) = missing {
            self.fields_missing(missing);
        }
    }

    /// Reports fields that no answer has.
    pub(super) fn fields_missing(&self, missing: FieldsMissing) {
        let FieldsMissing {
            answers, fields, ..
        } = missing;
        self.events.emit(Event::FieldsAbsent { answers, fields });
    }

    /// Makes an answer durable, with its whole body, and a verdict of it.
    pub(super) async fn keep(
        &self,
        row: RowNumber,
        key: Option<RequestKey>,
        (answer, body): (Answer, Bytes),
    ) -> Result<Verdict, Error> {
        if let (Some(ledger), Some(key)) = (&self.ledger, key) {
            let paid = PaidAnswer::new(&self.events, row);
            ledger.keep(key, ledger::Outcome::Answer(body)).await?;
            paid.kept();
        }
        Ok(self.scored(answer))
    }

    /// The outcome of a row whose result was to be made durable. The run may have to stop for this reason, or since there is
    /// no space for further results.
    pub(super) fn outcome(
        &self,
        row: RowNumber,
        kept: Result<Verdict, Error>,
        stop: Option<Stop>,
    ) -> RowOutcome {
        let given_up = || self.ledger.as_ref()?.given_up().map(Stop::of_ledger);
        RowOutcome::of_kept(row, kept, stop.or_else(given_up))
    }

    /// The verdict of a durable answer.
    pub(super) fn scored(&self, answer: Answer) -> Verdict {
        let decision = self.decisions.decide(&answer);
        Verdict::Scored(answer, decision)
    }

    /// Makes it durable that a request is not to be sent again, if that is so. Returns its verdict.
    pub(super) async fn keep_failure(
        &self,
        key: Option<RequestKey>,
        fault: Fault,
    ) -> Result<Verdict, Error> {
        if let (Some(ledger), Some(key), true) = (&self.ledger, key, fault.class.is_for_good()) {
            let failure = ledger::Outcome::Failure(fault.failure.clone());
            ledger.keep(key, failure).await?;
        }
        Ok(Verdict::Failed(fault.failure))
    }

    /// Reports a call that brought nothing, and what follows.
    pub(super) fn attempt_failed(&self, call: CallEnd, fault: &Fault, next: Next) {
        let class = match fault.class {
            Class::NotProcessed | Class::HostNotFound => FailureClass::NotProcessed,
            Class::OutcomeUnknown => FailureClass::OutcomeUnknown,
            Class::Unclear => FailureClass::Unclear,
            Class::Useless => FailureClass::Useless,
            Class::RowsFault | Class::Forbidden => FailureClass::RowRefused,
        };
        let reason = fault.failure.reason;
        self.events.emit(Event::AttemptFailed {
            call,
            reason,
            class,
            next,
        });
    }

    /// Reports a call with which the service refused the run or its key: it cost nothing, and no row has failed because
    /// of it.
    pub(super) fn run_refused(&self, call: CallEnd, next: Next) {
        self.events.emit(Event::AttemptFailed {
            call,
            reason: Reason::Refused,
            class: FailureClass::RunRefused,
            next,
        });
    }
}
