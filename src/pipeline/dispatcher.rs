//! The dispatcher's state, and how each event changes it. Nothing here waits.
//!
//! There is one way to stop: any reason is handed to [`Dispatcher::stop`], which acts on it without delay.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::claim_wake::ClaimWake;
use super::drain::Drain;
use super::interests::{Interests, StartNeeds, WriteNeeds};
use super::messages::{Read, Write};
use super::rows::Rows;
use super::wake::Wake;
use super::window::WindowSize;
use crate::ledger::{RequestKey, Urgency};
use crate::pace::{FreshRows, Permit};
use crate::scorer::{RowCall, RowOutcome, Scorer, Stop};
use crate::service::Service;
use crate::telemetry::event::{CancelReason, Event};

/// Calls that start before the connections' tasks get their turn and send them. Answers that come together would
/// otherwise have all their next calls go out together, and so come together again, each time waiting for one another:
/// with 64 in flight at 20 ms that reached 95.4 % of what is possible, and this reaches 96.3 %.
const STARTS: usize = 8;

/// Calls that take less are sent as they come: each turn of the connections' tasks costs a system call and may wake the
/// server, and without latency that is several percent of the CPU time of a row. With 64 in flight at 2 ms, a few at a time
/// is no faster; at 4 ms it is. That holds where they have connections: each call that starts beside more others than ever
/// before opens one, although a connection may be free within a moment.
const QUICK: Duration = Duration::from_millis(3);

/// The state of the pipeline.
pub(super) struct Dispatcher<'a, S> {
    scorer: &'a Scorer<S>,
    rows: Rows<'a, S>,
    /// Rows that are being scored.
    scoring: usize,
    /// Calls that were started, and perhaps not sent yet.
    starts: usize,
    /// The most rows that were being scored when calls were sent: so many calls have connections.
    connected: usize,
    /// Whether the input may have more rows.
    reads: bool,
    /// Whether the writer takes rows.
    writes: bool,
    stopped: Option<Stopped>,
}

/// The run is stopping.
struct Stopped {
    /// The first reason.
    stop: Stop,
    drain: Drain,
}

/// What the loop must do after something was handled.
pub(super) enum Response<'a> {
    /// Nothing.
    None,
    /// This row is to be scored.
    Score(RowCall, Permit<'a>),
    /// The rows that are being scored are to be given up.
    GiveUp,
}

impl<'a, S: Service> Dispatcher<'a, S> {
    /// A dispatcher before the first row.
    pub(super) fn new(scorer: &'a Scorer<S>, size: WindowSize) -> Self {
        Self {
            scorer,
            rows: Rows::new(scorer, size),
            scoring: 0,
            starts: 0,
            connected: 0,
            reads: true,
            writes: true,
            stopped: None,
        }
    }

    /// Whether the run is stopping.
    pub(super) const fn is_stopping(&self) -> bool {
        self.stopped.is_some()
    }

    /// Whether all rows that were to be scored are.
    pub(super) fn is_done(&self) -> bool {
        self.scoring == 0 && (self.is_stopping() || self.all_admitted())
    }

    fn all_admitted(&self) -> bool {
        !self.reads && !self.rows.has_uncalled()
    }

    /// The next row that may start now, with its permit. A row without a permit is data in a queue and not a future that
    /// waits. So a row that comes back from its back-off, which holds up the output, waits only behind rows like itself.
    pub(super) fn start_now(&mut self) -> Option<(RowCall, Permit<'a>)> {
        self.admit_without_call();
        self.rows.look_at_lease();
        while !self.must_send() && self.may_start() {
            let permit = self.scorer.try_permit()?;
            if let Some(call) = self.start() {
                self.starts += 1;
                return Some((call, permit));
            }
        }
        None
    }

    /// The requests to claim now, before they are called for.
    pub(super) fn claim_now(&mut self) -> Option<(Vec<RequestKey>, Urgency)> {
        if self.is_stopping() {
            return None;
        }
        self.rows.next_claims().unwrap_or_else(|stop| {
            self.stop(stop);
            None
        })
    }

    /// Admits rows that cost no call.
    fn admit_without_call(&mut self) {
        if !self.is_stopping()
            && let Err(stop) = self.rows.admit_without_call()
        {
            self.stop(stop);
        }
    }

    fn needs_permit(&self) -> bool {
        !self.is_stopping() && self.rows.needs_call()
    }

    /// Whether calls that were started must be sent before others start.
    fn must_send(&self) -> bool {
        self.starts >= STARTS
            && (self.scoring > self.connected || !self.scorer.answers_within(QUICK))
    }

    fn may_start(&self) -> bool {
        self.needs_permit() && self.scorer.may_start_beside(self.scoring)
    }

    /// The row to start with a permit, if there still is one.
    fn start(&mut self) -> Option<RowCall> {
        if self.is_stopping() {
            return None;
        }
        match self.rows.next_call() {
            Ok(call) => {
                self.scoring += usize::from(call.is_some());
                call
            }
            Err(stop) => {
                self.stop(stop);
                None
            }
        }
    }

    /// Whether there are rows for which no call has been made.
    pub(super) fn fresh_rows(&self) -> FreshRows {
        match (self.may_start(), self.all_admitted()) {
            (true, _) => FreshRows::Waiting,
            (false, false) => FreshRows::Possible,
            (false, true) => FreshRows::None,
        }
    }

    /// What is waited for.
    pub(super) fn interests(&self) -> Interests {
        Interests {
            row_done: self.scoring > 0,
            read: !self.is_stopping() && self.reads && self.rows.wants_rows(),
            drain_end: self.is_stopping(),
            start: match (self.needs_permit(), self.may_start()) {
                (false, _) => StartNeeds::NoRow,
                (true, false) => StartNeeds::Canary,
                (true, true) if self.must_send() => StartNeeds::CallsSent,
                (true, true) => StartNeeds::Permit,
            },
            write: match (self.writes, self.rows.window.should_write()) {
                (true, true) => WriteNeeds::Writer,
                (true, false) if self.rows.window.has_ready() => WriteNeeds::More,
                _ => WriteNeeds::NoRow,
            },
            claims: self.rows.claim_needs().filter(|_| !self.is_stopping()),
        }
    }

    /// When what is ready must be written.
    pub(super) const fn write_at(&self) -> Instant {
        self.rows.window.write_at()
    }

    /// When rows that are still being scored are given up.
    pub(super) fn drain_ends(&self) -> Option<Instant> {
        self.stopped.as_ref().map(|stopped| stopped.drain.ends)
    }

    /// Acts on something that happened.
    pub(super) fn handle(&mut self, wake: Wake<'a>) -> Response<'a> {
        self.rows.time_passed();
        match wake {
            Wake::RowDone(outcome) => self.row_done(outcome),
            Wake::CallsSent => {
                self.starts = 0;
                self.connected = self.connected.max(self.scoring);
            }
            Wake::Permit(permit) => {
                if let Some(call) = self.start() {
                    return Response::Score(call, permit);
                }
            }
            // The next row may start now, which is seen before the next wait.
            Wake::CanaryHeldUp => {}
            Wake::Claims(claims) => self.claims(claims),
            Wake::Read(read) => self.read(read),
            Wake::WriterReady(slot) => self.write(slot),
            Wake::WriterGone(reason) => {
                self.writes = false;
                self.stop(reason.unwrap_or_else(Stop::writer_ended));
            }
            Wake::WriteDue => self.rows.window.set_overdue(),
            Wake::StopAsked(stop) => self.stop(stop),
            Wake::DrainEnded => {
                self.scoring = 0;
                return Response::GiveUp;
            }
        }
        Response::None
    }

    /// A row was scored.
    pub(super) fn row_done(&mut self, outcome: RowOutcome) {
        self.scoring = self.scoring.saturating_sub(1);
        if let Err(stop) = self.rows.resolve(outcome) {
            self.stop(stop);
        }
    }

    fn claims(&mut self, claims: ClaimWake) {
        let claimed = match claims {
            ClaimWake::Claimed(Ok(claimed)) => self.rows.claimed(claimed),
            ClaimWake::Claimed(Err(stop)) => Err(stop),
            // What may happen now is seen before the next wait.
            ClaimWake::AskAgain | ClaimWake::LeaseChanged => Ok(()),
        };
        if let Err(stop) = claimed {
            self.stop(stop);
        }
    }

    fn read(&mut self, read: Option<Read>) {
        match read {
            Some(Read::Rows {
                rows,
                position,
                trailer,
            }) => self.rows.receive(rows, position, trailer),
            Some(Read::End(end)) => {
                self.reads = false;
                self.scorer.events().emit(Event::InputEnded(end));
            }
            Some(Read::Failed(stop)) => self.stop(stop),
            None => self.stop(Stop::internal("the reader's thread ended unexpectedly")),
        }
    }

    fn write(&mut self, slot: mpsc::Permit<'_, Write>) {
        slot.send(Write::Rows(self.rows.take_ready()));
    }

    /// Stops the run; calls in flight may finish. The first reason stays the reason.
    pub(super) fn stop(&mut self, stop: Stop) {
        if let Some(stopped) = &mut self.stopped {
            return stopped.add_reason(stop, self.scorer);
        }
        let events = self.scorer.events();
        events.emit(Event::CancelBegan(stop.reason));
        self.scorer.close();
        let drain = Drain::of(stop.reason, self.scorer.longest_call());
        if events.with_stats(|stats| stats.in_flight > 0) {
            events.emit(Event::DrainBegan {
                reason: stop.reason,
                longest: drain.calls,
            });
        }
        self.stopped = Some(Stopped { stop, drain });
    }

    /// Takes the rows that are resolved and not yet written, and the blank lines after the last row of the input.
    pub(super) fn take_rest(&mut self) -> (Option<Write>, Option<Write>) {
        let rows = self.rows.take_rest();
        let trailer = self.rows.take_trailer();
        let trailer = (!self.is_stopping() && !trailer.is_empty()).then_some(trailer);
        let rows = (!rows.is_empty()).then_some(rows);
        (rows.map(Write::Rows), trailer.map(Write::Trailer))
    }

    /// Why the run stopped, if it did.
    pub(super) fn into_stop(self) -> Option<Stop> {
        self.stopped.map(|stopped| stopped.stop)
    }
}

impl Stopped {
    /// Notes a further reason to stop while calls finish.
    fn add_reason<S>(&mut self, stop: Stop, scorer: &Scorer<S>) {
        let Stop { reason, error } = stop;
        // A loss must be reported, whatever the run stops for.
        if matches!(reason, CancelReason::Ledger | CancelReason::Output) {
            self.stop.error = self.stop.error.take().or(error);
        }
        if let Some(drain) = Drain::hurried(reason, self.drain.ends) {
            self.drain = drain;
            scorer.events().emit(Event::DrainBegan {
                reason,
                longest: drain.calls,
            });
        }
    }
}
