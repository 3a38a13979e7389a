//! A row on its way through its calls: what it asks, what it has been through, and how it ends.

use bytes::Bytes;

use super::stop::Stop;
use crate::ledger::{RequestKey, WorkerNumber};
use crate::pace::{Attempts, RowRefusals};
use crate::row::RowNumber;
use crate::service::Class;
use crate::telemetry::event::Again;
use crate::verdict::Verdict;

/// A row that is to be called for.
#[derive(Debug)]
pub(super) struct RowCall {
    pub(super) row: RowNumber,
    /// What is sent.
    pub(super) body: Bytes,
    /// Names the request in the ledger.
    pub(super) key: RequestKey,
    /// Another worker had claimed it, and may have called for it.
    pub(super) taken_over: bool,
}

/// A row that may be called for, as its request is claimed.
#[derive(Debug)]
pub(super) struct ClaimedCall {
    pub(super) call: RowCall,
    /// The worker of this process that has claimed it.
    pub(super) worker: WorkerNumber,
}

/// How a row has ended.
#[derive(Debug)]
pub(super) struct RowOutcome {
    pub(super) row: RowNumber,
    /// Its verdict; `None` when it is left for a later run.
    pub(super) verdict: Option<Verdict>,
    /// The run must stop, for this reason.
    pub(super) stop: Option<Stop>,
}

impl RowOutcome {
    /// The row is left for a later run.
    pub(super) const fn left(row: RowNumber) -> Self {
        Self {
            row,
            verdict: None,
            stop: None,
        }
    }

    /// The row has its verdict.
    pub(super) const fn verdict(row: RowNumber, verdict: Verdict) -> Self {
        Self {
            row,
            verdict: Some(verdict),
            stop: None,
        }
    }

    /// The row is left, and the run must stop.
    pub(super) const fn stopped(row: RowNumber, stop: Stop) -> Self {
        Self {
            row,
            verdict: None,
            stop: Some(stop),
        }
    }
}

/// What a row has been through.
pub(super) struct RowHistory {
    /// All its calls, also those that used up no attempt.
    pub(super) calls: u32,
    /// Its failed attempts.
    pub(super) attempts: Attempts,
    /// Its calls that were refused because they were too many.
    pub(super) refusals: RowRefusals,
    /// What its next call repeats.
    pub(super) again: Option<Again>,
    /// One of its calls may have been billed without an answer.
    pub(super) is_doubtful: bool,
}

impl RowHistory {
    /// The next call repeats one that failed in this way.
    pub(super) fn repeats(&mut self, class: Class) {
        let is_unknown = class == Class::OutcomeUnknown;
        self.again = Some(if is_unknown && !self.is_doubtful {
            Again::OutcomeUnknown
        } else {
            Again::Failed
        });
        self.is_doubtful |= is_unknown;
    }
}
