//! Tests of the dispatcher: order, bounds, the law and every way of stopping, with a scripted service on a paused clock
//! and a reader and a writer that run beside it. Nothing here sleeps in real time.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod any_case;
mod bursts;
mod ledger;

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use tokio::time::sleep;

use super::*;
use crate::error::Exit;
use crate::event::Observer;
use crate::event::{Events, Limit};
use crate::ledger::Found;
use crate::pace::{Bounds, CallBudget, FailureBudget, Fuse, Gate, Rate, RetryPolicy};
use crate::row::{Earlier, Row, Span};
use crate::scorer::{Keyring, Outage, Patience};
use crate::service::scripted::{Brings, Scripted, Step};
use crate::stats::Stats;
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
                    found: Found::default(),
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
        interrupt.await;
        let _ = stop_sender.send(Stop {
            reason: CancelReason::Interrupted,
            error: None,
        });
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
    assert_eq!(scorer.events.with_stats(Stats::check_law), Ok(()));
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
async fn a_stop_while_all_rows_back_off_ends_at_once() {
    let log = Log::default();
    let scorer = scorer(8, Rate::Unlimited, &log, Scripted::new(SICK).row(1, [GOOD]));
    let all_back_off = async {
        while scorer
            .events
            .with_stats(|stats| stats.calls < 6 || stats.in_flight > 0)
        {
            tokio::task::yield_now().await;
        }
    };
    let around = Surroundings::of(batches(prepared(6, &[]), &[2]));
    let ran = run_with(&scorer, around, all_back_off).await;
    assert_eq!(ran.stop.unwrap().reason, CancelReason::Interrupted);
    assert_eq!(ran.elapsed, Duration::ZERO);
    assert_eq!(ran.written.len(), 1);
    assert_eq!(scorer.events.with_stats(|stats| stats.left), 5);
    assert_law(&scorer);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_everybody_pauses_ends_at_once() {
    let log = Log::default();
    let throttle = [Brings::RetryAfter(429, "600").after(20)];
    let service = Scripted::new(Brings::Verdict.after(20)).row(2, throttle);
    let scorer = scorer(8, Rate::Unlimited, &log, service);
    let around = Surroundings::of(batches(prepared(100, &[]), &[100]));
    let ran = run_with(&scorer, around, sleep(Duration::from_secs(60))).await;
    assert_eq!(ran.elapsed.as_secs(), 60);
    let left = scorer.events.with_stats(|stats| stats.left);
    assert_eq!(
        (ran.written.len(), left),
        (8, 1),
        "those in flight with the refused one are written"
    );
    assert_law(&scorer);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_stalls_is_given_up_some_time_after_the_stop() {
    let log = Log::default();
    let service = Scripted::new(Brings::Verdict.after(15_000))
        .row(1, [GOOD])
        .row(2, [Brings::Stall.at_once()]);
    let scorer = scorer(2, Rate::Unlimited, &log, service);
    let around = Surroundings::of(batches(prepared(9, &[]), &[9]));
    let ran = run_with(&scorer, around, sleep(Duration::from_secs(1))).await;
    assert_eq!(ran.elapsed.as_secs(), 1 + DRAIN.as_secs());
    assert_eq!(ran.rows(), [1, 3], "row 3 was in flight and got its time");
    let stats = scorer.events.with_stats(Clone::clone);
    assert_eq!(
        (stats.left, stats.unknown_outcome, stats.in_flight),
        (1, 1, 0),
        "what was not admitted is not left, it was never there"
    );
    assert_law(&scorer);
}

#[tokio::test(start_paused = true)]
async fn a_second_reason_to_stop_does_not_replace_the_first() {
    let log = Log::default();
    let service = Scripted::new(Brings::Status(401).after(5_000)).row(1, [GOOD]);
    let scorer = scorer(4, Rate::Unlimited, &log, service);
    let around = Surroundings::of(batches(prepared(9, &[]), &[9]));
    let ran = run_with(&scorer, around, sleep(Duration::from_secs(1))).await;
    assert_eq!(ran.stop.unwrap().reason, CancelReason::Interrupted);
    assert_eq!(ran.elapsed.as_secs(), 5);
    assert_law(&scorer);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_stops_the_run_and_finishes_what_is_in_flight() {
    let log = Log::default();
    let service = Scripted::new(Brings::Verdict.after(3_000))
        .row(1, [GOOD])
        .row(3, [Brings::Status(401).after(10)]);
    let scorer = scorer(4, Rate::Unlimited, &log, service);
    let around = Surroundings::of(batches(prepared(90, &[]), &[9]));
    let ran = run_to_end(&scorer, around).await;
    assert_eq!(ran.stop.as_ref().unwrap().reason, CancelReason::Refused);
    assert_eq!(ran.rows(), [1, 2, 4, 5]);
    assert_eq!(scorer.service.made().len(), 5);
    assert_law(&scorer);
}

/// A run of good rows whose writer goes while more rows wait for it.
async fn writer_goes(says_why: bool) -> (Scorer<Scripted>, Stop) {
    let service = Scripted::new(Brings::Verdict.after(10));
    let scorer = scorer(4, Rate::Unlimited, &Log::default(), service);
    let around = Surroundings {
        write_delay: Duration::from_secs(1),
        writer_goes: Some((1, says_why)),
        ..Surroundings::of(batches(prepared(5_000, &[]), &[128]))
    };
    let ran = run_to_end(&scorer, around).await;
    let calls = scorer.service.made().len();
    assert!(calls < 2_048, "{calls} calls: nothing is paid for in vain");
    (scorer, ran.stop.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_goes_ends_the_run_with_its_reason() {
    // Its word and its going may be noticed in either order.
    for _ in 0..20 {
        let (scorer, stop) = writer_goes(true).await;
        assert_eq!(stop.reason, CancelReason::Output);
        assert_eq!(stop.error.unwrap().to_string(), "disk full at 1");
        assert_law(&scorer);
    }
    let (_, stop) = writer_goes(false).await;
    assert_eq!(stop.reason, CancelReason::Internal);
    assert_eq!(stop.error.unwrap().exit(), Exit::Internal);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_goes_after_a_stop_breaks_no_law() {
    let log = Log::default();
    let service = Scripted::new(Brings::Verdict.after(5_000)).row(1, [GOOD]);
    let scorer = scorer(4, Rate::Unlimited, &log, service);
    let around = Surroundings {
        writer_goes: Some((1, true)),
        ..Surroundings::of(batches(prepared(9, &[]), &[9]))
    };
    let ran = run_with(&scorer, around, sleep(Duration::from_secs(1))).await;
    assert_eq!(ran.rows(), [1]);
    assert!(ran.stop.is_some());
    assert_law(&scorer);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_goes_with_the_last_rows_leaves_its_reason_to_the_caller() {
    let scorer = scorer(4, Rate::Unlimited, &Log::default(), Scripted::new(GOOD));
    let around = Surroundings {
        writer_goes: Some((0, true)),
        ..Surroundings::of(batches(prepared(9, &[]), &[9]))
    };
    let ran = run_to_end(&scorer, around).await;
    let stop = ran.stop.or(ran.late).unwrap();
    assert_eq!(stop.reason, CancelReason::Output);
    // As `run` does with a late stop.
    scorer.events.emit(Event::CancelBegan(stop.reason));
    assert_law(&scorer);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_ends_without_a_word_is_an_internal_error() {
    let log = Log::default();
    let scorer = scorer(4, Rate::Unlimited, &log, Scripted::new(GOOD));
    let mut read = batches(prepared(9, &[]), &[9]);
    read.pop();
    let ran = run_to_end(&scorer, Surroundings::of(read)).await;
    let stop = ran.stop.unwrap();
    assert_eq!(stop.reason, CancelReason::Internal);
    assert_eq!(stop.error.unwrap().exit(), Exit::Internal);
    assert_law(&scorer);
}

#[tokio::test(start_paused = true)]
async fn an_input_that_breaks_stops_the_run_and_keeps_what_was_asked() {
    for (error, reason) in [
        (Error::usage("a quote is never closed"), CancelReason::Input),
        (Error::stopped("it changed"), CancelReason::InputChanged),
    ] {
        let log = Log::default();
        let scorer = scorer(
            4,
            Rate::Unlimited,
            &log,
            Scripted::new(Brings::Verdict.after(10)),
        );
        let mut read = batches(prepared(9, &[]), &[9]);
        *read.last_mut().unwrap() = Read::Failed(Stop::of_input(error));
        let mut around = Surroundings::of(read);
        around.read_delay = Duration::from_secs(1);
        let ran = run_to_end(&scorer, around).await;
        assert_eq!(ran.stop.as_ref().unwrap().reason, reason);
        assert_eq!(ran.rows().len(), 9);
        assert_law(&scorer);
    }
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

/// A run over so many rows, and what was counted.
async fn run_over(rows: u64, scorer: &Scorer<Scripted>) -> (Ran, Stats) {
    let read = batches(prepared(rows, &[]), &[usize::try_from(rows).unwrap()]);
    let ran = run_to_end(scorer, Surroundings::of(read)).await;
    assert_law(scorer);
    let stats = scorer.events.with_stats(Clone::clone);
    (ran, stats)
}

/// A run over a hundred good rows, so many over which the service always fails, and `further` good ones.
async fn run_over_poison(poison: u64, further: u64, log: &Log) -> (Ran, Stats) {
    let service = (101..=100 + poison).fold(Scripted::new(GOOD), |service, row| {
        service.row(row, [Brings::Status(500).after(10); 9])
    });
    let scorer = scorer(8, Rate::Unlimited, log, service);
    run_over(100 + poison + further, &scorer).await
}

#[tokio::test(start_paused = true)]
async fn rows_that_always_fail_at_the_end_of_a_file_are_no_outage() {
    for (poison, longest) in [(3, 60), (6, 60), (9, 60), (10, 330), (12, 330), (30, 360)] {
        let log = Log::default();
        let (ran, stats) = run_over_poison(poison, 0, &log).await;
        assert!(ran.stop.is_none(), "{poison} rows");
        let came = (stats.scored(), stats.failures());
        assert_eq!(came, (100, poison), "{poison} rows");
        let longest = Duration::from_secs(longest);
        assert!(ran.elapsed < longest, "{poison} rows: {:?}", ran.elapsed);
        assert_eq!((stats.outages, stats.outage), (0, None), "{poison} rows");
        let in_vain = stats.waited_in_vain >= Duration::from_secs(300);
        assert_eq!(in_vain, poison >= 10, "{:?}", stats.waited_in_vain);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_always_fail_amid_good_ones_are_passed() {
    for poison in [9, 10, 30, 80] {
        let log = Log::default();
        let (ran, stats) = run_over_poison(poison, 100, &log).await;
        assert!(ran.stop.is_none(), "{poison} rows");
        let came = (stats.scored(), stats.failures());
        assert_eq!(came, (200, poison), "{poison} rows");
        assert_eq!(stats.waited_in_vain, Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_only_fails_in_the_midst_of_a_file_is_waited_for_and_costs_no_row() {
    let service = Scripted::new(Brings::Status(500).after(10));
    let service = (1..=100).fold(service, |service, row| service.row(row, [GOOD]));
    let log = Log::default();
    let scorer = scorer(8, Rate::Unlimited, &log, service);
    let read = batches(prepared(10_000, &[]), &[500; 20]);
    let ran = run_to_end(&scorer, Surroundings::of(read)).await;
    let stop = ran.stop.as_ref().unwrap();
    assert_eq!(stop.reason, CancelReason::Unavailable);
    let stats = scorer.events.with_stats(Clone::clone);
    assert_eq!((stats.scored(), stats.failures()), (100, 0));
    // Those that showed it, those in flight beside them, and six a minute.
    assert!(stats.calls < 100 + 10 + 8 + 95, "{}", stats.calls);
    assert!((900..920).contains(&ran.elapsed.as_secs()));
    assert_law(&scorer);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_for_minutes_costs_no_row() {
    let service = (101..=140).fold(Scripted::new(GOOD), |service, row| {
        service.row(row, [Brings::Status(500).after(10)])
    });
    let log = Log::default();
    let scorer = scorer(8, Rate::Unlimited, &log, service);
    let read = batches(prepared(1_000, &[]), &[1_000]);
    let ran = run_to_end(&scorer, Surroundings::of(read)).await;
    assert!(ran.stop.is_none());
    let stats = scorer.events.with_stats(Clone::clone);
    assert_eq!((stats.scored(), stats.outages), (1_000, 1));
    assert!(stats.down > Duration::from_secs(180), "{:?}", stats.down);
    assert_law(&scorer);
}

/// A run over so many rows that goes on from an earlier one, to a service that fails over each.
async fn run_over_nothing_but_failures(rows: u64) -> (Ran, Stats) {
    let log = Log::default();
    let service = Scripted::new(Brings::Status(500).after(10));
    let scorer = scorer(8, Rate::Unlimited, &log, service);
    scorer.fuse.borrow_mut().worked_before();
    run_over(rows, &scorer).await
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_tells_an_outage_from_a_few_rows_without_a_verdict_of_its_own() {
    let (ran, stats) = run_over_nothing_but_failures(1_000).await;
    assert_eq!(ran.stop.unwrap().reason, CancelReason::Unavailable);
    // One row after the other until ten have failed.
    assert_eq!((stats.failures(), stats.left >= 91), (9, true));
    assert!((900..1_000).contains(&ran.elapsed.as_secs()));

    for few in [9, 12, 30] {
        let (ran, stats) = run_over_nothing_but_failures(few).await;
        assert!(ran.stop.is_none(), "{few} rows");
        assert_eq!((stats.failures(), stats.outages), (few, 0));
        assert!(ran.elapsed < Duration::from_secs(360), "{:?}", ran.elapsed);
    }
}
