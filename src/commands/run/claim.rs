//! The output and its lock, before anything else is opened: here a run waits for another one that holds them.

use super::super::lock_wait::LockWait;
use super::ledger::LedgerPlan;
use super::run_files::FilesPlace;
use crate::base::error::Result;
use crate::config::{FilesConfig, LedgerConfig};

/// What a run has claimed before it opens its input.
pub(super) struct Claimed {
    pub(super) place: FilesPlace,
    pub(super) ledger: LedgerPlan,
}

impl Claimed {
    /// Checks where the files are, and takes the lock of the output if the run may wait for it.
    ///
    /// # Errors
    /// Exit code 2: the output may not be written. Exit code 75: another run holds it.
    pub(super) fn new(
        files: &FilesConfig,
        ledger: &LedgerConfig,
        wait: &LockWait<'_>,
    ) -> Result<Self> {
        let place = wait.until_free(|| FilesPlace::check(files.clone(), ledger))?;
        let mut ledger = LedgerPlan::new(ledger, place.of_ledger())?;
        ledger.lock_early(wait)?;
        Ok(Self { place, ledger })
    }
}
