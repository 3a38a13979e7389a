//! A row that is called for, and what it has been through.

use bytes::Bytes;

use crate::ledger::RequestKey;
use crate::pace::{Attempts, RowRefusals};
use crate::row::RowNumber;
use crate::service::Class;
use crate::telemetry::event::{Again, DoubtfulCalls};

/// A row that is to be called for.
#[derive(Debug)]
pub(crate) struct RowCall {
    /// The row.
    pub(crate) row: RowNumber,
    /// What is sent.
    pub(crate) body: Bytes,
    /// Names the request in the ledger; `None` where nothing is kept.
    pub(crate) key: Option<RequestKey>,
    /// When the answer arrived that this run has and no longer uses, if there is one.
    pub(crate) expired: Option<i64>,
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
    /// Whether the outcome of one of its calls is unknown.
    is_doubtful: bool,
    /// Its calls that may have been billed, and that were repeated.
    doubtful: DoubtfulCalls,
}

impl RowHistory {
    /// The history of a row before its first call.
    pub(super) fn new(attempts: Attempts) -> Self {
        Self {
            calls: 0,
            attempts,
            refusals: RowRefusals::default(),
            again: None,
            is_doubtful: false,
            doubtful: DoubtfulCalls::default(),
        }
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
        match class {
            Class::OutcomeUnknown | Class::SafeToRepeat => self.doubtful.unanswered += 1,
            Class::Unclear => self.doubtful.unclear += 1,
            _ => {}
        }
    }

    /// Its calls so far that may have been billed.
    pub(super) const fn doubtful_calls(&self) -> DoubtfulCalls {
        self.doubtful
    }
}
