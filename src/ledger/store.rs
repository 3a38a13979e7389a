//! What a run's answers are stored through: the database, or what a test puts in its place.

use std::io;

use super::known_limit::KnownLimit;
use super::request_key::RequestKey;
use super::sealed_failure::SealedFailure;
use crate::verdict::Answer;

/// What became of a request, to be stored.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: RequestKey,
    pub(crate) payload: Payload,
    /// When it arrived, in milliseconds since 1970.
    pub(crate) at: i64,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Payload {
    Answer(Answer),
    Failure(SealedFailure),
}

/// How a run reached the end of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishedRun {
    /// Rows without a verdict. Where there are none, no run needs to continue.
    pub(crate) failed_rows: u64,
    /// Those of them that a call was made for.
    pub(crate) failed_calls: u64,
}

/// How many answers a ledger has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerCounts {
    /// Of the run's address and service ID.
    pub(crate) ours: u64,
    /// Of all.
    pub(crate) all: u64,
}

/// Where groups of records become durable.
pub(crate) trait Store: Send {
    /// Returns when all of them are durable, or none.
    fn commit(&mut self, group: &[Record]) -> io::Result<()>;

    /// The service has shown another limit, or that there is none; stored with the next group or at the end.
    fn set_limit(&mut self, latest: KnownLimit);

    /// The service has failed on these requests; stored with the next group or at the end.
    fn add_failing(&mut self, keys: Vec<RequestKey>);

    /// The run is over; `finished` where it reached the end of its input.
    fn end(&mut self, finished: Option<FinishedRun>);

    /// How many answers there are.
    fn count(&self) -> Option<AnswerCounts>;
}
