//! Tests of the dispatcher: order, bounds and the law, with a scripted service on a paused clock and a reader and a writer
//! that run beside it. Nothing here sleeps in real time. How runs stop early, outages and bursts have files of their own.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod any_case;
mod bursts;
mod ledger;
mod outage;
mod stops;

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use tokio::time::sleep;

use super::*;
use crate::base::error::Exit;
use crate::ledger::LookupResult;
use crate::pace::{Bounds, CallBudget, FailureBudget, Fuse, Gate, Rate, RetryPolicy};
use crate::row::{Earlier, Row, Span};
use crate::scorer::{Keyring, Outage, Patience};
use crate::service::scripted::{Brings, Scripted, Step};
use crate::telemetry::event::Limit;
use crate::telemetry::hub::Events;
use crate::telemetry::hub::Observer;
use crate::telemetry::stats::Stats;
use crate::verdict::{DecisionPolicy, Failure, Reason, Verdict};

const GOOD: Step = Brings::Verdict.at_once();
const SICK: Step = Brings::Status(500).at_once();
/// As `run` has it.
const BATCHES: usize = 2;
const RETRIES: u32 = 4;
const WINDOW: Window = Window {
    rows: 1_024,
    bytes: 1024 * 1024,
};

/// Every event with its time.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Duration, Event)>>>);

impl Observer for Log {
    fn observe(&mut self, at: Duration, event: &Event, _stats: &Stats) {
        self.0.lock().unwrap().push((at, event.clone()));
    }
}

impl Log {
    fn events(&self) -> Vec<(Duration, Event)> {
        self.0.lock().unwrap().clone()
    }
}

fn scorer(concurrency: usize, rate: Rate, log: &Log, service: Scripted) -> Scorer<Scripted> {
    Scorer {
        service,
        gate: Gate::new(
            Bounds {
                rate,
                in_flight: concurrency.try_into().unwrap(),
                known: Limit::NONE,
                outage: Patience::DEFAULT.outage,
            },
            fastrand::Rng::with_seed(7),
        ),
        patience: Patience::DEFAULT,
        retries: RetryPolicy::new(RETRIES, 1),
        outage: Outage::default(),
        fuse: RefCell::new(Fuse::default()),
        calls: CallBudget::new(None),
        failures: FailureBudget::default(),
        keeper: None,
        keys: Keyring::default(),
        transactions: RefCell::default(),
        absent: RefCell::default(),
        policy: DecisionPolicy::default(),
        columns: Box::default(),
        host: "scripted.test".to_owned(),
        events: Events::new(vec![Box::new(log.clone())]),
    }
}

const ROW_BYTES: usize = 50;

/// Rows 1, 2, 3 …; those whose number is in `invalid` have no request.
fn prepared(rows: u64, invalid: &[u64]) -> Vec<Ask> {
    let mut number = RowNumber::FIRST;
    let mut prepared = Vec::new();
    for row in 1..=rows {
        prepared.push(Ask {
            row: Row {
                number,
                raw: Bytes::from(vec![b'x'; ROW_BYTES]),
                content: Span::new(0, ROW_BYTES),
                existing: Box::default(),
                earlier: Earlier::default(),
            },
            request: if invalid.contains(&row) {
                Err(Failure::new(Reason::MissingName, "no name"))
            } else {
                Ok(Request {
                    body: Scripted::body(row),
                    key: None,
                    found: LookupResult::default(),
                })
            },
        });
        number = number.next();
    }
    prepared
}

fn batches(rows: Vec<Ask>, sizes: &[usize]) -> Vec<Read> {
    let mut rows = rows.into_iter().peekable();
    let mut sizes = sizes.iter().cycle();
    let mut messages = Vec::new();
    while rows.peek().is_some() {
        let size = sizes.next().copied().unwrap_or(128);
        messages.push(Read::Rows(Batch {
            rows: rows.by_ref().take(size).collect(),
            position: 0,
            trailer: Bytes::new(),
        }));
    }
    messages.push(Read::End);
    messages
}

/// What surrounds a run.
struct Surroundings {
    read: Vec<Read>,
    read_delay: Duration,
    write_delay: Duration,
    /// The writer goes after so many rows; whether it says why.
    writer_goes: Option<(usize, bool)>,
    window: Window,
}

impl Surroundings {
    fn of(read: Vec<Read>) -> Self {
        Self {
            read,
            read_delay: Duration::ZERO,
            write_delay: Duration::ZERO,
            writer_goes: None,
            window: WINDOW,
        }
    }
}

/// What came of a run.
#[derive(Debug)]
struct Ran {
    stop: Option<Stop>,
    written: Vec<Finished>,
    /// Rows of each hand-over to the writer.
    hand_overs: Vec<usize>,
    trailer: Bytes,
    elapsed: Duration,
    /// A stop that came when the run was over.
    late: Option<Stop>,
}

impl Ran {
    fn rows(&self) -> Vec<u64> {
        let rows = self.written.iter();
        rows.map(|finished| finished.row.number.get()).collect()
    }
}

/// Runs until the end; `interrupt` asks for a stop when it is done.
async fn run_with(
    scorer: &Scorer<Scripted>,
    around: Surroundings,
    interrupt: impl Future<Output = ()>,
) -> Ran {
    let signals = async |stops: mpsc::UnboundedSender<Stop>| {
        interrupt.await;
        signal(&stops, CancelReason::Interrupted);
    };
    run_signalled(scorer, around, signals).await
}

/// A signal comes.
fn signal(stops: &mpsc::UnboundedSender<Stop>, reason: CancelReason) {
    let error = None;
    let _ = stops.send(Stop { reason, error });
}

/// Runs until the end; `signals` stop it as they like.
async fn run_signalled(
    scorer: &Scorer<Scripted>,
    around: Surroundings,
    signals: impl AsyncFnOnce(mpsc::UnboundedSender<Stop>),
) -> Ran {
    let Surroundings {
        read,
        read_delay,
        write_delay,
        mut writer_goes,
        window,
    } = around;
    let began = Instant::now();
    let (read_sender, read_receiver) = mpsc::channel(BATCHES);
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
    let writer = async move {
        let (mut written, mut hand_overs, mut trailer) = (Vec::new(), Vec::new(), Bytes::new());
        while let Some(message) = write_receiver.recv().await {
            pause(write_delay).await;
            match message {
                Write::Rows(finished) => {
                    if let Some((rows, says_why)) =
                        writer_goes.take_if(|(rows, _)| written.len() + finished.len() > *rows)
                    {
                        if says_why {
                            scorer.events.emit(Event::OutputFailed);
                            let error = Some(Error::stopped(format!("disk full at {rows}")));
                            let reason = CancelReason::Output;
                            let _ = writer_stops.send(Stop { reason, error });
                        }
                        break;
                    }
                    hand_overs.push(finished.len());
                    scorer.events.emit(Event::RowsWritten {
                        rows: finished.len() as u64,
                    });
                    written.extend(finished);
                }
                Write::Trailer(bytes) => trailer = bytes,
            }
        }
        (written, hand_overs, trailer)
    };
    let pipeline = async {
        let channels = Channels {
            read: read_receiver,
            write: write_sender,
            stops: &mut stops,
        };
        let stop = run(scorer, channels, window).await;
        (stop, began.elapsed())
    };
    let interrupt = async {
        signals(stop_sender).await;
        // Others may stop the run for as long as it lasts.
        std::future::pending::<()>().await;
    };
    let all = async { tokio::join!(pipeline, reader, writer) };
    let ((stop, elapsed), (), (written, hand_overs, trailer)) = tokio::select! {
        ended = all => ended,
        () = interrupt => unreachable!("it waits for ever"),
    };
    Ran {
        stop,
        written,
        hand_overs,
        trailer,
        elapsed,
        late: stops.try_recv().ok(),
    }
}

async fn run_to_end(scorer: &Scorer<Scripted>, around: Surroundings) -> Ran {
    run_with(scorer, around, std::future::pending()).await
}

/// Sleeps, but not at all for nothing: a sleep of zero still waits for the timer's next tick.
async fn pause(length: Duration) {
    if !length.is_zero() {
        sleep(length).await;
    }
}

fn assert_law(scorer: &Scorer<Scripted>) {
    assert_eq!(scorer.events.with_stats(Stats::check_invariants), Ok(()));
}

/// Rows that were in the window at most. The writer's turn comes within the instant, so only instants' ends count.
fn most_in_window(log: &[(Duration, Event)]) -> usize {
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

fn passed(inside: usize, event: &Event) -> usize {
    match event {
        Event::RowAdmitted(_) => inside + 1,
        Event::RowLeft(_) => inside - 1,
        Event::RowsWritten { rows, .. } => inside - usize::try_from(*rows).unwrap(),
        _ => inside,
    }
}

/// The design's simulated time: 2,000 rows of 100 ms, 8 at once, and 1 in 100 backs off four times, 4 s in all.
async fn simulated_time(window: usize) -> Duration {
    let good = Brings::Verdict.after(100);
    let sick = [Brings::Status(500).after(100); 4];
    let slow = (50..2_000).step_by(100);
    let service = slow.fold(Scripted::new(good), |service, row| service.row(row, sick));
    let log = Log::default();
    let scorer = scorer(8, Rate::Unlimited, &log, service);
    let mut around = Surroundings::of(batches(prepared(2_000, &[]), &[128]));
    around.window.rows = window;
    let ran = run_to_end(&scorer, around).await;
    assert!(ran.stop.is_none());
    assert_eq!(ran.rows().len(), 2_000);
    assert_eq!(scorer.events.with_stats(Stats::scored), 2_000);
    assert_law(&scorer);
    ran.elapsed
}

#[tokio::test(start_paused = true)]
async fn a_window_beyond_the_concurrency_hides_back_offs() {
    let (narrow, wide) = (simulated_time(8).await, simulated_time(1_024).await);
    assert!(
        wide < Duration::from_secs(30),
        "{wide:?}; the floor is 26 s"
    );
    assert!(narrow > 2 * wide, "{narrow:?} and {wide:?}");
}

#[tokio::test(start_paused = true)]
async fn one_row_is_tried_until_the_first_verdict() {
    let trouble = [
        Brings::Status(500).after(1_000),
        Brings::Status(502).after(1_000),
    ];
    let service = Scripted::new(Brings::Verdict.after(1_000))
        .row(1, [Brings::Status(422).after(1_000)])
        .row(2, trouble);
    let log = Log::default();
    let scorer = scorer(8, Rate::Unlimited, &log, service);
    let ran = run_to_end(&scorer, Surroundings::of(batches(prepared(9, &[]), &[9]))).await;
    assert_eq!(ran.rows(), (1..=9).collect::<Vec<_>>());
    assert_eq!(scorer.service.rows(), [1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9]);
    let calls = scorer.service.made();
    for pair in calls[..4].windows(2) {
        assert!(pair[1].began >= pair[0].ended.unwrap(), "{pair:?}");
    }
    let verdict = calls[3].ended.unwrap();
    assert!(calls[4..].iter().all(|call| call.began == verdict));
    assert_eq!(scorer.service.most_in_flight(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_slow_row_holds_the_window_to_its_bound() {
    // The first row is the canary, so the slow one is the second.
    let service = Scripted::new(Brings::Verdict.after(1)).row(2, [Brings::Verdict.after(60_000)]);
    let log = Log::default();
    let scorer = scorer(8, Rate::Unlimited, &log, service);
    let around = Surroundings::of(batches(prepared(10_002, &[]), &[128]));
    let ran = run_to_end(&scorer, around).await;
    assert_eq!(ran.rows(), (1..=10_002).collect::<Vec<_>>());
    assert_eq!(most_in_window(&log.events()), 1_024);
    let minute = Duration::from_secs(60);
    let made = scorer.service.made();
    let early = made.iter().filter(|made| made.began < minute).count();
    assert_eq!(early, 1_025, "the canary and a window full");
    assert!(ran.elapsed < Duration::from_secs(65), "{:?}", ran.elapsed);
    assert_law(&scorer);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_stalls_holds_the_windows_bytes_to_their_bound() {
    let log = Log::default();
    let scorer = scorer(8, Rate::Unlimited, &log, Scripted::new(GOOD));
    let around = Surroundings {
        write_delay: Duration::from_secs(3_600),
        window: Window {
            rows: 1_024,
            bytes: 10 * ROW_BYTES,
        },
        ..Surroundings::of(batches(prepared(500, &[]), &[20]))
    };
    run_to_end(&scorer, around).await;
    let admitted = log
        .events()
        .iter()
        .take_while(|(_, event)| !matches!(event, Event::RowsWritten { .. }))
        .filter(|(_, event)| matches!(event, Event::RowAdmitted(_)))
        .count();
    // One window's worth in the window, in each place of the channel and in the writer's hands.
    let most = (1 + BATCHES + 1) * 10;
    assert!(admitted <= most, "{admitted} rows instead of {most}");
    assert_law(&scorer);
}

#[tokio::test(start_paused = true)]
async fn a_finished_row_is_written_while_the_reader_waits() {
    let log = Log::default();
    let scorer = scorer(4, Rate::Unlimited, &log, Scripted::new(GOOD));
    let mut around = Surroundings::of(batches(prepared(2, &[]), &[1]));
    around.read_delay = Duration::from_secs(60);
    let ran = run_to_end(&scorer, around).await;
    assert_eq!(ran.hand_overs, [1, 1]);
    let events = log.events();
    let written = |(_, event): &&(Duration, Event)| matches!(event, Event::RowsWritten { .. });
    let first = events.iter().find(written).unwrap().0;
    assert!(first < Duration::from_millis(60_020), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn blank_lines_after_the_last_row_are_written_unless_the_run_stopped() {
    for (row, trailer) in [(GOOD, "\n\n"), (Brings::Status(401).at_once(), "")] {
        let log = Log::default();
        let scorer = scorer(4, Rate::Unlimited, &log, Scripted::new(row));
        let mut read = batches(prepared(3, &[2]), &[3]);
        if let Some(Read::Rows(batch)) = read.first_mut() {
            batch.trailer = Bytes::from_static(b"\n\n");
        }
        let ran = run_to_end(&scorer, Surroundings::of(read)).await;
        assert_eq!(ran.trailer, trailer);
        assert_law(&scorer);
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_input_is_a_whole_run() {
    let log = Log::default();
    let scorer = scorer(4, Rate::Unlimited, &log, Scripted::new(GOOD));
    let ran = run_to_end(&scorer, Surroundings::of(vec![Read::End])).await;
    assert!(ran.stop.is_none() && ran.written.is_empty());
    assert_eq!(scorer.events.with_stats(Stats::exit), Exit::Complete);
    assert_law(&scorer);
}
