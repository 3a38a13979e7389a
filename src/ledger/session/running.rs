//! A ledger that gets a run's answers.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::closed::{ClosedLedger, Removal};
use super::settled::{EndMark, SettledLedger};
use crate::base::error::{Error, Result};
use crate::ledger::db::connect::{self, Connect, Mode};
use crate::ledger::db::schema::LedgerInfo;
use crate::ledger::db::{errors, outputs};
use crate::ledger::location::ClaimedLocation;
use crate::ledger::write_thread::EndingThread;

/// A ledger that gets a run's answers through its [`LedgerWriter`](crate::ledger::writer::LedgerWriter).
pub struct RunningLedger {
    thread: EndingThread,
    claim: ClaimedLocation,
}

impl RunningLedger {
    pub(super) const fn new(claim: ClaimedLocation, thread: EndingThread) -> Self {
        Self { thread, claim }
    }

    /// Where it is, for people; `None` for one that is removed with the run.
    #[must_use]
    pub(crate) fn path(&self) -> Option<&Path> {
        (!self.claim.is_scratch()).then(|| self.claim.path())
    }

    /// Whether it is removed with the run.
    #[must_use]
    pub(crate) const fn is_scratch(&self) -> bool {
        self.claim.is_scratch()
    }

    /// Whether it is the run's own and stays until every row has a verdict.
    #[must_use]
    pub(crate) const fn is_own(&self) -> bool {
        self.claim.is_own()
    }

    /// What records how this run leaves its files; `None` where nothing of them is remembered.
    #[must_use]
    pub(crate) fn outputs(&self) -> Option<OutputRecorder> {
        Some(OutputRecorder(self.path()?.to_owned()))
    }

    /// Whether its file is damaged, so that no run can continue with it. All of it is read.
    #[must_use]
    pub(crate) fn is_damaged(&self) -> bool {
        connect::is_damaged(self.claim.path())
    }

    /// Waits until everything is durable, once its writer is gone, and decides what becomes of it: the run's own is removed
    /// as `removal` says, another one never. The writer's thread gets this long, on a disk that may hang.
    #[must_use]
    pub fn settle(self, removal: Removal, patience: Duration) -> SettledLedger {
        let counts = self.thread.counts(patience);
        let hangs = counts.is_err();
        let counts = counts.ok().flatten();
        let path = self.claim.path();
        let (left, end_mark) = match counts {
            // The thread is still using the files: they stay.
            _ if hangs && self.is_own() => (ClosedLedger::Kept(None), EndMark::Nothing),
            _ if self.is_scratch() => (ClosedLedger::Removed, EndMark::Record),
            _ if !path.exists() => (ClosedLedger::Gone, EndMark::Record),
            Some(counts) if self.is_own() && removal.applies_to(counts) => {
                (ClosedLedger::Removed, EndMark::Remove(path.to_owned()))
            }
            _ if hangs => (ClosedLedger::Kept(None), EndMark::Nothing),
            _ => (
                ClosedLedger::Kept(counts.map(|counts| counts.ours)),
                EndMark::Record,
            ),
        };
        SettledLedger {
            left,
            end_mark,
            thread: self.thread,
            patience,
            _claim: self.claim,
        }
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
