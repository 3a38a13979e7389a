//! Guards that report abandoned money: a call that is out, and a paid answer that is not durable yet.
//!
//! A future that is dropped runs no code of its own; these guards report what it leaves behind.

use tokio::time::Instant;

use crate::row::RowNumber;
use crate::telemetry::event::{Again, Event};
use crate::telemetry::hub::Events;

/// A call that is out. Dropped before its end, it reports that it was abandoned: it may have been billed.
pub(super) struct CallInFlight<'a> {
    events: &'a Events,
    row: RowNumber,
    attempt: u32,
    out: bool,
}

impl<'a> CallInFlight<'a> {
    /// Reports that a call goes out at `when`, which is this attempt of its row.
    pub(super) fn start(
        events: &'a Events,
        when: Instant,
        row: RowNumber,
        attempt: u32,
        again: Option<Again>,
    ) -> Self {
        events.emit_at(when, Event::AttemptBegan { row, again });
        Self {
            events,
            row,
            attempt,
            out: true,
        }
    }

    /// The answer has come, or certainly will not. Returns when that was known.
    pub(super) fn ended(mut self) -> Instant {
        self.out = false;
        Instant::now()
    }
}

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        if self.out {
            let (row, attempt) = (self.row, self.attempt);
            self.events.emit(Event::AttemptAbandoned { row, attempt });
        }
    }
}

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
