//! What a run's answers are stored through, and looked after by hand, whatever database that is. This file must not know any.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::account::LedgerStats;
use super::key::RequestKey;
use super::known_limit::KnownLimit;
use super::outcome::{AnsweredIn, LookupResult, Outcome};
use super::outputs::OutputState;
use crate::base::error::{Error, Result};

/// What became of a request, to be stored.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: RequestKey,
    pub(crate) outcome: Outcome,
    /// When it arrived, in milliseconds since 1970.
    pub(crate) at: i64,
}

/// What a claim led to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClaimResult {
    /// The request is this run's: no other one calls for it.
    Ours {
        /// Another run that is gone had claimed it, and may have called for it.
        taken_over: bool,
    },
    /// It is known by now what became of the request.
    Known(LookupResult),
    /// Another run calls for it now.
    Taken,
}

/// What is done in one transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work<'a> {
    /// What becomes durable. The claims of these requests end.
    pub(crate) records: &'a [Record],
    /// Claims of requests that were not called for, or got no answer, end as well.
    pub(crate) releases: &'a [RequestKey],
    /// These stay claimed by nobody: the run that claims them next knows that they may have been billed.
    pub(crate) abandoned: &'a [RequestKey],
    /// After all that, these are looked up again, and claimed if nothing is known. None of them is among the records.
    pub(crate) claims: &'a [RequestKey],
    /// How many calls this start of the run has made.
    pub(crate) calls: u64,
}

/// What the renewal of a lease meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseRenewal {
    /// All that the run has claimed is still its own.
    Kept,
    /// The lease had ended, and others may have taken its claims over: it has claimed nothing.
    NewWorker,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// It was stopped, and can be continued.
    #[default]
    Stopped,
    /// It reached the end of its input.
    Finished {
        /// Rows without a verdict.
        failed: u64,
    },
}

/// Looks up what is known of requests. It may be used on another thread than the store.
pub(crate) trait Lookup: Send {
    /// What is known of each of these requests, in their order.
    ///
    /// # Errors
    /// The ledger cannot be read.
    fn look_up(&mut self, keys: &[RequestKey]) -> Result<Vec<LookupResult>>;
}

/// Records how a run over an input is about to leave its files.
pub(crate) type OutputRecorder =
    Arc<dyn Fn(&[(PathBuf, Metadata)], Option<&Path>) -> Result<()> + Send + Sync>;

/// Where a run's answers are stored, and what it is about to call for is claimed. Only the ledger's thread uses it once the run
/// has started.
pub(crate) trait Store: Send {
    /// Another connection, for look-ups.
    ///
    /// # Errors
    /// It cannot be made.
    fn lookup(&self) -> Result<Box<dyn Lookup>>;

    /// How a file relates to the run that this one continues, over this input; `None` is an input without a path.
    ///
    /// # Errors
    /// The ledger cannot be read.
    fn output_state(&mut self, file: &Path, input: Option<&Path>) -> Result<OutputState>;

    /// What records how the run leaves its files.
    fn output_recorder(&self) -> OutputRecorder;

    /// Records that the run is under way.
    ///
    /// # Errors
    /// The ledger cannot be written.
    fn start(&mut self) -> Result<()>;

    /// Returns the results of the claims, in their order, once all records are durable; on an error none is. Claims need
    /// not be durable.
    ///
    /// # Errors
    /// The ledger cannot be written.
    fn write(&mut self, work: Work<'_>) -> io::Result<Vec<ClaimResult>>;

    /// Renews the lease of the run's claims, and notes how many calls this start of the run has made: with a service that does
    /// not answer, nothing else is written.
    ///
    /// # Errors
    /// The ledger cannot be written.
    fn renew(&mut self, calls: u64) -> io::Result<LeaseRenewal>;

    /// Why the run must stop, although answers to calls that are out are still kept: it has too little space left.
    fn given_up(&self) -> Option<Error>;

    /// The service has shown another limit, or that there is none; stored with the next group or at the end.
    fn set_limit(&mut self, latest: KnownLimit);

    /// No more calls come: all claims end. How the run has ended is not recorded yet, so that a run that is killed before its
    /// files are written is one to continue.
    fn leave(&mut self, calls: u64);

    /// Records how the run has ended, once its files are written.
    fn end(&mut self, end: RunEnd);
}

/// A ledger that answers are removed from. No run uses it meanwhile.
pub(crate) trait LedgerAdmin {
    /// What is in it.
    ///
    /// # Errors
    /// It cannot be read.
    fn stats(&mut self) -> Result<LedgerStats>;

    /// Removes answers that arrived before this, and what is remembered of runs and limits from before: how many answers
    /// there were.
    ///
    /// # Errors
    /// Exit code 75: a run uses it by now. Exit code 3: it cannot be written.
    fn prune(&mut self, before: SystemTime) -> Result<u64>;

    /// Removes all answers to these requests: how many there were.
    ///
    /// # Errors
    /// As [`Self::prune`].
    fn forget(&mut self, keys: &[RequestKey]) -> Result<u64>;

    /// Rewrites it, so that nothing of what was removed is in it.
    ///
    /// # Errors
    /// Exit code 3: it cannot be rewritten, for instance on a full disk. What was removed stays removed.
    fn rewrite(&mut self) -> Result<()>;
}

impl ClaimResult {
    /// As a look-up found it.
    pub(super) fn known(found: LookupResult) -> Option<Self> {
        found.known.is_some().then_some(Self::Known(found))
    }
}

/// Where an answer comes from that this process has written, or not.
pub(super) const fn answered_in(is_own: bool) -> AnsweredIn {
    if is_own {
        AnsweredIn::ThisRun
    } else {
        AnsweredIn::OtherRun
    }
}
