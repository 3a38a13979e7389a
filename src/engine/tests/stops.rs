//! Every way of stopping early: paid answers are kept, and the first reason stays the reason.

use std::num::NonZeroU64;

use super::harness::*;
use crate::base::numbers::Tolerance;
use crate::ledger::{Budget, LedgerWriter, Per};

#[tokio::test(start_paused = true)]
async fn a_stop_while_nothing_is_in_flight_takes_no_time() {
    // All rows back off, or the service asked for a pause. How many calls are sent by then, and how many rows are left.
    let pause = ScriptedResult::RetryAfter(429, "600").immediately();
    for (service, sent, left) in [
        (Scripted::new(SICK).row(1, [GOOD]), 6, 5),
        (Scripted::new(GOOD).row(1, [pause]), 1, 2),
    ] {
        let engine = engine(8, service);
        let none_is_out = async {
            let is_so = |counts: &Counts| (counts.calls.sent, counts.calls.in_flight) == (sent, 0);
            until_in_no_time(&engine, is_so).await;
        };
        let ran = run_with(&engine, Surroundings::rows(6), none_is_out).await;
        assert_eq!(ran.reason(), Some(CancelReason::Interrupted));
        assert_eq!(ran.elapsed, Duration::ZERO);
        assert_eq!(ran.counts.rows.unfinished, left);
    }
}

/// The first row is answered immediately, the second never, the others after this number of seconds.
fn slow(seconds: u64) -> Scripted {
    Scripted::new(ScriptedResult::Verdict.after(seconds * 1_000))
        .row(1, [GOOD])
        .row(2, [ScriptedResult::Stall.immediately()])
}

/// Runs nine rows; each of these signals comes this number of seconds after the start.
async fn signalled(engine: &Engine<Scripted>, signals: &[(u64, CancelReason)]) -> RunEnd {
    let began = Instant::now();
    let send = async |stops: mpsc::UnboundedSender<Stop>| {
        for (second, reason) in signals {
            sleep_until(began + Duration::from_secs(*second)).await;
            signal(&stops, *reason);
        }
    };
    run_signalled(engine, Surroundings::rows(9), send).await
}

#[tokio::test(start_paused = true)]
async fn a_call_gets_as_long_as_it_may_take_unless_a_service_manager_waits() {
    // 30 s, and 10 s for what is on its way to the disk by then; Kubernetes kills after 30 s.
    for (seconds, reason, ends) in [
        (29, CancelReason::Interrupted, 1 + 30 + 10),
        (19, CancelReason::Terminated, 1 + 20),
    ] {
        let engine = engine(2, slow(seconds));
        let ran = signalled(&engine, &[(1, reason)]).await;
        assert_eq!(ran.rows(), [1, 3], "row 3 was in flight and got its time");
        assert_eq!(ran.elapsed.as_secs(), ends, "{reason:?}");
        let counts = ran.counts;
        assert_eq!(counts.state.terminated, reason == CancelReason::Terminated);
        let calls = (counts.calls.unknown_outcome, counts.calls.in_flight);
        // One was claimed; what was not admitted is not left, it was never there.
        assert_eq!((calls, counts.rows.unfinished), ((1, 0), 1 + 1));
    }
}

/// The drains that were reported: when, why, and how long.
fn drains(log: &Log) -> Vec<(u64, CancelReason, u64)> {
    let events = log.events().into_iter();
    let drains = events.filter_map(|(at, event)| match event {
        Event::DrainBegan { reason, longest } => Some((at.as_secs(), reason, longest.as_secs())),
        _ => None,
    });
    drains.collect()
}

#[tokio::test(start_paused = true)]
async fn a_signal_cuts_a_drain_short_that_something_else_had_started() {
    use CancelReason::{Interrupted, Refused, Terminated};
    // Row 3 stops the run at second 1; the signal comes at second 10, or at 28 when 13 s are left.
    for (second, signal, ends, left) in [
        (10, Interrupted, 15, 5),
        (10, Terminated, 30, 20),
        (28, Interrupted, 33, 5),
        (28, Terminated, 41, 13),
    ] {
        let log = Log::default();
        let service = slow(20).row(3, [ScriptedResult::Status(401).after(1_000)]);
        let engine = Fixture::new(service).build_with(|it| {
            it.concurrency = 3;
            it.events = log.stream();
        });
        let ran = signalled(&engine, &[(second, signal)]).await;
        assert_eq!(
            ran.reason(),
            Some(Refused),
            "the first reason stays the reason"
        );
        assert_eq!(ran.elapsed.as_secs(), ends, "{signal:?} at {second}");
        let reported = [(1, Refused, 30), (second, signal, left)];
        assert_eq!(drains(&log), reported);
        assert_eq!(ran.counts.state.terminated, signal == Terminated);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_at_a_stop_is_finished_and_no_row_starts_after_it() {
    let late = || Scripted::new(ScriptedResult::Verdict.after(29_000)).row(1, [GOOD]);
    let refused = late().row(3, [ScriptedResult::Status(401).after(10)]);
    let five = Budget::calls(NonZeroU64::new(5).unwrap(), Per::Run);
    for (service, limits, reason, rows) in [
        (
            late(),
            vec![five],
            CancelReason::MaxCalls,
            &[1, 2, 3, 4, 5][..],
        ),
        (refused, vec![], CancelReason::Refused, &[1, 2, 4, 5]),
    ] {
        let engine = Fixture::new(service).build_with(|it| {
            it.concurrency = 4;
            it.ledger = LedgerWriter::in_memory(limits);
        });
        let ran = run_to_end(&engine, Surroundings::rows(90)).await;
        assert_eq!((ran.reason(), &*ran.rows()), (Some(reason), rows));
        assert_eq!(engine.service().made().len(), 5);
        assert_eq!(ran.elapsed.as_secs(), 29);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_call_left_waits_neither_for_a_permit_nor_for_a_back_off() {
    let late = ScriptedResult::RetryAfter(429, "60").immediately();
    for service in [Scripted::new(GOOD), Scripted::new(GOOD).row(1, [late])] {
        let engine = Fixture::new(service).build_with(|it| {
            it.rate = "4/h".parse().unwrap();
            let one = Budget::calls(NonZeroU64::MIN, Per::Run);
            it.ledger = LedgerWriter::in_memory(vec![one]);
        });
        let ran = run_to_end(&engine, Surroundings::rows(3)).await;
        assert_eq!(ran.reason(), Some(CancelReason::MaxCalls));
        assert_eq!(
            (engine.service().made().len(), ran.elapsed.as_secs()),
            (1, 0)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_stops_exactly_at_its_limit_of_failures() {
    let engine = Fixture::new(Scripted::new(GOOD))
        .build_with(|it| it.max_failures = Some(Tolerance::Rows(3)));
    let read = batches(asked(9, &[1, 2, 3, 4, 5]), &[]);
    let ran = run_to_end(&engine, Surroundings::of(read)).await;
    assert_eq!(ran.reason(), Some(CancelReason::MaxFailures));
    assert_eq!((ran.rows(), ran.counts.rows.resolved), (vec![1, 2, 3], 3));
    assert!(engine.service().made().is_empty());
}

/// A run of rows of 10 ms, whose writer takes a second for a batch, and ends after this number of rows.
async fn writer_ends(rows: usize, of: u64, gives_reason: bool) -> RunEnd {
    let engine = engine(4, Scripted::new(ScriptedResult::Verdict.after(10)));
    let around = Surroundings {
        write_delay: Duration::from_secs(1),
        writer_ends: Some((rows, gives_reason)),
        ..Surroundings::rows(of)
    };
    let ran = run_to_end(&engine, around).await;
    let calls = engine.service().made().len();
    assert!(
        calls < 2_048,
        "{calls} calls: rows that cannot be written are not paid for"
    );
    ran
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_ends_stops_the_run_with_its_reason() {
    // Amid rows, when its reason and its end may be noticed in either order, and with the last rows.
    for of in [2_100, 2_100, 2_100, 9] {
        let stop = writer_ends(1, of, true).await.stop.unwrap();
        assert_eq!(stop.reason, CancelReason::Output);
        assert_eq!(stop.error.unwrap().to_string(), "disk full at 1");
    }
    let stop = writer_ends(1, 2_100, false).await.stop.unwrap();
    assert_eq!(stop.error.unwrap().exit(), Exit::Internal);
}

#[tokio::test(start_paused = true)]
async fn a_loss_after_a_stop_is_reported_beside_the_first_reason() {
    let service = Scripted::new(ScriptedResult::Verdict.after(5_000)).row(1, [GOOD]);
    let engine = engine(4, service);
    let around = Surroundings {
        writer_ends: Some((1, true)),
        ..Surroundings::rows(9)
    };
    let signals = async |stops: mpsc::UnboundedSender<Stop>| {
        sleep(Duration::from_secs(1)).await;
        signal(&stops, CancelReason::Interrupted);
        let lost = Stop::new(CancelReason::Ledger, Error::stopped("disk full"));
        stops.send(lost).unwrap();
    };
    let ran = run_signalled(&engine, around, signals).await;
    assert_eq!(ran.rows(), [1]);
    let stop = ran.stop.unwrap();
    assert_eq!(stop.reason, CancelReason::Interrupted);
    assert_eq!(stop.error.unwrap().to_string(), "disk full");
}

#[tokio::test(start_paused = true)]
async fn an_input_that_breaks_stops_the_run_and_keeps_the_rows_before() {
    use CancelReason::{Input, InputChanged, Internal};
    let broken = |error| Some(Read::Failed(Stop::of_input(error)));
    let unclosed = broken(Error::usage("a quote is never closed"));
    let changed = broken(Error::stopped("it changed"));
    // A reader that died must not look like a short file.
    for (end, reason, rows) in [
        (unclosed, Input, 9),
        (changed, InputChanged, 9),
        (None, Internal, 0),
    ] {
        let engine = engine(4, Scripted::new(ScriptedResult::Verdict.after(10)));
        let mut around = Surroundings::rows(9);
        around.read.pop();
        if let Some(end) = end {
            around.read.push(end);
            around.read_delay = Duration::from_secs(1);
        }
        let ran = run_to_end(&engine, around).await;
        assert_eq!(ran.reason(), Some(reason));
        assert!(ran.rows().len() >= rows, "{:?}", ran.rows());
    }
}

#[tokio::test(start_paused = true)]
async fn refused_rows_count_in_the_order_in_which_their_calls_end() {
    // Row 2 has its verdict just before or just after the hundredth refusal, with one other call in flight at a time.
    for (late, refused) in [(995, 99 + 100), (1_005, 100)] {
        let service = Scripted::new(ScriptedResult::Status(422).after(10))
            .row(1, [GOOD])
            .row(2, [ScriptedResult::Verdict.after(late)]);
        let engine = engine(2, service);
        let ran = run_to_end(&engine, Surroundings::rows(1_000)).await;
        assert_eq!(ran.reason(), Some(CancelReason::NoVerdicts));
        // At most one more was in flight.
        let failed = ran.counts.failed.rows;
        assert!(
            (refused..=refused + 1).contains(&failed),
            "{late}: {failed}"
        );
        assert_eq!(ran.counts.scored(), 2, "what was in flight is kept");
    }
}
