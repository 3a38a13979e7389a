//! What a run's answers are stored through: a database, or what a test puts in its place. And what such a store gets and
//! gives. It must not know any database.

use std::io;

use bytes::Bytes;

use super::known_limit::KnownLimit;
use super::lookup_result::{AnsweredIn, LookupResult};
use super::request_key::RequestKey;
use super::sealed_failure::SealedFailure;
use crate::base::error::Error;
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

/// A request that a run is about to call for, if nobody else has or does.
#[derive(Debug, Clone)]
pub(crate) struct ClaimRequest {
    /// Names it.
    pub(crate) key: RequestKey,
    /// What would be sent: what is known of the request may be sealed with it.
    pub(crate) body: Bytes,
}

/// What a claim led to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClaimResult {
    /// The request is this worker's: no other one calls for it.
    Ours {
        /// Another worker had claimed it, and may have called for it.
        taken_over: bool,
    },
    /// It is known by now what became of the request.
    Known(LookupResult, AnsweredIn),
    /// Another worker calls for it now.
    Taken,
}

/// What is done in one transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work<'a> {
    /// What becomes durable. The claims of these requests end.
    pub(crate) records: &'a [Record],
    /// Claims of requests that were not called for, or got no answer, end as well.
    pub(crate) releases: &'a [RequestKey],
    /// After all that, these are looked up again, and claimed if nothing is known.
    pub(crate) claims: &'a [ClaimRequest],
}

/// What the renewal of a lease meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseRenewal {
    /// The worker is still the same, and all that it has claimed is its own.
    Kept,
    /// It is a new worker, which has claimed nothing: the first one, or the old one's claims may have been taken over.
    NewWorker,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// It was stopped, and can be continued.
    #[default]
    Stopped,
    /// It can be continued once inputs are fixed that could not be used. Of all others only failed rows are left.
    WithoutSomeInputs,
    /// It reached the end of its input.
    Finished(FinishedRun),
}

/// How a run reached the end of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishedRun {
    /// Rows without a verdict that a call was made for.
    pub(crate) failed: u64,
    /// Rows without a verdict that none was made for.
    pub(crate) unsent: u64,
}

impl Record {
    /// Whether it is an answer, and not a failure.
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(self.payload, Payload::Answer(_))
    }
}

impl FinishedRun {
    /// Whether every row has its verdict, so that no run needs to continue.
    pub(crate) const fn is_complete(self) -> bool {
        self.failed == 0 && self.unsent == 0
    }
}

/// How many answers a ledger has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerCounts {
    /// Of the run's address and service ID.
    pub(crate) ours: u64,
    /// Of all.
    pub(crate) all: u64,
    /// Whether some of another address or service ID were paid for.
    pub(crate) others_paid: bool,
}

/// Where a run's answers are stored, and what it is about to call for is claimed, if other runs write there as well. Only
/// the ledger's thread uses it.
pub(crate) trait Store: Send {
    /// Returns the results of the claims, in their order, once all records are durable; on an error none is. Claims need
    /// not be durable. A worker whose lease has ended, and that others have noticed is gone, gets [`ClaimResult::Taken`].
    fn write(&mut self, work: Work<'_>) -> io::Result<Vec<ClaimResult>>;

    /// Renews the lease of the process's worker, which it makes before the first claim. Only called where runs share the
    /// store.
    fn renew(&mut self) -> io::Result<LeaseRenewal>;

    /// Why the run must stop, if it has too little space left for that to go on. Answers of calls that are out are still kept.
    fn given_up(&self) -> Option<Error> {
        None
    }

    /// The service has shown another limit, or that there is none; stored with the next group or at the end.
    fn set_limit(&mut self, latest: KnownLimit);

    /// No more rows come: the worker leaves, with all its claims. How the run has ended is not recorded yet, so that a run
    /// that is killed before its files are written is one to continue.
    fn leave(&mut self, end: RunEnd);

    /// Records how the run has ended, once its files are written. Its summary has said what may be billed twice.
    fn end(&mut self, end: RunEnd);

    /// How many answers there are.
    fn count(&self) -> Option<AnswerCounts>;
}
