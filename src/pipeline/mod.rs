//! The dispatcher: admits rows into a bounded window, runs each row's scoring, hands finished rows on in order.
//!
//! Rows come from the reader's thread in batches and go to the writer's thread in batches; this runs on the one thread
//! that makes calls. It knows neither formats nor HTTP.

mod drain;
mod rows;

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use futures::future::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::base::error::Error;
use crate::output::Finished;
use crate::pace::{Newcomers, Permit};
use crate::row::RowNumber;
use crate::scorer::{Fate, Scorer};
use crate::service::Service;
use crate::telemetry::event::{CancelReason, Event};
use drain::Drain;
use rows::{Rows, Start};

pub(crate) use rows::{Ask, Batch, Request};

/// What the reader's thread sends. The end is said, not implied: a reader that died must not look like a short file.
#[derive(Debug)]
pub(crate) enum Read {
    /// Some rows.
    Rows(Batch),
    /// There are no more.
    End,
    /// The input cannot be read on, or nothing looked up.
    Failed(Stop),
}

/// What the pipeline sends to the writer's thread.
#[derive(Debug)]
pub(crate) enum Write {
    /// Finished rows, in input order.
    Rows(Vec<Finished>),
    /// Blank lines after the last row.
    Trailer(Bytes),
}

/// Somebody asks the run to stop early.
#[derive(Debug)]
pub(crate) struct Stop {
    /// Why, in a word.
    pub(crate) reason: CancelReason,
    /// Why, in full; `None` where the reason says it all.
    pub(crate) error: Option<Error>,
}

/// How much may be between reading and writing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Rows. Much more than the concurrency, so that a row in back-off holds up nobody behind it.
    pub(crate) rows: usize,
    /// Bytes of rows and their requests.
    pub(crate) bytes: usize,
}

/// The pipeline's ends.
pub(crate) struct Channels<'a> {
    /// From the reader's thread.
    pub(crate) read: mpsc::Receiver<Read>,
    /// To the writer's thread.
    pub(crate) write: mpsc::Sender<Write>,
    /// From signals and the writer's thread. What comes after the pipeline's end is left in it.
    pub(crate) stops: &'a mut mpsc::UnboundedReceiver<Stop>,
}

/// Calls that begin before the connections' tasks get their turn and send them. Answers that come together would
/// otherwise have all their next calls go out together, and so come together again, each time waiting for one another:
/// with 64 in flight at 20 ms that made 94.8 % of what is possible, and this makes 96. With four, more is lost where the
/// service answers at once than is gained at 20 ms.
const STARTS: usize = 8;
/// Rows that are handed to the writer at once: each hand-over may wake its thread, which costs more than a row.
const WRITE_ROWS: usize = 256;
/// The longest that a finished row waits for company. Far below what a person or a pipe would notice.
const WRITE_DELAY: Duration = Duration::from_millis(5);
/// What the writer gets to take the last rows once no call is out any more.
const HAND_OVER: Duration = Duration::from_secs(4);

/// Runs rows from `channels.read` to `channels.write` until the input ends or somebody stops the run; then finishes
/// what is in flight. Returns why it stopped.
pub(crate) async fn run<S: Service>(
    scorer: &Scorer<S>,
    channels: Channels<'_>,
    window: Window,
) -> Option<Stop> {
    let Channels {
        mut read,
        write,
        stops,
    } = channels;
    let mut rows = Rows::new(window, scorer);
    let mut running = FuturesUnordered::new();
    let mut stopped: Option<Stop> = None;
    let (mut input, mut output, mut starts) = (Progress::Going, Progress::Going, 0);
    // Made once and set anew: a timer for each turn of the loop would cost more than a row.
    let mut write_timer = pin!(sleep_until(rows.write_at()));
    let mut drain_timer = pin!(sleep_until(rows.write_at()));

    loop {
        rows.time_passed();
        let going = stopped.is_none();
        set(write_timer.as_mut(), rows.write_at());
        let mut wants_permit = going && rows.wants_permit();
        while wants_permit && starts < STARTS && may_start(scorer, &running) {
            // A row without a permit is data in a queue and not a future that waits; and one that comes back from a
            // back-off, which holds up everybody's order, has nobody but its like before it.
            let Some(permit) = scorer.gate.permit_at_once() else {
                break;
            };
            if !rows.still_wants_permit() {
                wants_permit = false;
                break;
            }
            if let Some(start) = rows.start() {
                running.push(score(scorer, start, permit));
            }
            starts += 1;
            wants_permit = rows.wants_permit();
        }
        if going && let Some(stop) = rows.take_stop() {
            stopped = Some(cancel(scorer, stop, drain_timer.as_mut()));
            continue;
        }
        let all_read = input == Progress::Done && !rows.has_waiting();
        if running.is_empty() && (all_read || !going) {
            break;
        }
        let may_start = wants_permit && may_start(scorer, &running);
        scorer.gate.set_newcomers(newcomers(may_start, all_read));
        let stop = tokio::select! {
            Some(done) = running.next(), if !running.is_empty() => resolve(&mut rows, &mut running, done),
            () = all_sent(&mut starts), if may_start && starts == STARTS => None,
            Ok(permit) = scorer.gate.permit(), if may_start && starts < STARTS => {
                // It may have waited for minutes: another run may have asked meanwhile.
                rows.time_passed();
                if rows.still_wants_permit() && let Some(start) = rows.start() {
                    running.push(score(scorer, start, permit));
                }
                None
            },
            () = scorer.gate.goes_down(), if wants_permit && !may_start => None,
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
                Some(Read::Failed(stop)) => Some(stop),
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
            () = &mut write_timer, if output == Progress::Going && rows.has_ready() && !rows.should_write() => {
                rows.time_is_up();
                None
            },
            Some(stop) = stops.recv() => Some(stop),
            () = &mut drain_timer, if !going => {
                running.clear();
                None
            },
        };
        match (stop, &mut stopped) {
            (None, _) => {}
            (Some(stop), None) => {
                stopped = Some(cancel(scorer, stop, drain_timer.as_mut()));
            }
            (Some(stop), Some(first)) => again(scorer, stop, first, drain_timer.as_mut()),
        }
    }
    drop(running);
    // The reader may be blocked on a pipe; once nobody receives, its next batch ends it.
    drop(read);
    hand_over(scorer, rows, &write, stops, stopped).await
}

/// Hands what is left to the writer; why the run stopped, also if it does so only now.
async fn hand_over<S>(
    scorer: &Scorer<S>,
    mut rows: Rows<'_, S>,
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
    let trailer = rows.take_trailer();
    if stopped.is_none() && !trailer.is_empty() {
        last.push(Write::Trailer(trailer));
    }
    for message in last {
        let permit = loop {
            tokio::select! {
                biased;
                permit = write.reserve() => break permit,
                Some(stop) = stops.recv(), if stopped.is_none() => {
                    scorer.events.emit(Event::CancelBegan(stop.reason));
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
            scorer.events.emit(Event::CancelBegan(stop.reason));
            stopped = Some(stop);
        }
        break;
    }
    stopped
}

/// Tells that the run stops, lets no call begin any more and sets the end for those that are out.
fn cancel<S: Service>(scorer: &Scorer<S>, stop: Stop, drain_timer: Pin<&mut Sleep>) -> Stop {
    scorer.events.emit(Event::CancelBegan(stop.reason));
    scorer.gate.close();
    let drain = Drain::of(stop.reason, scorer.service.longest_call());
    drain_timer.reset(drain.ends);
    if scorer.events.with_stats(|stats| stats.in_flight > 0) {
        scorer.events.emit(Event::DrainBegan {
            reason: stop.reason,
            longest: drain.calls,
        });
    }
    stop
}

/// There is one more reason to stop while calls finish. The first one stays the reason.
fn again<S>(scorer: &Scorer<S>, stop: Stop, first: &mut Stop, drain_timer: Pin<&mut Sleep>) {
    let Stop { reason, error } = stop;
    // What is lost must be told, whatever the run stops for.
    if matches!(reason, CancelReason::Ledger | CancelReason::Output) {
        first.error = first.error.take().or(error);
    }
    if let Some(drain) = Drain::hurried(reason, drain_timer.deadline()) {
        drain_timer.reset(drain.ends);
        scorer.events.emit(Event::DrainBegan {
            reason,
            longest: drain.calls,
        });
    }
}

/// The canary: until the service has given a verdict one row is tried at a time. While it is taken to be down there is one
/// call at a time anyhow, and a row that has not asked yet says most.
fn may_start<S, F>(scorer: &Scorer<S>, running: &FuturesUnordered<F>) -> bool {
    scorer.gate.is_proven() || running.is_empty() || scorer.gate.is_down()
}

/// Whether there are rows that have not asked yet.
const fn newcomers(waiting: bool, all_read: bool) -> Newcomers {
    match (waiting, all_read) {
        (true, _) => Newcomers::Waiting,
        (false, false) => Newcomers::Possible,
        (false, true) => Newcomers::None,
    }
}

/// The connections have had their turn: what has begun is sent.
async fn all_sent(starts: &mut usize) {
    yield_now().await;
    *starts = 0;
}

/// Sets a timer, where it is not set so already.
fn set(timer: Pin<&mut Sleep>, at: Instant) {
    if timer.deadline() != at {
        timer.reset(at);
    }
}

fn score<'a, S: Service>(
    scorer: &'a Scorer<S>,
    Start { number, body, key }: Start,
    permit: Permit<'a>,
) -> impl Future<Output = (RowNumber, Fate)> {
    let fate = scorer.score(number, body, key, permit);
    fate.map(move |fate| (number, fate))
}

/// Resolves the row that is done, and whoever else is by now: to look at everything else in between would cost more
/// than a row. Ends early when the run must stop.
fn resolve<S, F: Future<Output = (RowNumber, Fate)>>(
    rows: &mut Rows<'_, S>,
    running: &mut FuturesUnordered<F>,
    (number, fate): (RowNumber, Fate),
) -> Option<Stop> {
    rows.time_passed();
    let mut stop = rows.resolve(number, fate);
    while stop.is_none()
        && let Some(Some((number, fate))) = running.next().now_or_never()
    {
        stop = rows.resolve(number, fate);
    }
    stop
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

    /// The stop for an input that cannot be read on.
    #[must_use]
    pub(crate) fn of_input(error: Error) -> Self {
        let reason = if error.exit() == crate::base::error::Exit::Stopped {
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
    pub(crate) fn internal(what: &str) -> Self {
        Self {
            reason: CancelReason::Internal,
            error: Some(Error::internal(what)),
        }
    }
}

#[cfg(test)]
mod tests;
