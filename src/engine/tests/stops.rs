//! Every way of stopping early: paid answers are kept, the invariants hold, and the first reason stays the reason.

use super::harness::*;

#[tokio::test(start_paused = true)]
async fn a_stop_while_all_rows_back_off_takes_no_time() {
    let log = Log::default();
    let engine = engine(8, &log, Scripted::new(SICK).row(1, [GOOD]));
    let all_back_off = async {
        while engine
            .events()
            .with_counts(|counts| counts.calls.sent < 6 || counts.calls.in_flight > 0)
        {
            tokio::task::yield_now().await;
        }
    };
    let around = Surroundings::of(batches(asked(6, &[]), &[2]));
    let ran = run_with(&engine, around, all_back_off).await;
    assert_eq!(ran.stop.unwrap().reason, CancelReason::Interrupted);
    assert_eq!(ran.elapsed, Duration::ZERO);
    assert_eq!(ran.written.len(), 1);
    assert_eq!(
        engine.events().with_counts(|counts| counts.rows.unfinished),
        5
    );
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_all_calls_pause_takes_no_time() {
    let log = Log::default();
    let throttle = [ScriptedResult::RetryAfter(429, "600").after(20)];
    let service = Scripted::new(ScriptedResult::Verdict.after(20)).row(2, throttle);
    let engine = engine(8, &log, service);
    let around = Surroundings::of(batches(asked(100, &[]), &[100]));
    let ran = run_with(&engine, around, sleep(Duration::from_secs(60))).await;
    assert_eq!(ran.elapsed.as_secs(), 60);
    let left = engine.events().with_counts(|counts| counts.rows.unfinished);
    assert_eq!(
        (ran.written.len(), left),
        (8, 1 + 16),
        "those in flight with the refused one are written, and twice as many as may be in flight were claimed"
    );
    assert_invariants(&engine);
}

/// The first row is answered immediately, the second never, the others after this number of seconds.
fn slow(seconds: u64) -> Scripted {
    Scripted::new(ScriptedResult::Verdict.after(seconds * 1_000))
        .row(1, [GOOD])
        .row(2, [ScriptedResult::Stall.immediately()])
}

/// Runs nine rows; each of these signals comes this number of seconds after the start.
async fn signalled(engine: &Engine<Scripted>, signals: &[(u64, CancelReason)]) -> RunEnd {
    let around = Surroundings::of(batches(asked(9, &[]), &[9]));
    let began = Instant::now();
    let send = async |stops: mpsc::UnboundedSender<Stop>| {
        for (second, reason) in signals {
            sleep_until(began + Duration::from_secs(*second)).await;
            signal(&stops, *reason);
        }
    };
    run_signalled(engine, around, send).await
}

/// Whether calls that were still out `seconds` after the start were given up then.
fn given_up_after(ran: &RunEnd, seconds: u64) -> bool {
    // A timer may fire up to a millisecond late.
    ran.elapsed.as_secs() == seconds
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_a_call_gets_as_long_as_a_call_may_take() {
    let log = Log::default();
    let engine = engine(2, &log, slow(29));
    let ran = signalled(&engine, &[(1, CancelReason::Interrupted)]).await;
    assert_eq!(ran.rows(), [1, 3], "row 3 was in flight and got its time");
    // 30 s, and 10 s for what is on its way to the disk by then.
    assert!(given_up_after(&ran, 1 + 30 + 10), "{:?}", ran.elapsed);
    let counts = engine.events().with_counts(Clone::clone);
    assert_eq!(
        (
            counts.rows.unfinished,
            counts.calls.unknown_outcome,
            counts.calls.in_flight
        ),
        (1 + 4, 1, 0),
        "what was not admitted is not left, it was never there"
    );
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn when_no_more_calls_are_allowed_those_in_flight_are_not_given_up() {
    let log = Log::default();
    let service = Scripted::new(ScriptedResult::Verdict.after(29_000)).row(1, [GOOD]);
    let engine = fixture(8, &log, service)
        .max_calls(std::num::NonZeroU64::new(5))
        .build();
    let ran = signalled(&engine, &[]).await;
    assert_eq!(ran.stop.as_ref().unwrap().reason, CancelReason::MaxCalls);
    assert_eq!(ran.rows(), [1, 2, 3, 4, 5], "all that is paid for");
    assert_eq!(ran.elapsed.as_secs(), 29);
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_service_manager_waits_less_than_a_call_may_take() {
    let log = Log::default();
    let engine = engine(2, &log, slow(19));
    let ran = signalled(&engine, &[(1, CancelReason::Terminated)]).await;
    assert_eq!(ran.rows(), [1, 3]);
    assert!(given_up_after(&ran, 1 + 20), "{:?}", ran.elapsed);
    assert!(engine.events().with_counts(|counts| counts.terminated));
    assert_invariants(&engine);
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
        let engine = engine(3, &log, service);
        let ran = signalled(&engine, &[(second, signal)]).await;
        let stopped = ran.stop.as_ref().unwrap();
        assert_eq!(stopped.reason, Refused, "the first reason stays the reason");
        let what = format!("{signal:?} at {second}: {:?}", ran.elapsed);
        assert!(given_up_after(&ran, ends), "{what}");
        let reported = drains(&log);
        assert_eq!(
            reported,
            [(1, Refused, 30), (second, signal, left)],
            "{what}"
        );
        let terminated = engine.events().with_counts(|counts| counts.terminated);
        assert_eq!(terminated, signal == Terminated);
        assert_invariants(&engine);
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_reason_to_stop_does_not_replace_the_first() {
    let log = Log::default();
    let service = Scripted::new(ScriptedResult::Status(401).after(5_000)).row(1, [GOOD]);
    let engine = engine(4, &log, service);
    let around = Surroundings::of(batches(asked(9, &[]), &[9]));
    let ran = run_with(&engine, around, sleep(Duration::from_secs(1))).await;
    assert_eq!(ran.stop.unwrap().reason, CancelReason::Interrupted);
    assert_eq!(ran.elapsed.as_secs(), 5);
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_stops_the_run_and_finishes_what_is_in_flight() {
    let log = Log::default();
    let service = Scripted::new(ScriptedResult::Verdict.after(3_000))
        .row(1, [GOOD])
        .row(3, [ScriptedResult::Status(401).after(10)]);
    let engine = engine(4, &log, service);
    let around = Surroundings::of(batches(asked(90, &[]), &[9]));
    let ran = run_to_end(&engine, around).await;
    assert_eq!(ran.stop.as_ref().unwrap().reason, CancelReason::Refused);
    assert_eq!(ran.rows(), [1, 2, 4, 5]);
    assert_eq!(engine.service().made().len(), 5);
    assert_invariants(&engine);
}

/// A run of good rows whose writer ends while more rows wait for it.
async fn writer_ends(gives_reason: bool) -> (Engine<Scripted>, Stop) {
    let service = Scripted::new(ScriptedResult::Verdict.after(10));
    let engine = engine(4, &Log::default(), service);
    let around = Surroundings {
        write_delay: Duration::from_secs(1),
        writer_ends: Some((1, gives_reason)),
        ..Surroundings::of(batches(asked(5_000, &[]), &[128]))
    };
    let ran = run_to_end(&engine, around).await;
    let calls = engine.service().made().len();
    assert!(
        calls < 2_048,
        "{calls} calls: rows that cannot be written are not paid for"
    );
    (engine, ran.stop.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_ends_stops_the_run_with_its_reason() {
    // Its reason and its end may be noticed in either order.
    for _ in 0..20 {
        let (engine, stop) = writer_ends(true).await;
        assert_eq!(stop.reason, CancelReason::Output);
        assert_eq!(stop.error.unwrap().to_string(), "disk full at 1");
        assert_invariants(&engine);
    }
    let (_, stop) = writer_ends(false).await;
    assert_eq!(stop.reason, CancelReason::Internal);
    assert_eq!(stop.error.unwrap().exit(), Exit::Internal);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_ends_after_a_stop_breaks_no_invariant() {
    let log = Log::default();
    let service = Scripted::new(ScriptedResult::Verdict.after(5_000)).row(1, [GOOD]);
    let engine = engine(4, &log, service);
    let around = Surroundings {
        writer_ends: Some((1, true)),
        ..Surroundings::of(batches(asked(9, &[]), &[9]))
    };
    let ran = run_with(&engine, around, sleep(Duration::from_secs(1))).await;
    assert_eq!(ran.rows(), [1]);
    assert!(ran.stop.is_some());
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_ends_with_the_last_rows_leaves_its_reason_to_the_caller() {
    let engine = engine(4, &Log::default(), Scripted::new(GOOD));
    let around = Surroundings {
        writer_ends: Some((0, true)),
        ..Surroundings::of(batches(asked(9, &[]), &[9]))
    };
    let ran = run_to_end(&engine, around).await;
    let stop = ran.stop.or(ran.late).unwrap();
    assert_eq!(stop.reason, CancelReason::Output);
    // As `commands::run` does with a late stop.
    engine.events().emit(Event::CancelBegan(stop.reason));
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_ends_without_a_message_is_an_internal_error() {
    let log = Log::default();
    let engine = engine(4, &log, Scripted::new(GOOD));
    let mut read = batches(asked(9, &[]), &[9]);
    read.pop();
    let ran = run_to_end(&engine, Surroundings::of(read)).await;
    let stop = ran.stop.unwrap();
    assert_eq!(stop.reason, CancelReason::Internal);
    assert_eq!(stop.error.unwrap().exit(), Exit::Internal);
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn an_input_that_breaks_stops_the_run_and_keeps_the_rows_before() {
    for (error, reason) in [
        (Error::usage("a quote is never closed"), CancelReason::Input),
        (Error::stopped("it changed"), CancelReason::InputChanged),
    ] {
        let log = Log::default();
        let engine = engine(4, &log, Scripted::new(ScriptedResult::Verdict.after(10)));
        let mut read = batches(asked(9, &[]), &[9]);
        *read.last_mut().unwrap() = Read::Failed(Stop::of_input(error));
        let mut around = Surroundings::of(read);
        around.read_delay = Duration::from_secs(1);
        let ran = run_to_end(&engine, around).await;
        assert_eq!(ran.stop.as_ref().unwrap().reason, reason);
        assert_eq!(ran.rows().len(), 9);
        assert_invariants(&engine);
    }
}
