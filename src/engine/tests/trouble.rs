//! Answers without a verdict, refusals, a service that is down, and rows over which it always fails: how they are told apart,
//! when they stop the run, and what each costs.

use ScriptedResult::{HostNotFound, NotConnected, Page, Status, Useless, VerdictOf};

use super::harness::*;

#[tokio::test(start_paused = true)]
async fn trouble_without_a_verdict_stops_the_run_sooner_at_the_start_and_sends_nothing_again() {
    const BAD: &str = "bad_answer ! no_verdicts 3";
    // Whether the first row had a verdict; how many rows were tried, and with how many calls.
    for (brings, works, rows, calls, last) in [
        (Useless, false, 3, 3, BAD),
        (Useless, true, 21, 21, BAD),
        (Page, false, 1, 1, BAD),
        // Somebody else's verdict is none: the row is left.
        (VerdictOf(1), false, 20, 20, "- ! no_verdicts 3"),
        (Status(422), false, 3, 3, "refused ! no_verdicts 3"),
        (Status(422), true, 101, 101, "refused ! no_verdicts 3"),
        (Status(403), false, 1, 1, "- ! refused 4"),
        (Status(403), true, 4, 4, "- ! refused 4"),
        (HostNotFound, false, 1, 1, "- ! unavailable 3"),
        (Status(500), false, 1, 5, "- ! unavailable 3"),
    ] {
        let service = Scripted::new(brings.immediately());
        let good = works.then_some(1);
        let engine = engine(1, with_rows(service, good, &[GOOD]));
        let outlines = until_stopped(&engine).await;
        let ended = (outlines.len(), engine.service().made().len());
        assert_eq!(
            (ended, &*outlines[rows - 1]),
            ((rows, calls), last),
            "{brings:?}"
        );
        let paid = engine.counts().calls.billed_without_verdict;
        let useless = matches!(brings, Useless | Page);
        assert_eq!(paid > 0, useless, "{brings:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ninety_rows_at_fault_stop_no_run_that_works_nor_one_that_keeps_going() {
    for (brings, works, scored) in [
        (Status(422), true, "refused"),
        (Status(422), false, "refused"),
        (VerdictOf(1), false, "t-1"),
    ] {
        let service = Scripted::new(brings.immediately());
        let good = works.then_some(100);
        let engine =
            Fixture::new(with_rows(service, good, &[GOOD])).build_with(|it| it.keep_going = !works);
        if works {
            engine.scored_row(100).await;
        }
        assert_outlines(&engine, &[scored; 90]).await;
        assert_eq!(engine.service().made().len(), 90 + usize::from(works));
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_up_yet_is_waited_for() {
    let away = NotConnected.immediately();
    let service = Scripted::new(GOOD).row(1, [away; 14]);
    let engine = Fixture::new(service).build_with(|it| it.retries = 1);
    let began = Instant::now();
    assert_outlines(&engine, &["t-1", "t-2"]).await;
    // Ten calls show that it is down; then it is tried after 5, 10, 20, 40 and 60 seconds.
    let waited = began.elapsed().as_secs();
    assert!((130..150).contains(&waited), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_stays_away_is_probed_ever_more_rarely_and_stops_the_run() {
    // Ten calls show it. After that it is tried 18 times: at 5, 10, 20, 40 and every 60 seconds.
    for (trouble, works, rate, calls) in [
        (Status(503), true, Rate::Unlimited, 29..=29),
        (HostNotFound, true, Rate::Unlimited, 29..=29),
        (NotConnected, false, Rate::Unlimited, 28..=28),
        (Status(503), true, Rate::Auto, 20..=50),
    ] {
        let began = Instant::now();
        let service = Scripted::new(trouble.immediately());
        let service = with_rows(service, works.then_some(1), &[GOOD]);
        let engine = Fixture::new(service).build_with(|it| it.rate = rate);
        let outlines = until_stopped(&engine).await;
        assert_eq!(outlines.last().unwrap(), "- ! unavailable 3", "{trouble:?}");
        let waited = began.elapsed().as_secs();
        assert!((900..1_000).contains(&waited), "{trouble:?}: {waited} s");
        let made = engine.service().made().len();
        assert!(calls.contains(&made), "{trouble:?}: {made} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_only_refuses_stops_the_run_after_a_quarter_of_an_hour() {
    for (refusal, most) in [
        (ScriptedResult::RetryAfter(429, "60"), 17),
        // Without a rate limit of our own each row backs off by itself, for 15 s on average.
        (Status(429), 90),
    ] {
        let began = Instant::now();
        let engine = engine(1, Scripted::new(refusal.immediately()).row(1, [GOOD]));
        engine.scored_row(1).await;
        let stopped = engine.scored_row(2).await;
        assert_eq!(stopped.outline(), "- ! max_wait 3");
        // Not that the service asked to wait: one of them named no time.
        let report = stopped.report();
        assert!(report.contains(" has accepted no call for 1"), "{report}");
        let minutes = began.elapsed().as_secs() / 60;
        assert!((15..=17).contains(&minutes), "{minutes}");
        assert!(engine.calls(2).len() <= most, "{}", engine.calls(2).len());
    }
}

/// A service that works for the first hundred rows, and for all others does this.
fn after_a_hundred(then: Step) -> Scripted {
    with_rows(Scripted::new(then), 1..=100, &[GOOD])
}

const FAILS: Step = Status(500).after(10);

#[tokio::test(start_paused = true)]
async fn rows_that_always_fail_are_passed_over_amid_good_ones_and_are_no_outage_at_the_end() {
    // How many fail, how many good ones follow, and whether it is waited in case the service is down.
    for (failing, further, waits) in [
        (3, 0, false),
        (9, 0, false),
        (10, 0, true),
        (30, 0, true),
        (9, 100, false),
        (80, 100, true),
    ] {
        let rows = 101..=100 + failing;
        let service = with_rows(Scripted::new(GOOD), rows, &[FAILS; 200]);
        let around = Surroundings::rows(100 + failing + further);
        let ran = run_to_end(&engine(8, service), around).await;
        let case = format!("{failing} and {further} rows: {:?}", ran.elapsed);
        assert!(ran.stop.is_none(), "{case}");
        let counts = ran.counts;
        let ended = (counts.scored(), counts.failed.rows);
        assert_eq!(ended, (100 + further, failing), "{case}");
        if further == 0 {
            assert_eq!((counts.outages, counts.state.outage), (0, None), "{case}");
            let longest = if waits { 360 } else { 60 };
            assert!(ran.elapsed.as_secs() < longest, "{case}");
            let is_waited = counts.paused >= Duration::from_secs(300);
            assert_eq!(is_waited, waits, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_only_row_left_to_probe_an_outage_is_tried_ever_more_rarely() {
    // The last row of a file, and the last row of a pipe that stays silent for an hour.
    for (read_delay, expected) in [(0, 9), (3_600, 18)] {
        // Rows 101 to 110 show an outage, and are given up.
        let engine = Fixture::new(after_a_hundred(FAILS)).build_with(|it| it.retries = 0);
        let around = Surroundings {
            read_delay: Duration::from_secs(read_delay),
            ..Surroundings::rows(111)
        };
        let ran = run_to_end(&engine, around).await;
        assert_eq!(ran.stop.is_some(), read_delay > 0);
        assert_eq!(engine.calls(111).len(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_stood_still_with_the_run_are_no_outage() {
    for (seconds, outages) in [(30, 1), (126, 0)] {
        let late = ScriptedResult::TimedOut.after(seconds * 1_000);
        let service = with_rows(Scripted::new(GOOD), 101..=120, &[late]);
        let ran = run_to_end(&engine(20, service), Surroundings::rows(200)).await;
        assert!(ran.stop.is_none());
        let counts = ran.counts;
        let ended = (counts.scored(), counts.calls.retries, counts.outages);
        assert_eq!(ended, (200, 20, outages), "after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_for_minutes_costs_no_row() {
    // One that answers is tried more often.
    for (status, last, down) in [(500, 140, 180), (503, 120, 60)] {
        let fails = [Status(status).after(10)];
        let service = with_rows(Scripted::new(GOOD), 101..=last, &fails);
        let ran = run_to_end(&engine(8, service), Surroundings::rows(1_000)).await;
        assert!(ran.stop.is_none());
        let counts = ran.counts;
        let ended = (counts.scored(), counts.outages, counts.state.outage);
        assert_eq!(ended, (1_000, 1, None), "{status}");
        assert!(counts.down.as_secs() > down, "{status}: {:?}", counts.down);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_stays_down_in_the_middle_of_a_file_costs_no_row_and_few_calls() {
    let engine = engine(8, after_a_hundred(FAILS));
    let ran = run_to_end(&engine, Surroundings::rows(10_000)).await;
    assert_eq!(ran.reason(), Some(CancelReason::Unavailable));
    assert_eq!((ran.counts.scored(), ran.counts.failed.rows), (100, 0));
    // Those that showed the outage, those in flight beside them, and six a minute.
    let sent = ran.counts.calls.sent;
    assert!(sent < 100 + 10 + 8 + 95, "{sent}");
    assert!((900..920).contains(&ran.elapsed.as_secs()));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_tells_an_outage_from_a_few_failing_rows_without_a_verdict_of_its_own() {
    for (rows, failures, seconds) in [(1_000, 9, 900..1_000), (9, 9, 0..380), (30, 30, 0..380)] {
        let engine = engine(8, Scripted::new(FAILS));
        engine.worked_before();
        let ran = run_to_end(&engine, Surroundings::rows(rows)).await;
        let stopped = ran.reason() == Some(CancelReason::Unavailable);
        assert_eq!((stopped, ran.counts.failed.rows), (rows == 1_000, failures));
        assert!(
            seconds.contains(&ran.elapsed.as_secs()),
            "{rows} rows: {:?}",
            ran.elapsed
        );
        if !stopped {
            assert_eq!(ran.counts.outages, 0, "{rows} rows");
        }
    }
}
