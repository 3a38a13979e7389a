//! A ledger that gets a run's answers.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
#[cfg(feature = "postgres")]
use std::sync::Arc;
use std::time::Duration;

use super::closed::{ClosedLedger, Removal};
use super::settled::{EndMark, SettledLedger};
use crate::base::error::{Error, Result};
use crate::ledger::db::connect::{self, Connect, Mode};
use crate::ledger::db::schema::LedgerInfo;
use crate::ledger::db::{errors, outputs};
use crate::ledger::location::ClaimedLocation;
#[cfg(feature = "postgres")]
use crate::ledger::postgres::{ServerContact, WaitingAnswers};
use crate::ledger::write_thread::EndingThread;

/// A ledger that gets a run's answers through its [`LedgerWriter`](crate::ledger::writer::LedgerWriter).
pub struct RunningLedger {
    thread: EndingThread,
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
    pub(super) const fn new(claim: ClaimedLocation, thread: EndingThread) -> Self {
        let place = RunningPlace::File(claim);
        Self { thread, place }
    }

    /// On the server of this address, as it may be shown.
    #[cfg(feature = "postgres")]
    pub(in crate::ledger) fn on_server(
        shown: PathBuf,
        thread: EndingThread,
        contact: Arc<ServerContact>,
    ) -> Self {
        let place = RunningPlace::Server(shown, contact);
        Self { thread, place }
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

    /// What records how this run leaves its files; `None` where nothing of them is remembered.
    #[must_use]
    pub(crate) fn outputs(&self) -> Option<OutputRecorder> {
        let claim = self.claim().filter(|claim| !claim.is_scratch())?;
        Some(OutputRecorder(claim.path().to_owned()))
    }

    /// Whether its file is damaged, so that no run can continue with it. All of it is read.
    #[must_use]
    pub(crate) fn is_damaged(&self) -> bool {
        { self.claim() }.is_some_and(|claim| connect::is_damaged(claim.path()))
    }

    /// Waits until everything is durable, once its writer is gone, and decides what becomes of it: the run's own is removed
    /// as `removal` says, another one never. The writer's thread gets this long, on a disk that may hang.
    #[must_use]
    pub fn settle(self, removal: Removal, patience: Duration) -> SettledLedger {
        let counts = self.thread.counts(patience);
        let hangs = counts.is_err();
        let counts = counts.ok().flatten();
        let own = self.claim().filter(|claim| claim.is_own());
        let (left, end_mark) = match (self.claim(), own, counts) {
            // The thread is still using the files: they stay.
            (_, Some(_), _) if hangs => (ClosedLedger::Kept(None), EndMark::Nothing),
            (Some(claim), ..) if claim.is_scratch() => (ClosedLedger::Removed, EndMark::Record),
            (Some(claim), ..) if !claim.path().exists() => (ClosedLedger::Gone, EndMark::Record),
            (_, Some(own), Some(counts)) if removal.applies_to(counts) => (
                ClosedLedger::Removed,
                EndMark::Remove(own.path().to_owned()),
            ),
            _ if hangs => (ClosedLedger::Kept(None), EndMark::Nothing),
            _ => (
                ClosedLedger::Kept(counts.map(|counts| counts.ours)),
                EndMark::Record,
            ),
        };
        let waiting = self.waiting();
        let claim = match self.place {
            RunningPlace::File(claim) => Some(claim),
            #[cfg(feature = "postgres")]
            RunningPlace::Server(..) => None,
        };
        SettledLedger {
            left,
            waiting,
            end_mark,
            thread: self.thread,
            patience,
            _claim: claim,
        }
    }

    /// That answers wait on this machine for the ledger's server.
    #[cfg(feature = "postgres")]
    fn waiting(&self) -> Option<Error> {
        let RunningPlace::Server(shown, contact) = &self.place else {
            return None;
        };
        let WaitingAnswers { words, hint } = contact.waiting()?;
        let url = shown.display();
        Some(Error::stopped(format!("{words} for the ledger `{url}`")).hint(hint))
    }

    #[cfg(not(feature = "postgres"))]
    #[allow(clippy::unused_self, reason = "only a server has another answer")]
    const fn waiting(&self) -> Option<Error> {
        None
    }
}

/// Records in a ledger how a run leaves its files.
#[derive(Debug, Clone)]
pub(crate) struct OutputRecorder(PathBuf);

impl OutputRecorder {
    /// Records how the run over this input is about to leave these files.
    ///
    /// # Errors
    /// Exit code 3: the ledger cannot be written. Then the same command does not recognise the files.
    pub(crate) fn record(&self, files: &[(PathBuf, Metadata)], input: Option<&Path>) -> Result<()> {
        let Self(path) = self;
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
}
