//! A call that is out, and its answer on the way to the disk: told also when nobody waits for their end any more.

use tokio::time::Instant;

use crate::row::RowNumber;
use crate::telemetry::event::{Again, Event};
use crate::telemetry::hub::Events;

/// A call that is out. Dropped before its end, it tells that it was abandoned: it may have been billed.
pub(super) struct Call<'a> {
    events: &'a Events,
    row: RowNumber,
    out: bool,
}

impl<'a> Call<'a> {
    pub(super) fn begin(
        events: &'a Events,
        when: Instant,
        row: RowNumber,
        again: Option<Again>,
    ) -> Self {
        events.emit_at(when, Event::AttemptBegan { row, again });
        Self {
            events,
            row,
            out: true,
        }
    }

    /// The answer is there, or it is known that none will come: when that was.
    pub(super) fn ended(mut self) -> Instant {
        self.out = false;
        Instant::now()
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.out {
            self.events.emit(Event::AttemptAbandoned(self.row));
        }
    }
}

/// A paid answer on its way to the disk. Dropped before it is there, it tells that it may be lost.
pub(super) struct Paid<'a> {
    events: &'a Events,
    row: RowNumber,
    durable: bool,
}

impl<'a> Paid<'a> {
    pub(super) const fn begin(events: &'a Events, row: RowNumber) -> Self {
        Self {
            events,
            row,
            durable: false,
        }
    }

    pub(super) fn kept(mut self) {
        self.durable = true;
    }
}

impl Drop for Paid<'_> {
    fn drop(&mut self) {
        if !self.durable {
            self.events.emit(Event::AnswerLost(self.row));
        }
    }
}
