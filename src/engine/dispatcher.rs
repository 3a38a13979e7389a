//! The loop of the engine, which waits for the next event, and its state, whose handlers never wait.
//!
//! While rows run, there is one way to stop: any reason is handed to [`Dispatcher::stop`], which acts on it without delay.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use futures::future::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use super::after_call::RowCall;
use super::call::ScoredRow;
use super::rows::{Rows, WindowSize};
use super::state::Engine;
use super::stop::Stop;
use crate::ledger::{Claimed, RequestKey, Urgency};
use crate::pace::{FreshRows, Permit};
use crate::row_state::{Row, RowBatch};
use crate::service::Service;
use crate::telemetry::event::{CancelReason, Event, InputEnd};

/// The time for an answer to reach the disk after its call. A disk that takes longer hangs.
const COMMIT_TIME: Duration = Duration::from_secs(10);
/// The whole drain after SIGTERM or SIGHUP. Kubernetes kills after 30 s, and the last rows must still be written and synced.
const DRAIN_TERMINATED: Duration = Duration::from_secs(20);
/// The rest of a drain after SIGINT, if something else had started it: the person who sends it does not want to wait.
const DRAIN_INTERRUPTED: Duration = Duration::from_secs(5);
/// How long the writer may take to accept the last rows once no call is out any more.
const HAND_OVER_TIME: Duration = Duration::from_secs(4);

/// A message of the reader's thread. The end is a message of its own: a reader that died must not look like a short file.
#[derive(Debug)]
pub(crate) enum Read {
    /// Some rows, in input order.
    Rows(RowBatch),
    /// There are no more rows.
    End(InputEnd),
    /// The input cannot be read any further, or the ledger cannot.
    Failed(Stop),
}

/// A message to the writer's thread.
#[derive(Debug)]
pub(crate) enum Write {
    /// Finished rows, in input order.
    Rows(Vec<Row>),
    /// Blank lines after the last row.
    Trailer(Bytes),
}

/// Runs rows from the reader's thread to the writer's until the input ends or something stops the run; then waits for calls in
/// flight. Returns why it stopped. `stops` come from signals and the writer's thread; later ones stay in it.
#[expect(clippy::too_many_lines, reason = "it is the whole loop, in its order")]
pub(crate) async fn run<S: Service>(
    engine: &Engine<S>,
    size: WindowSize,
    mut read: mpsc::Receiver<Read>,
    write: mpsc::Sender<Write>,
    stops: &mut mpsc::UnboundedReceiver<Stop>,
) -> Option<Stop> {
    let mut dispatcher = Dispatcher::new(engine, size);
    let mut scoring = FuturesUnordered::new();
    // One batch at most.
    let mut claiming = FuturesUnordered::new();
    // Made once and reset: a timer for each turn of the loop would cost more than a row.
    let now = Instant::now();
    let mut write_timer = pin!(sleep_until(now));
    let mut drain_timer = pin!(sleep_until(now));
    let mut claim_timer = pin!(sleep_until(now));
    loop {
        while let Some((call, permit)) = dispatcher.start_now() {
            scoring.push(engine.score(call, permit));
        }
        if let Some((requests, most, urgency)) = dispatcher.claim_now() {
            claiming.push(engine.claim(requests, most, urgency));
        }
        if dispatcher.is_done() {
            break;
        }
        engine.gate.set_fresh_rows(dispatcher.fresh_rows());
        let is_running = !dispatcher.is_stopping();
        let (needs_permit, may_start) = (dispatcher.needs_permit(), dispatcher.may_start());
        let writes = set(&mut write_timer, dispatcher.write_at());
        let stopped = dispatcher.stopped.as_ref();
        let drains = set(&mut drain_timer, stopped.map(|stopped| stopped.drain_ends));
        let asks_again = set(&mut claim_timer, dispatcher.rows.ask_again_at());
        // Only one thing wins each wait, and the other futures are dropped. They lose nothing: all may be started again.
        tokio::select! {
            Some(scored) = scoring.next(), if dispatcher.scoring > 0 => {
                dispatcher.time_passed();
                dispatcher.row_done(scored);
                // Checking everything else between rows that end together would cost more than a row. A stop comes first.
                while !dispatcher.is_stopping()
                    && let Some(scored) = scoring.next().now_or_never().flatten()
                {
                    dispatcher.row_done(scored);
                }
            }
            Ok(permit) = engine.gate.permit(), if may_start => {
                dispatcher.time_passed();
                if let Some(call) = dispatcher.start() {
                    scoring.push(engine.score(call, permit));
                }
            }
            // The next row may start now, or be claimed: the loop does that before the next wait.
            () = engine.gate.first_row_is_held_up(), if needs_permit && !may_start => {}
            () = &mut claim_timer, if is_running && asks_again => dispatcher.time_passed(),
            Some(claimed) = claiming.next(), if is_running => {
                dispatcher.time_passed();
                dispatcher.claimed(claimed);
            }
            message = read.recv(), if dispatcher.wants_rows() => {
                dispatcher.time_passed();
                dispatcher.read(message);
                // Rows that need no call can come without end, and calls among them would wait for the connections' tasks.
                yield_now().await;
            }
            slot = write.reserve(), if dispatcher.should_write() => {
                dispatcher.time_passed();
                match slot {
                    Ok(slot) => slot.send(Write::Rows(dispatcher.rows.take_ready())),
                    // A writer that fails gives its reason before it ends.
                    Err(_) => dispatcher.writer_gone(stops.try_recv().ok()),
                }
            }
            () = &mut write_timer, if writes => dispatcher.rows.window.is_overdue = true,
            Some(stop) = stops.recv() => dispatcher.stop(stop),
            () = &mut drain_timer, if drains => {
                scoring.clear();
                dispatcher.scoring = 0;
            }
        }
    }
    // The reader may be blocked on a pipe; once nothing receives, its next batch ends it.
    drop(read);
    hand_over(dispatcher, &write, stops).await
}

/// Sets a timer, if there is a time. Whether there is.
fn set(timer: &mut Pin<&mut Sleep>, at: Option<Instant>) -> bool {
    if let Some(at) = at
        && timer.deadline() != at
    {
        timer.as_mut().reset(at);
    }
    at.is_some()
}

/// Hands the remaining rows to the writer. Returns why the run stopped, even if it does so only now.
async fn hand_over<S: Service>(
    mut dispatcher: Dispatcher<'_, S>,
    write: &mpsc::Sender<Write>,
    stops: &mut mpsc::UnboundedReceiver<Stop>,
) -> Option<Stop> {
    let mut deadline = Instant::now() + HAND_OVER_TIME;
    let is_whole = !dispatcher.is_stopping();
    let rows = dispatcher.rows.take_rest();
    let trailer = std::mem::take(&mut dispatcher.rows.trailer);
    let rows = (!rows.is_empty()).then_some(Write::Rows(rows));
    let trailer = (is_whole && !trailer.is_empty()).then_some(Write::Trailer(trailer));
    for message in rows.into_iter().chain(trailer) {
        let slot = loop {
            tokio::select! {
                biased;
                slot = write.reserve() => break slot,
                Some(stop) = stops.recv(), if !dispatcher.is_stopping() => {
                    // The calls are done.
                    if stop.reason.is_of_hours() {
                        continue;
                    }
                    dispatcher.stop(stop);
                    deadline = Instant::now() + HAND_OVER_TIME;
                }
                // The program that reads the output has stopped reading. The caller notices that.
                () = sleep_until(deadline), if dispatcher.is_stopping() => {
                    return dispatcher.into_stop();
                }
            }
        };
        let Ok(slot) = slot else {
            if !dispatcher.is_stopping() {
                let reason = stops.try_recv().ok();
                dispatcher.stop(reason.unwrap_or_else(Stop::writer_ended));
            }
            break;
        };
        slot.send(message);
    }
    dispatcher.into_stop()
}

/// The state of the engine's loop.
pub(super) struct Dispatcher<'a, S> {
    engine: &'a Engine<S>,
    pub(super) rows: Rows<'a, S>,
    /// How many rows are being scored.
    pub(super) scoring: usize,
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

impl<'a, S: Service> Dispatcher<'a, S> {
    /// A dispatcher before the first row.
    pub(super) fn new(engine: &'a Engine<S>, size: WindowSize) -> Self {
        Self {
            engine,
            rows: Rows::new(engine, size),
            scoring: 0,
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
    /// waits. So a row that comes back from its back-off, for which the output waits, waits only behind rows like itself.
    pub(super) fn start_now(&mut self) -> Option<(RowCall, Permit<'a>)> {
        if !self.is_stopping() {
            let admitted = self.rows.admit_without_call();
            self.stop_if_err(admitted);
        }
        self.rows.check_lease();
        // No row waits for a permit that it may not use.
        if self.needs_permit() {
            let has_calls = self.engine.check_budget();
            self.stop_if_err(has_calls);
        }
        let finished = self.rows.finish_without_calls();
        self.stop_if_err(finished);
        while self.may_start() {
            let permit = self.engine.gate.try_permit()?;
            if let Some(call) = self.start() {
                return Some((call, permit));
            }
        }
        None
    }

    /// The requests to look up now, before their calls, and how many of them to claim at most.
    pub(super) fn claim_now(&mut self) -> Option<(Vec<RequestKey>, usize, Urgency)> {
        if self.is_stopping() {
            return None;
        }
        let claims = self.rows.next_claims();
        self.stop_if_err(claims).flatten()
    }

    /// Whether a row waits for a permit.
    pub(super) fn needs_permit(&self) -> bool {
        !self.is_stopping() && self.rows.may_call()
    }

    /// Whether it may have one, and need not wait for the first verdict.
    pub(super) fn may_start(&self) -> bool {
        self.needs_permit() && self.engine.may_start_beside(self.scoring)
    }

    /// The row to start with a permit, if there still is one.
    pub(super) fn start(&mut self) -> Option<RowCall> {
        if self.is_stopping() {
            return None;
        }
        let finished = self.rows.finish_without_calls();
        self.stop_if_err(finished)?;
        let call = self.rows.next_call();
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

    /// Whether there is room for more rows.
    pub(super) fn wants_rows(&self) -> bool {
        !self.is_stopping() && self.reads && self.rows.wants_rows()
    }

    /// Whether finished rows should be written now.
    pub(super) const fn should_write(&self) -> bool {
        self.writes && self.rows.window.should_write()
    }

    /// When finished rows must be written that are still few.
    pub(super) fn write_at(&self) -> Option<Instant> {
        self.rows.window.write_at().filter(|_| self.writes)
    }

    /// Time has passed in a wait.
    pub(super) fn time_passed(&mut self) {
        self.rows.time = Instant::now();
    }

    /// A row was scored.
    pub(super) fn row_done(&mut self, scored: ScoredRow) {
        self.scoring = self.scoring.saturating_sub(1);
        let done = self.rows.scored(scored);
        self.stop_if_err(done);
    }

    /// Requests have been claimed.
    pub(super) fn claimed(&mut self, claimed: Result<Claimed, Stop>) {
        let done = claimed.and_then(|claimed| self.rows.claimed(claimed));
        self.stop_if_err(done);
    }

    /// The reader's thread sent something; `None` if it ended.
    pub(super) fn read(&mut self, read: Option<Read>) {
        match read {
            Some(Read::Rows(batch)) => self.rows.receive(batch),
            Some(Read::End(end)) => {
                self.reads = false;
                self.engine.events.emit(Event::InputEnded(end));
            }
            Some(Read::Failed(stop)) => self.stop(stop),
            None => self.stop(Stop::internal("the reader's thread ended unexpectedly")),
        }
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
    /// the process may be killed soon. The first reason is kept.
    pub(super) fn stop(&mut self, stop: Stop) {
        let (reason, now) = (stop.reason, Instant::now());
        if reason.is_of_hours() && self.engine.rules.finishes {
            return self.engine.end_calls(reason);
        }
        let events = &self.engine.events;
        if let Some(stopped) = &mut self.stopped {
            // A loss must be reported, whatever stops the run.
            if matches!(reason, CancelReason::Ledger | CancelReason::Output) {
                stopped.stop.error = stopped.stop.error.take().or(stop.error);
            }
            let longest = match reason {
                CancelReason::Interrupted => DRAIN_INTERRUPTED,
                reason if reason.is_urgent() => DRAIN_TERMINATED,
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
        let whole = longest_call.saturating_add(COMMIT_TIME);
        let most = if reason.is_urgent() {
            DRAIN_TERMINATED
        } else {
            whole
        };
        if events.with_counts(|counts| counts.calls.in_flight > 0) {
            let longest = longest_call.min(most);
            events.emit(Event::DrainBegan { reason, longest });
        }
        self.stopped = Some(Stopped {
            stop,
            drain_ends: now + most.min(whole),
        });
    }

    /// Why the run stopped, if it did.
    pub(super) fn into_stop(self) -> Option<Stop> {
        self.stopped.map(|stopped| stopped.stop)
    }
}
