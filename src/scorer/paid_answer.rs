//! A guard that reports a paid answer that was given up before it was durable.

use crate::row::RowNumber;
use crate::telemetry::event::Event;
use crate::telemetry::hub::Events;

/// A paid answer on its way to the disk. Dropped before it is there, it reports that the answer may be lost.
pub(super) struct PaidAnswer<'a> {
    events: &'a Events,
    row: RowNumber,
    durable: bool,
}

impl<'a> PaidAnswer<'a> {
    /// An answer for this row that is not durable yet.
    pub(super) const fn new(events: &'a Events, row: RowNumber) -> Self {
        Self {
            events,
            row,
            durable: false,
        }
    }

    /// The answer is durable.
    pub(super) fn kept(mut self) {
        self.durable = true;
    }
}

impl Drop for PaidAnswer<'_> {
    fn drop(&mut self) {
        if !self.durable {
            self.events.emit(Event::AnswerLost(self.row));
        }
    }
}
