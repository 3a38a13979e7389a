//! A ledger that gets a run's answers.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
#[cfg(feature = "postgres")]
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::closed::{ClosedLedger, Removal};
use crate::base::error::{Error, Result};
use crate::ledger::db::connect::{self, Connect, Mode};
use crate::ledger::db::schema::LedgerInfo;
use crate::ledger::db::{errors, outputs};
use crate::ledger::file;
use crate::ledger::location::ClaimedLocation;
#[cfg(feature = "postgres")]
use crate::ledger::postgres::{ServerContact, WaitingAnswers};
use crate::ledger::store::AnswerCounts;

/// A ledger that gets a run's answers through its [`LedgerWriter`](crate::ledger::writer::LedgerWriter).
pub struct RunningLedger {
    /// Gets the number of answers when the writer's thread has ended.
    counts: Receiver<Option<AnswerCounts>>,
    place: RunningPlace,
}

/// Where it is.
enum RunningPlace {
    /// In a file.
    File(ClaimedLocation),
    /// On the server of this address, as it may be shown.
    #[cfg(feature = "postgres")]
    Server(PathBuf, Arc<ServerContact>),
}

impl RunningLedger {
    pub(super) const fn new(
        claim: ClaimedLocation,
        counts: Receiver<Option<AnswerCounts>>,
    ) -> Self {
        let place = RunningPlace::File(claim);
        Self { counts, place }
    }

    /// On the server of this address, as it may be shown.
    #[cfg(feature = "postgres")]
    pub(in crate::ledger) fn on_server(
        shown: PathBuf,
        counts: Receiver<Option<AnswerCounts>>,
        contact: Arc<ServerContact>,
    ) -> Self {
        let place = RunningPlace::Server(shown, contact);
        Self { counts, place }
    }

    #[cfg_attr(
        not(feature = "postgres"),
        expect(clippy::unnecessary_wraps, reason = "only a server has another answer")
    )]
    const fn claim(&self) -> Option<&ClaimedLocation> {
        match &self.place {
            RunningPlace::File(claim) => Some(claim),
            #[cfg(feature = "postgres")]
            RunningPlace::Server(..) => None,
        }
    }

    /// Where it is, for people; `None` for one that is removed with the run.
    #[must_use]
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.place {
            RunningPlace::File(claim) => (!claim.is_scratch()).then(|| claim.path()),
            #[cfg(feature = "postgres")]
            RunningPlace::Server(shown, _) => Some(shown),
        }
    }

    /// Whether it is on a server.
    #[must_use]
    pub(crate) const fn is_on_server(&self) -> bool {
        self.claim().is_none()
    }

    /// Whether it is removed with the run.
    #[must_use]
    pub(crate) fn is_scratch(&self) -> bool {
        self.claim().is_some_and(ClaimedLocation::is_scratch)
    }

    /// Whether it is the run's own and stays until every row has a verdict.
    #[must_use]
    pub(crate) fn is_own(&self) -> bool {
        self.claim().is_some_and(ClaimedLocation::is_own)
    }

    /// Records how this run is about to leave its files.
    ///
    /// # Errors
    /// Exit code 3: the ledger cannot be written. Then the same command does not recognise the files.
    pub(crate) fn record_outputs(
        &self,
        files: &[(PathBuf, Metadata)],
        input: Option<&Path>,
    ) -> Result<()> {
        let Some(path) = self.claim().map(ClaimedLocation::path) else {
            // A server knows nothing of files.
            return Ok(());
        };
        Connect::to(Mode::Write)
            .open(path)
            .and_then(|connection| {
                let info = LedgerInfo::read(&connection)?;
                outputs::record(&connection, &info, files, input)
            })
            .map_err(|error| {
                Error::stopped(format!("cannot write the ledger `{}`", path.display()))
                    .because(errors::as_io_error(&error))
            })
    }

    /// Whether its file is damaged, so that no run can continue with it. All of it is read.
    #[must_use]
    pub(crate) fn is_damaged(&self) -> bool {
        { self.claim() }.is_some_and(|claim| connect::is_damaged(claim.path()))
    }

    /// Closes it, once its writer is gone. The run's own is removed as `removal` says, another one never. The writer's
    /// thread gets this long to close the database, on a disk that may hang.
    ///
    /// # Errors
    /// It should be removed and cannot be.
    pub fn close(self, removal: Removal, patience: Duration) -> Result<ClosedLedger> {
        let counts = match self.counts.recv_timeout(patience) {
            Ok(counts) => counts,
            // The thread is still using the files: they stay.
            Err(_) if self.is_own() => return Ok(ClosedLedger::Kept(None)),
            Err(_) => None,
        };
        #[cfg(feature = "postgres")]
        if let RunningPlace::Server(shown, contact) = &self.place
            && let Some(WaitingAnswers { words, hint }) = contact.waiting()
        {
            let url = shown.display();
            return Err(Error::stopped(format!("{words} for the ledger `{url}`")).hint(hint));
        }
        let Some(path) = self.claim().map(ClaimedLocation::path) else {
            return Ok(ClosedLedger::Kept(None));
        };
        // A ledger that was removed from outside is not reported.
        if self.is_scratch() || !path.exists() {
            return Ok(ClosedLedger::Removed);
        }
        if self.is_own() && counts.is_some_and(|counts| removal.applies_to(counts)) {
            file::remove(path).map_err(|e| {
                Error::stopped(format!("cannot remove `{}`", path.display())).because(e)
            })?;
            return Ok(ClosedLedger::Removed);
        }
        Ok(ClosedLedger::Kept(counts.map(|counts| counts.ours)))
    }
}
