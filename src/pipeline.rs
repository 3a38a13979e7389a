//! The dispatcher: admits rows into a bounded window, runs each row's scoring, hands finished rows on in order.
//!
//! Rows come from the reader's thread in batches and go to the writer's thread in batches; this runs on the one thread
//! that makes calls. It knows neither formats nor HTTP.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::future::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::error::Error;
use crate::event::{CancelReason, Event, Events};
use crate::input::{Batch, Prepared};
use crate::output::Finished;
use crate::pace::Permit;
use crate::row::{Row, RowNumber};
use crate::scorer::{Fate, Scorer};
use crate::service::Service;
use crate::verdict::{Failure, Verdict};

/// What the reader's thread sends. The end is said, not implied: a reader that died must not look like a short file.
#[derive(Debug)]
pub enum Read {
    /// Some rows.
    Rows(Batch),
    /// There are no more.
    End,
    /// The input cannot be read on.
    Failed(Error),
}

/// What the pipeline sends to the writer's thread.
#[derive(Debug)]
pub enum Write {
    /// Finished rows, in input order.
    Rows(Vec<Finished>),
    /// Blank lines after the last row.
    Trailer(Bytes),
}

/// Somebody asks the run to stop early.
#[derive(Debug)]
pub struct Stop {
    /// Why, in a word.
    pub reason: CancelReason,
    /// Why, in full; `None` where the reason says it all.
    pub error: Option<Error>,
}

/// How much may be between reading and writing.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Rows. Much more than the concurrency, so that a row in back-off holds up nobody behind it.
    pub rows: usize,
    /// Bytes of rows and their requests.
    pub bytes: usize,
}

/// The pipeline's ends.
pub struct Channels<'a> {
    /// From the reader's thread.
    pub read: mpsc::Receiver<Read>,
    /// To the writer's thread.
    pub write: mpsc::Sender<Write>,
    /// From signals and the writer's thread. What comes after the pipeline's end is left in it.
    pub stops: &'a mut mpsc::UnboundedReceiver<Stop>,
}

/// Rows that are handed to the writer at once: each hand-over may wake its thread, which costs more than a row.
const WRITE_ROWS: usize = 256;
/// The longest that a finished row waits for company. Far below what a person or a pipe would notice.
const WRITE_DELAY: Duration = Duration::from_millis(5);
/// What calls in flight get to finish after a stop. Kubernetes kills after 30 s, and files must still be synced.
const DRAIN: Duration = Duration::from_secs(20);
/// What the writer then gets to take the last rows.
const HAND_OVER: Duration = Duration::from_secs(5);

/// Runs rows from `channels.read` to `channels.write` until the input ends or somebody stops the run; then finishes
/// what is in flight. Returns why it stopped.
pub async fn run<S: Service>(
    scorer: &Scorer<S>,
    channels: Channels<'_>,
    window: Window,
) -> Option<Stop> {
    let Channels {
        mut read,
        write,
        stops,
    } = channels;
    let mut rows = Rows::new(window, scorer.events.clone());
    let mut running = FuturesUnordered::new();
    let mut stopped: Option<Stop> = None;
    let mut input = Progress::Going;
    let mut output = Progress::Going;
    // Made once and set anew: a timer for each turn of the loop would cost more than a row.
    let mut write_timer = pin!(sleep_until(rows.write_at));
    let mut drain_timer = pin!(sleep_until(rows.write_at));

    loop {
        let going = stopped.is_none();
        if write_timer.deadline() != rows.write_at {
            write_timer.as_mut().reset(rows.write_at);
        }
        let mut wants_permit = going && rows.wants_permit();
        while wants_permit && may_start(scorer, &running) {
            // A row without a permit is data in a queue and not a future that waits; and one that comes back from a
            // back-off, which holds up everybody's order, has nobody but its like before it.
            let Some(Ok(permit)) = scorer.gate.permit().now_or_never() else {
                break;
            };
            running.extend(rows.start().map(|row| score(scorer, row, permit)));
            wants_permit = rows.wants_permit();
        }
        let all_read = input == Progress::Done && rows.waiting.is_empty();
        if running.is_empty() && (all_read || !going) {
            break;
        }
        let stop = tokio::select! {
            Some((number, fate)) = running.next(), if !running.is_empty() => rows.resolve(number, fate),
            Ok(permit) = scorer.gate.permit(), if wants_permit && may_start(scorer, &running) => {
                running.extend(rows.start().map(|row| score(scorer, row, permit)));
                None
            },
            received = read.recv(), if going && input == Progress::Going && rows.wants_rows() => match received {
                Some(Read::Rows(batch)) => {
                    rows.receive(batch);
                    None
                }
                Some(Read::End) => {
                    input = Progress::Done;
                    scorer.events.emit(Event::InputEnded);
                    None
                }
                Some(Read::Failed(error)) => Some(Stop::of_input(error)),
                None => Some(Stop::internal("the reader's thread ended without a word")),
            },
            permit = write.reserve(), if output == Progress::Going && rows.should_write() => {
                if let Ok(permit) = permit {
                    permit.send(Write::Rows(rows.take_ready()));
                    None
                } else {
                    output = Progress::Done;
                    Some(Stop::of_writer(stops))
                }
            },
            () = &mut write_timer, if output == Progress::Going && !rows.ready.is_empty() && !rows.should_write() => {
                rows.overdue = true;
                None
            },
            Some(stop) = stops.recv(), if going => Some(stop),
            () = &mut drain_timer, if !going => {
                running.clear();
                None
            },
        };
        if let Some(stop) = stop
            && stopped.is_none()
        {
            scorer.events.emit(Event::CancelBegan(stop.reason));
            scorer.gate.close();
            drain_timer.as_mut().reset(Instant::now() + DRAIN);
            stopped = Some(stop);
        }
    }
    drop(running);
    // The reader may be blocked on a pipe; once nobody receives, its next batch ends it.
    drop(read);
    hand_over(rows, &write, stops, stopped).await
}

/// Hands what is left to the writer; why the run stopped, also if it does so only now.
async fn hand_over(
    mut rows: Rows,
    write: &mpsc::Sender<Write>,
    stops: &mut mpsc::UnboundedReceiver<Stop>,
    mut stopped: Option<Stop>,
) -> Option<Stop> {
    let mut deadline = Instant::now() + HAND_OVER;
    let mut last = Vec::with_capacity(2);
    let rest = rows.finish();
    if !rest.is_empty() {
        last.push(Write::Rows(rest));
    }
    if stopped.is_none() && !rows.trailer.is_empty() {
        last.push(Write::Trailer(std::mem::take(&mut rows.trailer)));
    }
    for message in last {
        let permit = loop {
            tokio::select! {
                biased;
                permit = write.reserve() => break permit,
                Some(stop) = stops.recv(), if stopped.is_none() => {
                    rows.events.emit(Event::CancelBegan(stop.reason));
                    deadline = Instant::now() + HAND_OVER;
                    stopped = Some(stop);
                }
                // Whoever reads our output has stopped reading: the caller will notice.
                () = sleep_until(deadline), if stopped.is_some() => return stopped,
            }
        };
        if let Ok(permit) = permit {
            permit.send(message);
            continue;
        }
        if stopped.is_none() {
            let stop = Stop::of_writer(stops);
            rows.events.emit(Event::CancelBegan(stop.reason));
            stopped = Some(stop);
        }
        break;
    }
    stopped
}

/// The canary: until the service has given a verdict one row is tried at a time.
fn may_start<S, F>(scorer: &Scorer<S>, running: &FuturesUnordered<F>) -> bool {
    scorer.gate.is_proven() || running.is_empty()
}

async fn score<S: Service>(
    scorer: &Scorer<S>,
    (number, body): (RowNumber, Bytes),
    permit: Permit<'_>,
) -> (RowNumber, Fate) {
    (number, scorer.score(number, body, permit).await)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Going,
    Done,
}

impl Stop {
    /// A writer that fails says why before it goes.
    fn of_writer(stops: &mut mpsc::UnboundedReceiver<Self>) -> Self {
        stops
            .try_recv()
            .unwrap_or_else(|_| Self::internal("the writer's thread ended without a word"))
    }

    fn of_input(error: Error) -> Self {
        let reason = if error.exit() == crate::error::Exit::Stopped {
            CancelReason::InputChanged
        } else {
            CancelReason::Input
        };
        Self {
            reason,
            error: Some(error),
        }
    }

    /// A stop for a bug of ours.
    #[must_use]
    pub fn internal(what: &str) -> Self {
        Self {
            reason: CancelReason::Internal,
            error: Some(Error::internal(what)),
        }
    }
}

/// Rows on their way: waiting for the window, in it, ready to be written.
struct Rows {
    window: Window,
    events: Events,
    /// Read but not admitted.
    waiting: VecDeque<Prepared>,
    /// Admitted, in input order; the first has the number `first`.
    admitted: VecDeque<Slot>,
    first: RowNumber,
    /// Of what is admitted or ready.
    bytes: usize,
    ready: Vec<Finished>,
    ready_bytes: usize,
    write_at: Instant,
    overdue: bool,
    trailer: Bytes,
}

struct Slot {
    row: Row,
    /// What it counts for in the window.
    bytes: usize,
    state: State,
}

enum State {
    Scoring,
    Resolved(Verdict),
    Left,
}

impl Rows {
    fn new(window: Window, events: Events) -> Self {
        Self {
            window,
            events,
            waiting: VecDeque::new(),
            admitted: VecDeque::new(),
            first: RowNumber::FIRST,
            bytes: 0,
            ready: Vec::new(),
            ready_bytes: 0,
            write_at: Instant::now(),
            overdue: false,
            trailer: Bytes::new(),
        }
    }

    fn window_has_room(&self) -> bool {
        self.admitted.len() + self.ready.len() < self.window.rows && self.bytes < self.window.bytes
    }

    fn wants_rows(&self) -> bool {
        self.waiting.is_empty() && self.window_has_room()
    }

    fn receive(&mut self, batch: Batch) {
        self.events.emit(Event::RowsRead {
            rows: batch.rows.len() as u64,
            position: batch.position,
        });
        self.waiting.extend(batch.rows);
        self.trailer = batch.trailer;
    }

    /// Lets rows through that cost no call; whether the next one waits for a permit.
    fn wants_permit(&mut self) -> bool {
        while self.window_has_room() {
            match self.waiting.front() {
                None => return false,
                Some(Prepared { request: Ok(_), .. }) => return true,
                Some(Prepared {
                    request: Err(_), ..
                }) => {}
            }
            if let Some((number, Err(failure))) = self.admit() {
                self.settle(number, Some(Verdict::Failed(failure)));
            }
        }
        false
    }

    /// Admits the row that waits for a permit.
    fn start(&mut self) -> Option<(RowNumber, Bytes)> {
        let (number, request) = self.admit()?;
        Some((number, request.ok()?))
    }

    fn admit(&mut self) -> Option<(RowNumber, Result<Bytes, Failure>)> {
        let Prepared { row, request } = self.waiting.pop_front()?;
        let number = row.number;
        self.events.emit(Event::RowAdmitted(number));
        let bytes = row.raw.len() + request.as_ref().map_or(0, Bytes::len);
        self.bytes += bytes;
        self.admitted.push_back(Slot {
            row,
            bytes,
            state: State::Scoring,
        });
        Some((number, request))
    }

    fn resolve(&mut self, number: RowNumber, fate: Fate) -> Option<Stop> {
        self.settle(number, fate.verdict);
        fate.stop.map(|(reason, error)| Stop {
            reason,
            error: Some(error),
        })
    }

    fn settle(&mut self, number: RowNumber, verdict: Option<Verdict>) {
        let place = number.get() - self.first.get();
        let slot = usize::try_from(place)
            .ok()
            .and_then(|place| self.admitted.get_mut(place));
        if let Some(slot) = slot {
            slot.state = if let Some(verdict) = verdict {
                self.events
                    .emit(Event::RowResolved(number, verdict.outline()));
                // What was captured of an answer can be larger than the row.
                slot.bytes += verdict.bytes();
                self.bytes += verdict.bytes();
                State::Resolved(verdict)
            } else {
                self.events.emit(Event::RowLeft(number));
                State::Left
            };
        }
        self.advance();
    }

    /// Moves what is done at the window's front to what is ready.
    fn advance(&mut self) {
        while self
            .admitted
            .front()
            .is_some_and(|slot| !matches!(slot.state, State::Scoring))
        {
            let Some(slot) = self.admitted.pop_front() else {
                return;
            };
            self.first = self.first.next();
            if let State::Resolved(verdict) = slot.state {
                if self.ready.is_empty() {
                    self.write_at = Instant::now() + WRITE_DELAY;
                }
                self.ready_bytes += slot.bytes;
                self.ready.push(Finished {
                    row: slot.row,
                    verdict,
                });
            } else {
                self.bytes -= slot.bytes;
            }
        }
    }

    fn should_write(&self) -> bool {
        self.ready.len() >= WRITE_ROWS || (self.overdue && !self.ready.is_empty())
    }

    fn take_ready(&mut self) -> Vec<Finished> {
        self.overdue = false;
        self.bytes -= std::mem::take(&mut self.ready_bytes);
        std::mem::take(&mut self.ready)
    }

    /// Everything that is resolved but not yet written; rows that are still without a verdict are left.
    fn finish(&mut self) -> Vec<Finished> {
        for slot in &mut self.admitted {
            if matches!(slot.state, State::Scoring) {
                self.events.emit(Event::RowLeft(slot.row.number));
                slot.state = State::Left;
            }
        }
        self.advance();
        self.take_ready()
    }
}

#[cfg(test)]
mod tests;
