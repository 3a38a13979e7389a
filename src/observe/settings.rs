//! What every view of the progress knows of the run besides its numbers.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::cost;
use super::run_counts::RunCounts;
use super::run_identity::RunIdentity;
use super::style::Style;
use crate::base::money::Tariff;

/// What is known of a run besides its numbers.
#[derive(Debug, Clone)]
pub(crate) struct ProgressSettings {
    /// Which run it is.
    pub(crate) identity: RunIdentity,
    /// How progress is shown.
    pub(crate) style: Style,
    /// Time between lines.
    pub(crate) every: Duration,
    /// The source's size in bytes, if it has one.
    pub(crate) size: Option<u64>,
    /// How many files there are; `None` for a run of one file.
    pub(crate) files: Option<u64>,
    /// With `--limit`: the run takes no more rows than this.
    pub(crate) limit: Option<NonZeroU64>,
    /// The stand-in answers, not the service: every view that shows numbers says so.
    pub(crate) sandbox: bool,
    /// What calls cost, if the user gave a price.
    pub(crate) tariff: Option<Tariff>,
    /// The highest number of calls in flight that the run allows.
    pub(crate) concurrency: usize,
    /// Says why the ledger's server is waited for, while it is.
    pub(crate) ledger_wait: LedgerWait,
}

/// Says why the ledger's server is waited for, while it is.
#[derive(Clone)]
pub(crate) struct LedgerWait(pub(crate) Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl fmt::Debug for LedgerWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LedgerWait")
    }
}

impl ProgressSettings {
    /// What was spent and saved so far, in words; `None` without a price.
    pub(super) fn cost(&self, now: &RunCounts) -> Option<String> {
        let tariff = self.tariff.as_ref()?;
        Some(cost::so_far(
            now.cost.as_ref()?.amounts,
            tariff,
            self.sandbox,
        ))
    }
}
