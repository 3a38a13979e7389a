//! What every view of the progress is: something that shows numbers at intervals and notices as they come.

use std::time::Duration;

use super::notice::Notice;
use super::snapshot::Snapshot;
use super::style::Style;

/// What is known of a run besides its numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgressSettings {
    /// How progress is shown.
    pub(crate) style: Style,
    /// Time between lines.
    pub(crate) every: Duration,
    /// The source's size in bytes, if it has one.
    pub(crate) size: Option<u64>,
    /// The stand-in answers, not the service: every view that shows numbers says so.
    pub(crate) sandbox: bool,
    /// The highest number of calls in flight that the run allows.
    pub(crate) concurrency: usize,
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
