//! A guard that reports a call that is abandoned.
//!
//! A future that is dropped runs no code of its own; this guard reports what it leaves behind.

use tokio::time::Instant;

use super::recorder::RowRecorder;
use super::row_call::RowCall;
use crate::telemetry::event::{Again, Event};

/// A call that is out. Dropped before its end, it reports that it was abandoned: it may have been billed.
pub(super) struct CallInFlight<'a> {
    recorder: &'a RowRecorder,
    call: &'a RowCall,
    attempt: u32,
    out: bool,
}

impl<'a> CallInFlight<'a> {
    /// Reports that a call goes out at `when`, which is this attempt of its row.
    pub(super) fn start(
        recorder: &'a RowRecorder,
        when: Instant,
        call: &'a RowCall,
        attempt: u32,
        again: Option<Again>,
    ) -> Self {
        let row = call.row;
        recorder
            .events
            .emit_at(when, Event::AttemptBegan { row, again });
        Self {
            recorder,
            call,
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
            let (row, attempt) = (self.call.row, self.attempt);
            let abandoned = Event::AttemptAbandoned { row, attempt };
            self.recorder.events.emit(abandoned);
            self.recorder.abandon(self.call);
        }
    }
}
