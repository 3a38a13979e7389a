//! What every view of the progress is: something that shows numbers at intervals and notices as they come.

use super::notice::Notice;
use super::snapshot::Snapshot;

/// A way to show progress.
pub(super) trait View {
    /// Shows the numbers of this moment.
    fn frame(&mut self, now: &Snapshot);

    /// Shows what should not wait for the next frame.
    fn notice(&mut self, notice: Notice, now: &Snapshot);

    /// Clears what would otherwise stay on the screen.
    fn end(&mut self) {}
}
