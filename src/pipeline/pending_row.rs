//! A row in the pipeline, from the reader to the writer.

use bytes::Bytes;

use crate::ledger::{LookupResult, RequestKey};
use crate::row::Row;
use crate::verdict::{Failure, Score, Verdict};

/// A row between the input and the output.
#[derive(Debug)]
pub(crate) struct PendingRow {
    pub(super) row: Row,
    /// The bytes that it counts for in the window, once it is in it.
    pub(super) bytes: usize,
    pub(super) state: RowState,
}

/// The request for a row.
#[derive(Debug)]
pub(crate) struct Request {
    /// What is sent.
    pub(crate) body: Bytes,
    /// Names the request: rows with the same key share one call. `None` where each row has its own and nothing is kept.
    pub(crate) key: Option<RequestKey>,
    /// What the ledger had when the row was read.
    pub(crate) found: LookupResult,
}

/// How far a row has come.
#[derive(Debug)]
pub(super) enum RowState {
    /// It waits before the window, with its request or the rule that it breaks.
    Waiting(Result<Request, Failure>),
    /// It is in the window and has no verdict yet.
    Scoring {
        /// Its request that is out, if equal rows may wait for the same answer.
        key: Option<RequestKey>,
        /// How the user was judged before this run.
        old: Option<Score>,
    },
    /// It has its verdict.
    Resolved {
        /// The verdict.
        verdict: Verdict,
        /// How the user was judged before this run.
        old: Option<Score>,
    },
    /// It is left for a later run.
    Left,
}

impl PendingRow {
    /// A row with its request, or with the rule that it breaks.
    #[must_use]
    pub(crate) const fn new(row: Row, request: Result<Request, Failure>) -> Self {
        Self {
            row,
            bytes: 0,
            state: RowState::Waiting(request),
        }
    }
}
