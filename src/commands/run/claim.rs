//! The output and its lock, before anything else is opened: here a run waits for another one that holds them.

use super::super::lock_wait::LockWait;
use super::files::OutputPlace;
use super::ledger::LedgerPlan;
use crate::base::error::Result;
use crate::config::{LedgerConfig, OutputConfig};
use crate::input::ReaderSettings;

/// What a run has claimed before it opens its input.
pub(super) struct Claimed {
    pub(super) output: OutputPlace,
    pub(super) ledger: LedgerPlan,
}

impl Claimed {
    /// Checks the output, and takes its lock if the run may wait for it.
    ///
    /// # Errors
    /// Exit code 2: the output may not be written. Exit code 75: another run holds it.
    pub(super) fn new(
        output: &OutputConfig,
        input: &ReaderSettings,
        ledger: &LedgerConfig,
        wait: &LockWait<'_>,
    ) -> Result<Self> {
        let output =
            wait.until_free(|| OutputPlace::check(output.clone(), &input.file.input, ledger))?;
        let mut ledger = LedgerPlan::new(ledger, output.target.as_ref())?;
        ledger.lock_early(wait)?;
        Ok(Self { output, ledger })
    }
}
