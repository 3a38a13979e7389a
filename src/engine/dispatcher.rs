//! The dispatcher's state, and how each thing that happens changes it. Nothing here waits.
//!
//! There is one way to stop: any reason is handed to [`Dispatcher::stop`], which acts on it without delay.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::messages::Read;
use super::parts::Engine;
use super::row_call::{RowCall, RowOutcome};
use super::rows::Rows;
use super::stop::Stop;
use super::window::WindowSize;
use crate::ledger::{Claimed, RequestKey, Urgency};
use crate::output::DoneRow;
use crate::pace::{FreshRows, Permit};
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

/// The time for an answer to reach the disk after its call. A disk that takes longer hangs.
const COMMIT: Duration = Duration::from_secs(10);
/// The whole drain after SIGTERM or SIGHUP. Kubernetes kills after 30 s, and the last rows must still be written and synced.
const TERMINATED: Duration = Duration::from_secs(20);
/// What is left of a drain after SIGINT, when something else had started it: the person who sends it does not want to wait.
const INTERRUPTED: Duration = Duration::from_secs(5);

/// The state of the engine's loop.
pub(super) struct Dispatcher<'a, S> {
    engine: &'a Engine<S>,
    pub(super) rows: Rows<'a, S>,
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
    /// When calls that are still out are given up.
    drain_ends: Instant,
}

/// What the next row that needs a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartNeeds {
    /// There is no such row.
    NoRow,
    /// Calls that were started must be sent first.
    CallsSent,
    /// A permit.
    Permit,
    /// The canary's verdict, or that another row may show more.
    Canary,
}

impl<'a, S: Service> Dispatcher<'a, S> {
    /// A dispatcher before the first row.
    pub(super) fn new(engine: &'a Engine<S>, size: WindowSize) -> Self {
        Self {
            engine,
            rows: Rows::new(engine, size),
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

    /// Whether rows are being scored.
    pub(super) const fn is_scoring(&self) -> bool {
        self.scoring > 0
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
        if !self.is_stopping() {
            let admitted = self.rows.admit_without_call();
            self.stop_if_err(admitted);
        }
        self.rows.look_at_lease();
        while !self.must_send() && self.may_start() {
            let permit = self.engine.gate.try_permit()?;
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
        let claims = self.rows.next_claims();
        self.stop_if_err(claims).flatten()
    }

    fn needs_permit(&self) -> bool {
        !self.is_stopping() && self.rows.claims.may_call()
    }

    /// Whether calls that were started must be sent before others start.
    fn must_send(&self) -> bool {
        self.starts >= STARTS
            && (self.scoring > self.connected || self.engine.latest_call.get() >= QUICK)
    }

    fn may_start(&self) -> bool {
        self.needs_permit() && self.engine.may_start_beside(self.scoring)
    }

    /// The row to start with a permit, if there still is one.
    pub(super) fn start(&mut self) -> Option<RowCall> {
        if self.is_stopping() {
            return None;
        }
        let call = self.rows.claims.next();
        self.scoring += usize::from(call.is_some());
        call
    }

    /// Whether there are rows for which no call has been made.
    pub(super) fn fresh_rows(&self) -> FreshRows {
        match (self.may_start(), self.all_admitted()) {
            (true, _) => FreshRows::Waiting,
            (false, false) => FreshRows::Possible,
            (false, true) => FreshRows::None,
        }
    }

    /// What the next row that needs a call waits for.
    pub(super) fn start_needs(&self) -> StartNeeds {
        match (self.needs_permit(), self.may_start()) {
            (false, _) => StartNeeds::NoRow,
            (true, false) => StartNeeds::Canary,
            (true, true) if self.must_send() => StartNeeds::CallsSent,
            (true, true) => StartNeeds::Permit,
        }
    }

    /// Whether there is room for more rows.
    pub(super) fn wants_rows(&self) -> bool {
        !self.is_stopping() && self.reads && self.rows.wants_rows()
    }

    /// Whether finished rows should be written now.
    pub(super) const fn should_write(&self) -> bool {
        self.writes && self.rows.window.should_write()
    }

    /// When what is ready must be written, though more rows may be ready by then; `None` if nothing is.
    pub(super) fn write_at(&self) -> Option<Instant> {
        let window = &self.rows.window;
        let waits = self.writes && window.has_ready() && !window.should_write();
        waits.then(|| window.write_at())
    }

    /// When rows that are still being scored are given up.
    pub(super) fn drain_ends(&self) -> Option<Instant> {
        self.stopped.as_ref().map(|stopped| stopped.drain_ends)
    }

    /// When to ask again about requests that another run calls for, unless requests are being claimed.
    pub(super) fn ask_again_at(&self) -> Option<Instant> {
        let claims = &self.rows.claims;
        { claims.ask_again_at() }.filter(|_| !claims.is_out() && !self.is_stopping())
    }

    /// Time has passed in a wait.
    pub(super) fn time_passed(&mut self) {
        self.rows.time = Instant::now();
    }

    /// Calls that were started are sent.
    pub(super) fn calls_sent(&mut self) {
        self.starts = 0;
        self.connected = self.connected.max(self.scoring);
    }

    /// A row was scored.
    pub(super) fn row_done(&mut self, outcome: RowOutcome) {
        self.scoring = self.scoring.saturating_sub(1);
        let resolved = self.rows.resolve(outcome);
        self.stop_if_err(resolved);
    }

    /// The rows that are being scored are given up.
    pub(super) const fn give_up(&mut self) {
        self.scoring = 0;
    }

    /// Requests that were being claimed have come back.
    pub(super) fn claimed(&mut self, claimed: Result<Claimed, Stop>) {
        let settled = claimed.and_then(|claimed| self.rows.claimed(claimed));
        self.stop_if_err(settled);
    }

    /// The reader's thread sent something; `None` if it ended.
    pub(super) fn read(&mut self, read: Option<Read>) {
        match read {
            Some(Read::Rows {
                rows,
                position,
                trailer,
                dropped,
            }) => {
                let read = Event::RowsRead {
                    rows: rows.len() as u64,
                    position,
                    dropped,
                };
                self.engine.events.emit(read);
                self.rows.receive(rows, trailer);
            }
            Some(Read::End(end)) => {
                self.reads = false;
                self.engine.events.emit(Event::InputEnded(end));
            }
            Some(Read::Failed(stop)) => self.stop(stop),
            None => self.stop(Stop::internal("the reader's thread ended unexpectedly")),
        }
    }

    /// Takes what is ready to be written.
    pub(super) fn take_ready(&mut self) -> Vec<DoneRow> {
        let time = self.rows.time;
        self.rows.window.take_ready(time)
    }

    /// The writer's thread takes nothing any more, for this reason if it gave one.
    pub(super) fn writer_gone(&mut self, reason: Option<Stop>) {
        self.writes = false;
        self.stop(reason.unwrap_or_else(Stop::writer_ended));
    }

    fn stop_if_err<T>(&mut self, result: Result<T, Stop>) -> Option<T> {
        result.map_err(|stop| self.stop(stop)).ok()
    }

    /// Stops the run; calls in flight may finish. No call is given up before its own time limit, because it is paid for, unless
    /// the process may be killed soon. The first reason stays the reason.
    pub(super) fn stop(&mut self, stop: Stop) {
        let (reason, now) = (stop.reason, Instant::now());
        let events = &self.engine.events;
        if let Some(stopped) = &mut self.stopped {
            // A loss must be reported, whatever the run stops for.
            if matches!(reason, CancelReason::Ledger | CancelReason::Output) {
                stopped.stop.error = stopped.stop.error.take().or(stop.error);
            }
            let longest = match reason {
                CancelReason::Interrupted => INTERRUPTED,
                reason if reason.hurries() => TERMINATED,
                _ => return,
            };
            let left = stopped.drain_ends.saturating_duration_since(now);
            let longest = left.min(longest);
            stopped.drain_ends = now + longest;
            events.emit(Event::DrainBegan { reason, longest });
            return;
        }
        events.emit(Event::CancelBegan(reason));
        self.engine.gate.close();
        let longest_call = self.engine.service.longest_call();
        let whole = longest_call.saturating_add(COMMIT);
        let most = if reason.hurries() { TERMINATED } else { whole };
        if events.with_stats(|stats| stats.in_flight > 0) {
            let longest = longest_call.min(most);
            events.emit(Event::DrainBegan { reason, longest });
        }
        self.stopped = Some(Stopped {
            stop,
            drain_ends: now + most.min(whole),
        });
    }

    /// Takes the rows that are resolved and not yet written, and the blank lines after the last row of the input.
    pub(super) fn take_rest(&mut self) -> (Vec<DoneRow>, Bytes) {
        let (rows, trailer) = self.rows.take_rest();
        let is_whole = !self.is_stopping();
        (rows, if is_whole { trailer } else { Bytes::new() })
    }

    /// Why the run stopped, if it did.
    pub(super) fn into_stop(self) -> Option<Stop> {
        self.stopped.map(|stopped| stopped.stop)
    }
}
