//! A row that is called for, and what it has been through.

use bytes::Bytes;

use super::transactions::RequestHash;
use crate::ledger::{RequestKey, WorkerNumber};
use crate::pace::{Attempts, RowRefusals};
use crate::row::RowNumber;
use crate::service::Class;
use crate::telemetry::event::Again;

/// A row that is to be called for.
#[derive(Debug)]
pub(crate) struct RowCall {
    /// The row.
    pub(crate) row: RowNumber,
    /// What is sent.
    pub(crate) body: Bytes,
    /// Names the request in the ledger; `None` where nothing is kept.
    pub(crate) key: Option<RequestKey>,
    /// Whose claim it is; `None` where no other run writes to the ledger, or nothing is claimed yet.
    pub(crate) claim: Option<Claim>,
}

/// The claim of a request, in a ledger that several runs share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// The worker of this process that has claimed it.
    pub(crate) worker: WorkerNumber,
    /// Another worker had claimed it, and may have called for it.
    pub(crate) taken_over: bool,
}

/// What a row has been through.
pub(super) struct RowHistory {
    /// What the row asks.
    pub(super) request: RequestHash,
    /// All its calls, also those that used up no attempt.
    pub(super) calls: u32,
    /// Its failed attempts.
    pub(super) attempts: Attempts,
    /// Its calls that were refused because they were too many.
    pub(super) refusals: RowRefusals,
    /// What its next call repeats.
    pub(super) again: Option<Again>,
    /// Whether the outcome of one of its calls is unknown.
    is_doubtful: bool,
}

impl RowHistory {
    /// The history of a row before its first call; `taken_over` if another run may have called for it.
    pub(super) fn new(request: RequestHash, taken_over: bool) -> Self {
        Self {
            request,
            calls: 0,
            attempts: Attempts::default(),
            refusals: RowRefusals::default(),
            again: taken_over.then_some(Again::TakenOver),
            is_doubtful: false,
        }
    }

    /// Between two of its calls another worker, which is gone, may have called for the row.
    pub(super) const fn was_taken_over(&mut self) {
        self.again = Some(Again::TakenOver);
    }

    /// Whether one of its calls may have been billed without an answer.
    pub(super) const fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

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
