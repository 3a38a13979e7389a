//! A call that is out: told when it begins, and also when nobody waits for its end any more.

use crate::event::{Again, Event, Events};
use crate::row::RowNumber;

/// A call that is out. Dropped before its end, it tells that it was abandoned: it may have been billed.
pub(super) struct Call<'a> {
    events: &'a Events,
    row: RowNumber,
    out: bool,
}

impl<'a> Call<'a> {
    pub(super) fn begin(events: &'a Events, row: RowNumber, again: Option<Again>) -> Self {
        events.emit(Event::AttemptBegan { row, again });
        Self {
            events,
            row,
            out: true,
        }
    }

    pub(super) fn ended(mut self) {
        self.out = false;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.out {
            self.events.emit(Event::AttemptAbandoned(self.row));
        }
    }
}
