//! What happens next. Here it is only waited for and named; the dispatcher acts on it.
//!
//! Only one thing wins each wait, and the other futures are dropped. They lose nothing: receiving from a channel, reserving
//! a slot in one, waiting for a permit and waiting for the next row may all be dropped and started again.

use std::pin::Pin;

use futures::future::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep};

use super::claim_wake::{ClaimSources, ClaimWake};
use super::interests::{Interests, StartNeeds, WriteNeeds};
use super::messages::{Read, Write};
use crate::ledger::Claimed;
use crate::pace::Permit;
use crate::scorer::{RowOutcome, Scorer, Stop};

/// Something that happened.
pub(super) enum Wake<'a> {
    /// A row was scored.
    RowDone(RowOutcome),
    /// The connections have had their turn: calls that were started are sent.
    CallsSent,
    /// A call may start.
    Permit(Permit<'a>),
    /// The service is taken to be down from now on, or has refused the canary again.
    CanaryHeldUp,
    /// Something happened to claims.
    Claims(ClaimWake),
    /// The reader's thread sent something; `None` if it ended.
    Read(Option<Read>),
    /// The writer's thread can take rows.
    WriterReady(mpsc::Permit<'a, Write>),
    /// The writer's thread takes nothing any more, for this reason if it gave one.
    WriterGone(Option<Stop>),
    /// Finished rows have waited for others long enough.
    WriteDue,
    /// A signal or another thread asks for a stop.
    StopAsked(Stop),
    /// Calls that are still out have had their time.
    DrainEnded,
}

/// Where what happens comes from.
pub(super) struct WakeSources<'a, 'p, S, F, C> {
    pub(super) scorer: &'a Scorer<S>,
    /// Rows that are being scored.
    pub(super) scoring: FuturesUnordered<F>,
    pub(super) claims: ClaimSources<'p, C>,
    pub(super) read: mpsc::Receiver<Read>,
    pub(super) write: &'a mpsc::Sender<Write>,
    pub(super) stops: &'p mut mpsc::UnboundedReceiver<Stop>,
    // Made once and reset: a timer for each turn of the loop would cost more than a row.
    pub(super) write_timer: Pin<&'p mut Sleep>,
    pub(super) drain_timer: Pin<&'p mut Sleep>,
}

impl<'a, S, F, C> WakeSources<'a, '_, S, F, C>
where
    F: Future<Output = RowOutcome>,
    C: Future<Output = Result<Claimed, Stop>>,
{
    /// Waits for the first of what is of interest. A stop always is.
    pub(super) async fn next(&mut self, interests: Interests) -> Wake<'a> {
        let Self {
            scorer,
            scoring,
            claims,
            read,
            write,
            stops,
            write_timer,
            drain_timer,
        } = self;
        let Interests {
            row_done,
            read: wants_rows,
            drain_end,
            start,
            write: writes,
            claims: claim_needs,
        } = interests;
        tokio::select! {
            Some(outcome) = scoring.next(), if row_done => Wake::RowDone(outcome),
            () = yield_now(), if start == StartNeeds::CallsSent => Wake::CallsSent,
            Ok(permit) = scorer.permit(), if start == StartNeeds::Permit => Wake::Permit(permit),
            () = scorer.canary_is_held_up(), if start == StartNeeds::Canary => Wake::CanaryHeldUp,
            claim = claims.next(scorer, claim_needs.unwrap_or_default()), if claim_needs.is_some() => {
                Wake::Claims(claim)
            }
            read = read.recv(), if wants_rows => Wake::Read(read),
            slot = write.reserve(), if writes == WriteNeeds::Writer => match slot {
                Ok(slot) => Wake::WriterReady(slot),
                // A writer that fails gives its reason before it ends.
                Err(_) => Wake::WriterGone(stops.try_recv().ok()),
            },
            () = write_timer, if writes == WriteNeeds::More => Wake::WriteDue,
            Some(stop) = stops.recv() => Wake::StopAsked(stop),
            () = drain_timer, if drain_end => Wake::DrainEnded,
        }
    }

    /// A further row that is done by now, without waiting.
    pub(super) fn next_done(&mut self) -> Option<RowOutcome> {
        self.scoring.next().now_or_never().flatten()
    }

    /// Sets the timers, where they are not set so already.
    pub(super) fn set_timers(&mut self, write_at: Instant, drain_ends: Option<Instant>) {
        set(self.write_timer.as_mut(), write_at);
        if let Some(drain_ends) = drain_ends {
            set(self.drain_timer.as_mut(), drain_ends);
        }
    }
}

fn set(timer: Pin<&mut Sleep>, at: Instant) {
    if timer.deadline() != at {
        timer.reset(at);
    }
}
