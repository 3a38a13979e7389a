//! What is sent again after a failure or a refusal, how often, who waits meanwhile, and what that costs the row and the others.

use super::harness::*;
use crate::telemetry::pace::Hint;

#[tokio::test(start_paused = true)]
async fn a_row_has_its_retries_and_what_may_have_been_billed_is_sent_again_once_at_most() {
    let silence = ScriptedResult::TimedOut.after(30_000);
    // How often it is called; retries, calls that may have been billed twice, and calls without an answer.
    for (script, resends, scored, calls, counted) in [
        (&[SICK, SICK][..], 1, "t-2", 3, (2, 0, 0)),
        (&[SICK; 9], 1, "server_error", 5, (4, 0, 0)),
        (&[silence, silence], 1, "no_answer", 2, (1, 1, 2)),
        (&[silence, SICK], 1, "t-2", 3, (2, 1, 1)),
        (&[silence], 0, "no_answer", 1, (0, 0, 1)),
    ] {
        let service = Scripted::new(GOOD).row(2, script.to_vec());
        let engine = Fixture::new(service).build_with(|it| it.resends = resends);
        assert_outlines(&engine, &["t-1", scored]).await;
        assert_eq!(engine.calls(2).len(), calls);
        let it = engine.counts().calls;
        let counts = (it.retries, it.maybe_billed_twice, it.unknown_outcome);
        assert_eq!(counts, counted, "{scored}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_row_gets_its_verdict_where_half_of_the_first_tries_fail() {
    let service = with_rows(Scripted::new(GOOD), (2..=400).step_by(2), &[SICK]);
    let engine = Fixture::new(service).build_with(|it| it.retries = 1);
    for row in 1..=400 {
        assert_eq!(engine.scored_row(row).await.outline(), format!("t-{row}"));
    }
    assert_eq!(engine.service().made().len(), 600);
}

#[tokio::test(start_paused = true)]
async fn no_permit_is_held_in_a_back_off() {
    let engine = engine(1, Scripted::new(GOOD).row(2, [SICK]));
    engine.scored_row(1).await;
    assert_eq!(engine.outlines(2..=3).await, ["t-2", "t-3"]);
    assert_eq!(engine.service().rows(), [1, 2, 3, 2]);
    assert_eq!(engine.calls(3)[0].began, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn throttles_use_up_no_retry_and_each_waits_as_long_as_was_asked_for() {
    let throttles = [ScriptedResult::RetryAfter(503, "5").immediately(); 10];
    let service = Scripted::new(GOOD).row(1, throttles);
    let engine = Fixture::new(service).build_with(|it| it.retries = 0);
    assert_outlines(&engine, &["t-1"]).await;
    let calls = engine.calls(1);
    assert_eq!((calls.len(), engine.counts().calls.throttled), (11, 10));
    for pair in calls.windows(2) {
        let pause = pair[1].began.saturating_sub(pair[0].began).as_secs_f64();
        assert!((5.0..=5.51).contains(&pause), "{pause}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttle_pauses_all_calls() {
    for status in [503, 429, 403] {
        let throttle = ScriptedResult::RetryAfter(status, "30").after(10);
        let service = Scripted::new(GOOD).row(2, [throttle]).row(3, [SICK]);
        let engine = engine(8, service);
        engine.scored_row(1).await;
        // Row 3 is in back-off when the pause starts; the others have not started yet.
        let later = async {
            sleep(Duration::from_millis(20)).await;
            engine.outlines(4..=9).await
        };
        tokio::join!(engine.scored_row(2), engine.scored_row(3), later);
        let calls = engine.service().made();
        assert_eq!(calls.len(), 11);
        for call in &calls[3..] {
            // At most twice the pause: after it, calls start slowly.
            let seconds = call.began.as_secs_f64();
            assert!((30.0..=60.0).contains(&seconds), "{call:?}");
        }
        let calls = engine.counts().calls;
        assert_eq!((calls.throttled, calls.retries), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_is_too_long_to_wait_for_stops_the_run() {
    for (wait, second, seconds) in [
        ("900", "t-2", 900),
        ("901", "- ! max_wait 3", 0),
        ("86400", "- ! max_wait 3", 0),
    ] {
        let began = Instant::now();
        let pause = ScriptedResult::RetryAfter(429, wait).immediately();
        let engine = engine(1, Scripted::new(GOOD).row(2, [pause]));
        assert_outlines(&engine, &["t-1", second]).await;
        let waited = began.elapsed().as_secs();
        assert!((seconds..=seconds * 11 / 10).contains(&waited), "{waited}");
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_are_always_refused_fail_wherever_they_are_and_hold_up_no_other() {
    let bare = ScriptedResult::Status(429);
    let named = ScriptedResult::RetryAfter(429, "1");
    // How many calls are refused, and how many seconds that takes, at most.
    for (rate, refusal, of, refused, throttled, seconds) in [
        (Rate::Unlimited, bare, 200, 30..=30, 8, 60),
        (Rate::Unlimited, named, 200, 30..=30, 8, 60),
        (Rate::Auto, bare, 100, 1..=1, 20, 40),
        (Rate::Auto, bare, 100, 2..=2, 20, 40),
        (Rate::Auto, bare, 1_000, 1..=4, 90, 180),
        (Rate::Auto, bare, 1_000, 201..=208, 160, 180),
    ] {
        let always = [refusal.immediately(); 60];
        let service = with_rows(Scripted::new(GOOD), refused.clone(), &always);
        let engine = Fixture::new(service).build_with(|it| {
            it.rate = rate;
            it.concurrency = 8;
        });
        let ran = run_to_end(&engine, Surroundings::rows(of)).await;
        let case = format!("{rate:?}, rows {refused:?}: {:?}", ran.elapsed);
        assert!(ran.stop.is_none(), "{case}");
        let failed = refused.count() as u64;
        let ended = (ran.counts.scored(), ran.counts.failed.rows);
        assert_eq!(ended, (of - failed, failed), "{case}");
        let calls = ran.counts.calls.throttled;
        assert!(calls <= throttled, "{case}, {calls} calls");
        assert!(ran.elapsed.as_secs() < seconds, "{case}");
        if rate == Rate::Unlimited {
            assert_eq!(engine.limit(), FoundLimit::default());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_at_random_delay_no_row_to_the_end_of_the_file() {
    let refused = [ScriptedResult::Status(429).after(10)];
    let rows = (1..=5_000).filter(|row| row % 5 < 2);
    let engine = engine(64, with_rows(Scripted::new(GOOD), rows, &refused));
    let ran = run_to_end(&engine, Surroundings::rows(5_000)).await;
    assert!(ran.stop.is_none());
    let made = engine.service().made();
    let second = made.iter().rposition(|made| made.row == 5).unwrap();
    assert!(second < 2_000, "{second} of {}", made.len());
}

#[tokio::test(start_paused = true)]
async fn a_third_of_the_streams_refused_at_random_does_not_slow_a_run_down() {
    let refused = ScriptedResult::StreamRefused.after(10);
    let mut service = Scripted::new(ScriptedResult::Verdict.after(10));
    for row in 1..=3_000_u64 {
        let times = [3, 9, 27, 81].iter().filter(|of| row.is_multiple_of(**of));
        service = service.row(row, vec![refused; times.count()]);
    }
    let engine = Fixture::new(service).build_with(|it| {
        it.rate = Rate::Auto;
        it.concurrency = 64;
    });
    let ran = run_to_end(&engine, Surroundings::rows(3_000)).await;
    assert!(ran.stop.is_none());
    assert_eq!(ran.counts.calls.throttled, 1_000 + 333 + 111 + 37);
    assert!(ran.elapsed.as_secs() < 30, "{:?}", ran.elapsed);
}

#[tokio::test(start_paused = true)]
async fn headers_that_say_with_every_answer_that_nothing_is_left_hold_a_run_up_once() {
    let service = Scripted::new(GOOD)
        .with_header("ratelimit-remaining", "0")
        .with_header("ratelimit-reset", "60");
    let (engine, began) = (engine(1, service), Instant::now());
    for row in 1..=50 {
        assert_eq!(engine.scored_row(row).await.outline(), format!("t-{row}"));
    }
    let took = began.elapsed().as_secs();
    // Five calls a minute, until more are accepted than were left.
    assert!((20..=60).contains(&took), "{took} s");
    let pace = engine.counts().pace.unwrap();
    assert_eq!((pace.headers, pace.rate), (Hint::Disbelieved, None));
}
