//! A ledger of a run that makes no more calls. Everything in it is durable, but for how the run has ended: that is its last
//! act, when all its files are written. A run that is killed before is one to continue, and its answers are known.

use std::path::PathBuf;
use std::time::Duration;

use super::closed::ClosedLedger;
use crate::base::error::{Error, Result};
use crate::ledger::file;
use crate::ledger::location::ClaimedLocation;
use crate::ledger::write_thread::EndingThread;

/// A ledger that gets nothing more but how its run has ended.
pub struct SettledLedger {
    pub(super) left: ClosedLedger,
    pub(super) end_mark: EndMark,
    pub(super) thread: EndingThread,
    pub(super) patience: Duration,
    /// Released at the end.
    pub(super) _claim: ClaimedLocation,
}

/// What makes a run finished.
pub(super) enum EndMark {
    /// Its end is recorded.
    Record,
    /// Its own ledger is removed.
    Remove(PathBuf),
    /// Nothing, as its disk hangs.
    Nothing,
}

impl SettledLedger {
    /// What will be left of it.
    #[must_use]
    pub const fn left(&self) -> ClosedLedger {
        self.left
    }

    /// Ends the run in it.
    ///
    /// # Errors
    /// It should be removed and cannot be. Then the same command continues the run, without a call.
    pub fn finish(self) -> Result<()> {
        let Self {
            end_mark,
            thread,
            patience,
            _claim,
            ..
        } = self;
        match end_mark {
            EndMark::Record => {
                // As much as can be waited for.
                thread.end(true, patience);
            }
            EndMark::Remove(path) => {
                let cannot = || Error::stopped(format!("cannot remove `{}`", path.display()));
                if !thread.end(false, patience) {
                    return Err(cannot().detail("its disk does not answer"));
                }
                file::remove(&path).map_err(|e| cannot().because(e))?;
            }
            // It was waited for already.
            EndMark::Nothing => {}
        }
        Ok(())
    }
}
