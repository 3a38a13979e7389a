//! What the tests of the engine share: single rows with outlines of how they end, and whole runs with a reader and a writer
//! beside the engine.

pub(super) use std::sync::{Arc, Mutex};
pub(super) use std::time::Duration;

pub(super) use bytes::Bytes;
pub(super) use futures::future::{join, join_all};
pub(super) use tokio::sync::mpsc;
pub(super) use tokio::time::{Instant, sleep, sleep_until};

pub(super) use crate::base::error::{Error, Exit};
pub(super) use crate::engine::after_call::RowCall;
pub(super) use crate::engine::call::ScoredRow;
pub(super) use crate::engine::{Engine, Fixture, Read, Stop, WindowSize, Write, run};
pub(super) use crate::pace::Rate;
pub(super) use crate::row::RowNumber;
pub(super) use crate::row_state::{Row, RowBatch, RowState};
pub(super) use crate::service::scripted::{Scripted, ScriptedResult, Step};
pub(super) use crate::telemetry::counts::{Counts, Events, Observer};
pub(super) use crate::telemetry::event::{CancelReason, Event, InputEnd};
pub(super) use crate::telemetry::pace::FoundLimit;
pub(super) use crate::verdict::{Failure, Reason, Verdict};

use crate::ledger::{LeaseGeneration, LookupResult, RequestKey};
use crate::pace::Closed;
use crate::row::{RawRow, Span};
use crate::service::scripted::MadeCall;

pub(super) const GOOD: Step = ScriptedResult::Verdict.immediately();
pub(super) const SICK: Step = ScriptedResult::Status(500).immediately();
pub(super) const KEY_REFUSED: Step = ScriptedResult::Status(401).immediately();
/// As in `run`.
pub(super) const BATCHES: usize = 2;
pub(super) const WINDOW: WindowSize = WindowSize {
    rows: 1_024,
    bytes: 1024 * 1024,
};

/// Every event with its time.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<(Duration, Event)>>>);

impl Observer for Log {
    fn observe(&mut self, at: Duration, event: &Event, _counts: &Counts) {
        self.0.lock().unwrap().push((at, event.clone()));
    }
}

impl Log {
    pub(super) fn events(&self) -> Vec<(Duration, Event)> {
        self.0.lock().unwrap().clone()
    }

    /// As what an engine tells of itself.
    pub(super) fn stream(&self) -> Events {
        let events = Events::new();
        events.add_observer(self.clone());
        events
    }
}

/// An engine with no limit except for calls in flight.
pub(super) fn engine(concurrency: usize, service: Scripted) -> Engine<Scripted> {
    Fixture::new(service).build_with(|it| it.concurrency = concurrency)
}

/// This service, whose first calls for each of these rows bring this.
pub(super) fn with_rows(
    service: Scripted,
    rows: impl IntoIterator<Item = u64>,
    script: &[Step],
) -> Scripted {
    rows.into_iter()
        .fold(service, |service, row| service.row(row, script.to_vec()))
}

impl Engine<Scripted> {
    /// Scores a row as soon as a call may start.
    pub(super) async fn scored_row(&self, row: u64) -> ScoredRow {
        let number = (1..row).fold(RowNumber::FIRST, |number, _| number.next());
        let call = RowCall {
            row: number,
            body: Scripted::body(row),
            key: RequestKey::of_row(row),
            taken_over: false,
            lease: LeaseGeneration::default(),
        };
        match self.gate.permit().await {
            Ok(permit) => self.score(call, permit).await,
            Err(Closed) => ScoredRow {
                row: number,
                verdict: None,
                stop: None,
            },
        }
    }

    /// The outlines of rows that are scored at the same time.
    pub(super) async fn outlines(&self, rows: impl Iterator<Item = u64>) -> Vec<String> {
        let scored = join_all(rows.map(|row| self.scored_row(row))).await;
        scored.iter().map(ScoredRow::outline).collect()
    }

    pub(super) fn counts(&self) -> Counts {
        self.events().with_counts(Clone::clone)
    }

    /// The calls that were made for a row.
    pub(super) fn calls(&self, row: u64) -> Vec<MadeCall> {
        let made = self.service().made().into_iter();
        made.filter(|made| made.row == row).collect()
    }
}

impl ScoredRow {
    /// The answer's transaction or the failure's reason; `-` for a row that is left. A stop follows after a `!`.
    pub(super) fn outline(&self) -> String {
        let verdict = match &self.verdict {
            Some(Verdict::Scored(answer, _)) => answer.transaction_id.as_str(),
            Some(Verdict::Failed(failure)) => failure.reason.word(),
            None => "-",
        };
        let stop = self.stop.as_ref().map(|stop| {
            let code = stop.error.as_ref().unwrap().exit().code();
            let reason = serde_json::to_value(stop.reason).unwrap();
            format!(" ! {} {code}", reason.as_str().unwrap())
        });
        verdict.to_owned() + &stop.unwrap_or_default()
    }

    /// The report of its stop's error.
    pub(super) fn report(&self) -> String {
        let stop = self.stop.as_ref().unwrap();
        stop.error.as_ref().unwrap().report()
    }
}

/// Asserts the outlines of rows 1, 2, 3 … when they are scored one after the other.
pub(super) async fn assert_outlines(engine: &Engine<Scripted>, expected: &[&str]) {
    let mut scored = Vec::new();
    for row in 1..=expected.len() as u64 {
        scored.push(engine.scored_row(row).await.outline());
    }
    assert_eq!(scored, expected);
    assert_eq!(engine.counts().calls.in_flight, 0);
}

/// Scores rows one after the other until the run stops. Returns the outlines of all.
pub(super) async fn until_stopped(engine: &Engine<Scripted>) -> Vec<String> {
    let mut outlines = Vec::new();
    for row in 1.. {
        let scored = engine.scored_row(row).await;
        outlines.push(scored.outline());
        if scored.stop.is_some() {
            break;
        }
    }
    outlines
}

pub(super) const ROW_BYTES: usize = 50;

/// What is asked about this row.
pub(super) fn request(row: u64) -> RowState {
    RowState::Waiting {
        body: Scripted::body(row),
        key: RequestKey::of_row(row),
        found: LookupResult::default(),
    }
}

/// What rows 1, 2, 3 … ask; those whose number is in `invalid` ask nothing.
pub(super) fn asked(rows: u64, invalid: &[u64]) -> Vec<RowState> {
    let ask = |row| {
        if invalid.contains(&row) {
            RowState::Invalid(Failure::new(Reason::MissingName, "no name"))
        } else {
            request(row)
        }
    };
    (1..=rows).map(ask).collect()
}

/// The messages of a reader: rows 1, 2, 3 … that ask this, in batches of these sizes in turn, and the end.
pub(super) fn batches(asked: Vec<RowState>, sizes: &[usize]) -> Vec<Read> {
    let mut number = RowNumber::FIRST;
    let mut rows = Vec::new();
    for state in asked {
        let raw = RawRow {
            bytes: Bytes::from(vec![b'x'; ROW_BYTES]),
            content: Span::new(0, ROW_BYTES),
            ..RawRow::default()
        };
        rows.push(Row { number, raw, state });
        number = number.next();
    }
    let mut rows = rows.into_iter().peekable();
    let mut sizes = sizes.iter().cycle();
    let mut messages = Vec::new();
    while rows.peek().is_some() {
        let size = sizes.next().copied().unwrap_or(128);
        messages.push(Read::Rows(RowBatch {
            noticed: crate::fields::Noticed::default(),
            quality: Vec::new(),
            rows: rows.by_ref().take(size).collect(),
            position: 0,
            trailer: Bytes::new(),
        }));
    }
    messages.push(Read::End(InputEnd::Whole));
    messages
}

/// The reader and the writer of a run, and its window.
pub(super) struct Surroundings {
    pub(super) read: Vec<Read>,
    /// How many messages the reader may be ahead.
    pub(super) read_ahead: usize,
    pub(super) read_delay: Duration,
    pub(super) write_delay: Duration,
    /// The writer ends after this number of rows; whether it gives a reason.
    pub(super) writer_ends: Option<(usize, bool)>,
    pub(super) window: WindowSize,
}

impl Surroundings {
    pub(super) fn of(read: Vec<Read>) -> Self {
        Self {
            read,
            read_ahead: BATCHES,
            read_delay: Duration::ZERO,
            write_delay: Duration::ZERO,
            writer_ends: None,
            window: WINDOW,
        }
    }

    /// This number of rows, in batches of the usual size.
    pub(super) fn rows(rows: u64) -> Self {
        Self::of(batches(asked(rows, &[]), &[]))
    }
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct RunEnd {
    pub(super) stop: Option<Stop>,
    pub(super) written: Vec<Row>,
    /// How many rows each hand-over to the writer had.
    pub(super) hand_overs: Vec<usize>,
    pub(super) trailer: Bytes,
    pub(super) elapsed: Duration,
    pub(super) counts: Counts,
}

impl RunEnd {
    pub(super) fn rows(&self) -> Vec<u64> {
        let rows = self.written.iter();
        rows.map(|row| row.number.get()).collect()
    }

    /// Why it stopped.
    pub(super) fn reason(&self) -> Option<CancelReason> {
        self.stop.as_ref().map(|stop| stop.reason)
    }
}

pub(super) async fn run_to_end(engine: &Engine<Scripted>, around: Surroundings) -> RunEnd {
    run_with(engine, around, std::future::pending()).await
}

/// Runs to the end; a signal comes when `interrupt` is done.
pub(super) async fn run_with(
    engine: &Engine<Scripted>,
    around: Surroundings,
    interrupt: impl Future<Output = ()>,
) -> RunEnd {
    let signals = async |stops: mpsc::UnboundedSender<Stop>| {
        interrupt.await;
        signal(&stops, CancelReason::Interrupted);
    };
    run_signalled(engine, around, signals).await
}

/// Sends a signal.
pub(super) fn signal(stops: &mpsc::UnboundedSender<Stop>, reason: CancelReason) {
    let error = None;
    let _ = stops.send(Stop { reason, error });
}

/// Runs to the end; `signals` may ask for stops. The counts of any run add up, unless the writer dies without a word.
#[allow(clippy::too_many_lines, reason = "it is the whole run, in its order")]
pub(super) async fn run_signalled(
    engine: &Engine<Scripted>,
    around: Surroundings,
    signals: impl AsyncFnOnce(mpsc::UnboundedSender<Stop>),
) -> RunEnd {
    let Surroundings {
        read,
        read_ahead,
        read_delay,
        write_delay,
        mut writer_ends,
        window,
    } = around;
    let adds_up = writer_ends.is_none_or(|(_, gives_reason)| gives_reason);
    let began = Instant::now();
    let (read_sender, read_receiver) = mpsc::channel(read_ahead);
    let (write_sender, mut write_receiver) = mpsc::channel(BATCHES);
    let (stop_sender, mut stops) = mpsc::unbounded_channel();
    let reader = async move {
        for message in read {
            pause(read_delay).await;
            if read_sender.send(message).await.is_err() {
                return;
            }
        }
    };
    let writer_stops = stop_sender.clone();
    let events = engine.events();
    let writer = async move {
        let (mut written, mut hand_overs, mut trailer) = (Vec::new(), Vec::new(), Bytes::new());
        while let Some(message) = write_receiver.recv().await {
            pause(write_delay).await;
            match message {
                Write::Rows(finished) => {
                    if let Some((rows, gives_reason)) =
                        writer_ends.take_if(|(rows, _)| written.len() + finished.len() > *rows)
                    {
                        if gives_reason {
                            events.emit(Event::OutputFailed);
                            let error = Error::stopped(format!("disk full at {rows}"));
                            let _ = writer_stops.send(Stop::new(CancelReason::Output, error));
                        }
                        break;
                    }
                    hand_overs.push(finished.len());
                    let rows = finished.len() as u64;
                    events.emit(Event::RowsWritten { rows });
                    written.extend(finished);
                }
                Write::Trailer(bytes) => trailer = bytes,
            }
        }
        (written, hand_overs, trailer)
    };
    let running = async {
        let stop = run(engine, window, read_receiver, write_sender, &mut stops).await;
        (stop, began.elapsed())
    };
    let interrupt = async {
        signals(stop_sender).await;
        // The channel for stops stays open as long as the run lasts.
        std::future::pending::<()>().await;
    };
    let all = async { tokio::join!(running, reader, writer) };
    let ((stop, elapsed), (), (written, hand_overs, trailer)) = tokio::select! {
        ended = all => ended,
        () = interrupt => unreachable!("it waits for ever"),
    };
    // As `commands::run` does with a stop that comes after the end of the run.
    let late = stops.try_recv().ok().filter(|_| stop.is_none());
    if let Some(late) = &late {
        events.emit(Event::CancelBegan(late.reason));
    }
    if adds_up {
        assert_eq!(events.with_counts(Counts::check_invariants), Ok(()));
    }
    RunEnd {
        stop: stop.or(late),
        written,
        hand_overs,
        trailer,
        elapsed,
        counts: engine.counts(),
    }
}

/// Waits until the statistics of a run are like this. What a ledger's thread does takes no time on the paused clock, which
/// runs on meanwhile: nothing is to be concluded from how late it is then.
pub(super) async fn until(engine: &Engine<Scripted>, are_so: impl Fn(&Counts) -> bool) {
    while !engine.events().with_counts(&are_so) {
        sleep(Duration::from_millis(10)).await;
    }
}

/// As [`until`], while the paused clock stands still: for what needs the ledger's thread and no time.
pub(super) async fn until_in_no_time(engine: &Engine<Scripted>, are_so: impl Fn(&Counts) -> bool) {
    while !engine.events().with_counts(&are_so) {
        // A clock that is paused advances only while nothing is to be done here.
        std::thread::yield_now();
        tokio::task::yield_now().await;
    }
}

/// Sleeps, unless the time is zero: that would still wait for the timer's next tick.
async fn pause(length: Duration) {
    if !length.is_zero() {
        sleep(length).await;
    }
}

/// The most rows that were in the window. The writer runs within the same instant, so only the ends of instants count.
pub(super) fn most_in_window(log: &[(Duration, Event)]) -> usize {
    let (mut inside, mut most, mut last) = (0, 0, Duration::ZERO);
    for (at, event) in log {
        if *at > last {
            most = most.max(inside);
            last = *at;
        }
        inside = passed(inside, event);
    }
    most
}

/// How many rows are in the window after this event.
pub(super) fn passed(inside: usize, event: &Event) -> usize {
    match event {
        Event::RowAdmitted(_) => inside + 1,
        Event::RowLeft(_) => inside - 1,
        Event::RowsWritten { rows, .. } => inside - usize::try_from(*rows).unwrap(),
        _ => inside,
    }
}
