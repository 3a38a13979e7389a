//! What every view of the progress is: something that shows numbers at intervals and notices as they come.

use std::time::Duration;

use super::cost;
use super::notice::Notice;
use super::snapshot::Snapshot;
use super::style::Style;
use crate::base::money::Tariff;

/// What is known of a run besides its numbers.
#[derive(Debug, Clone)]
pub(crate) struct ProgressSettings {
    /// How progress is shown.
    pub(crate) style: Style,
    /// Time between lines.
    pub(crate) every: Duration,
    /// The source's size in bytes, if it has one.
    pub(crate) size: Option<u64>,
    /// The stand-in answers, not the service: every view that shows numbers says so.
    pub(crate) sandbox: bool,
    /// What calls cost, where the user says so.
    pub(crate) tariff: Option<Tariff>,
    /// The highest number of calls in flight that the run allows.
    pub(crate) concurrency: usize,
}

impl ProgressSettings {
    /// What was spent and saved up to now; `None` where nobody says what calls cost.
    pub(super) fn cost(&self, now: &Snapshot) -> Option<String> {
        let tariff = self.tariff.as_ref()?;
        Some(cost::so_far(now.cost?, tariff, self.sandbox))
    }
}

/// A way to show progress.
pub(super) trait View {
    /// Shows the numbers of this moment.
    fn frame(&mut self, now: &Snapshot);

    /// Shows what should not wait for the next frame.
    fn notice(&mut self, notice: Notice, now: &Snapshot);

    /// Clears what would otherwise stay on the screen.
    fn end(&mut self) {}
}
