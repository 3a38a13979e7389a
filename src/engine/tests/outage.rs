//! A service that is down, and rows over which it always fails: how they are told apart, and what each costs.

use super::harness::*;

/// A run over this number of rows, and its counters.
async fn run_over(rows: u64, engine: &Engine<Scripted>) -> (RunEnd, Counts) {
    let read = batches(asked(rows, &[]), &[usize::try_from(rows).unwrap()]);
    let ran = run_to_end(engine, Surroundings::of(read)).await;
    assert_invariants(engine);
    let counts = engine.events().with_counts(Clone::clone);
    (ran, counts)
}

/// A run over a hundred good rows, some over which the service always fails, and `further` good ones.
async fn run_over_failing_rows(failing: u64, further: u64, log: &Log) -> (RunEnd, Counts) {
    let service = (101..=100 + failing).fold(Scripted::new(GOOD), |service, row| {
        service.row(row, [ScriptedResult::Status(500).after(10); 200])
    });
    let engine = engine(8, log, service);
    run_over(100 + failing + further, &engine).await
}

#[tokio::test(start_paused = true)]
async fn rows_that_always_fail_at_the_end_of_a_file_are_not_an_outage() {
    for (failing, longest) in [(3, 60), (6, 60), (9, 60), (10, 330), (12, 330), (30, 360)] {
        let log = Log::default();
        let (ran, counts) = run_over_failing_rows(failing, 0, &log).await;
        assert!(ran.stop.is_none(), "{failing} rows");
        let came = (counts.scored(), counts.failed.rows);
        assert_eq!(came, (100, failing), "{failing} rows");
        let longest = Duration::from_secs(longest);
        assert!(ran.elapsed < longest, "{failing} rows: {:?}", ran.elapsed);
        assert_eq!((counts.outages, counts.outage), (0, None), "{failing} rows");
        let is_waited = counts.paused >= Duration::from_secs(300);
        assert_eq!(is_waited, failing >= 10, "{:?}", counts.paused);
    }
}

#[tokio::test(start_paused = true)]
async fn the_only_row_left_to_probe_an_outage_is_tried_ever_more_rarely() {
    // The last row of a file, and the last row of a pipe that stays silent for an hour.
    for (read_delay, expected) in [(0, 9), (3_600, 18)] {
        let log = Log::default();
        let service = Scripted::new(ScriptedResult::Status(500).after(10));
        let service = (1..=100).fold(service, |service, row| service.row(row, [GOOD]));
        // Rows 101 to 110 show an outage, and are given up.
        let engine = fixture(1, &log, service).retries(0).build();
        let around = Surroundings {
            read_delay: Duration::from_secs(read_delay),
            ..Surroundings::of(batches(asked(111, &[]), &[111]))
        };
        let ran = run_to_end(&engine, around).await;
        assert_eq!(ran.stop.is_some(), read_delay > 0);
        let calls = engine.service().made();
        let calls = calls.iter().filter(|made| made.row == 111).count();
        assert_eq!(calls, expected);
        assert_invariants(&engine);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_stood_still_with_the_run_are_no_outage() {
    for (seconds, outages) in [(30, 1), (126, 0)] {
        let log = Log::default();
        let late = ScriptedResult::TimedOut.after(seconds * 1_000);
        let service =
            (101..=120).fold(Scripted::new(GOOD), |service, row| service.row(row, [late]));
        let engine = engine(20, &log, service);
        let (ran, counts) = run_over(200, &engine).await;
        assert!(ran.stop.is_none());
        let came = (counts.scored(), counts.calls.retries, counts.outages);
        assert_eq!(came, (200, 20, outages), "after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_always_fail_amid_good_ones_are_passed_over() {
    for failing in [9, 10, 30, 80] {
        let log = Log::default();
        let (ran, counts) = run_over_failing_rows(failing, 100, &log).await;
        assert!(ran.stop.is_none(), "{failing} rows");
        let came = (counts.scored(), counts.failed.rows);
        assert_eq!(came, (200, failing), "{failing} rows");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_only_fails_in_the_middle_of_a_file_is_waited_for_and_costs_no_row() {
    let service = Scripted::new(ScriptedResult::Status(500).after(10));
    let service = (1..=100).fold(service, |service, row| service.row(row, [GOOD]));
    let log = Log::default();
    let engine = engine(8, &log, service);
    let read = batches(asked(10_000, &[]), &[500; 20]);
    let ran = run_to_end(&engine, Surroundings::of(read)).await;
    let stop = ran.stop.as_ref().unwrap();
    assert_eq!(stop.reason, CancelReason::Unavailable);
    let counts = engine.events().with_counts(Clone::clone);
    assert_eq!((counts.scored(), counts.failed.rows), (100, 0));
    // Those that showed the outage, those in flight beside them, and six a minute.
    assert!(
        counts.calls.sent < 100 + 10 + 8 + 95,
        "{}",
        counts.calls.sent
    );
    assert!((900..920).contains(&ran.elapsed.as_secs()));
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn refusals_and_the_outage_after_them_count_together() {
    // Ten minutes of refusals, and then the service is down.
    let service = Scripted::new(ScriptedResult::Status(502).immediately()).row(1, [GOOD]);
    let refusal = ScriptedResult::RetryAfter(429, "60").immediately();
    let service = (2..=11).fold(service, |service, row| service.row(row, [refusal]));
    let log = Log::default();
    let (ran, counts) = run_over(1_000, &engine(8, &log, service)).await;
    assert_eq!(ran.stop.unwrap().reason, CancelReason::Unavailable);
    assert_eq!((counts.scored(), counts.failed.rows), (1, 0));
    assert!(
        (900..930).contains(&ran.elapsed.as_secs()),
        "{:?}",
        ran.elapsed
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_for_minutes_costs_no_row() {
    let service = (101..=140).fold(Scripted::new(GOOD), |service, row| {
        service.row(row, [ScriptedResult::Status(500).after(10)])
    });
    let log = Log::default();
    let engine = engine(8, &log, service);
    let read = batches(asked(1_000, &[]), &[1_000]);
    let ran = run_to_end(&engine, Surroundings::of(read)).await;
    assert!(ran.stop.is_none());
    let counts = engine.events().with_counts(Clone::clone);
    assert_eq!((counts.scored(), counts.outages), (1_000, 1));
    assert!(counts.down > Duration::from_secs(180), "{:?}", counts.down);
    assert_invariants(&engine);
}

/// A resumed run over this number of rows, with a service that fails over each.
async fn run_over_nothing_but_failures(rows: u64) -> (RunEnd, Counts) {
    let log = Log::default();
    let service = Scripted::new(ScriptedResult::Status(500).after(10));
    let engine = engine(8, &log, service);
    engine.worked_before();
    run_over(rows, &engine).await
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_tells_an_outage_from_a_few_failing_rows_without_a_verdict_of_its_own() {
    let (ran, counts) = run_over_nothing_but_failures(1_000).await;
    assert_eq!(ran.stop.unwrap().reason, CancelReason::Unavailable);
    // One row after the other until ten have failed.
    assert_eq!(
        (counts.failed.rows, counts.rows.unfinished >= 88),
        (9, true)
    );
    assert!((900..1_000).contains(&ran.elapsed.as_secs()));

    for few in [9, 12, 30] {
        let (ran, counts) = run_over_nothing_but_failures(few).await;
        assert!(ran.stop.is_none(), "{few} rows");
        assert_eq!((counts.failed.rows, counts.outages), (few, 0));
        assert!(ran.elapsed < Duration::from_secs(380), "{:?}", ran.elapsed);
    }
}
