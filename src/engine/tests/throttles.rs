//! Tests of refusals that ask for less: who pauses, for how long, and what that costs a row.

use super::one_row::*;

#[tokio::test(start_paused = true)]
async fn throttles_use_up_no_attempts() {
    let throttles = [ScriptedResult::RetryAfter(503, "5").immediately(); 10];
    let engine = Fixture::new(Scripted::new(GOOD).row(1, throttles))
        .retries(0)
        .build();
    assert_outcomes(&engine, &["t-1"]).await;
    let calls = engine.calls(1);
    assert_eq!(calls.len(), 11);
    for pair in calls.windows(2) {
        let pause = pair[1].began.saturating_sub(pair[0].began).as_secs_f64();
        assert!((5.0..=5.51).contains(&pause), "{pause}");
    }
    assert_eq!(engine.counts().calls.throttled, 10);
}

#[tokio::test(start_paused = true)]
async fn a_throttle_pauses_all_calls() {
    for throttle in [
        ScriptedResult::RetryAfter(503, "30"),
        ScriptedResult::RetryAfter(429, "30"),
        ScriptedResult::RetryAfter(403, "30"),
    ] {
        let service = Scripted::new(GOOD)
            .row(2, [throttle.after(10)])
            .row(3, [SICK]);
        let engine = Fixture::new(service).concurrency(8).build();
        engine.outcome(1).await;
        // Row 3 is in back-off when the pause starts; the others have not started yet.
        let later = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            join_all((4..=9).map(|row| engine.outcome(row))).await
        };
        tokio::join!(engine.outcome(2), engine.outcome(3), later);
        let calls = engine.service().made();
        assert_eq!(calls.len(), 11);
        for call in &calls[3..] {
            assert!(call.began >= Duration::from_secs(30), "{call:?}");
            // At most twice the pause: after it, calls start slowly.
            assert!(call.began <= Duration::from_secs(60), "{call:?}");
        }
        assert_eq!(
            (
                engine.counts().calls.throttled,
                engine.counts().calls.retries
            ),
            (1, 1)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_is_too_long_to_wait_for_stops_the_run() {
    let began = Instant::now();
    for wait in ["901", "1000000000000", "99999999999999999999999"] {
        let service =
            Scripted::new(GOOD).row(2, [ScriptedResult::RetryAfter(429, wait).immediately()]);
        let engine = Fixture::new(service).build();
        assert_outcomes(&engine, &["t-1", "- ! max_wait 3"]).await;
        assert_eq!(engine.service().rows(), [1, 2]);
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    let longest = [ScriptedResult::RetryAfter(429, "900").immediately()];
    let engine = Fixture::new(Scripted::new(GOOD).row(1, longest)).build();
    assert_outcomes(&engine, &["t-1"]).await;
    assert!(began.elapsed() >= Duration::from_secs(900));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_refused_while_others_are_accepted_ends_alone() {
    for refusal in [
        ScriptedResult::Status(429),
        ScriptedResult::RetryAfter(429, "1"),
    ] {
        let service = Scripted::new(GOOD).row(30, [refusal.immediately(); 50]);
        let engine = Fixture::new(service).concurrency(8).build();
        engine.outcome(1).await;
        let outcomes = join_all((2..=200).map(|row| engine.outcome(row))).await;
        for (row, outcome) in (2..).zip(&outcomes) {
            let expected = if row == 30 {
                "throttled".to_owned()
            } else {
                format!("t-{row}")
            };
            assert_eq!(outcome.outline(), expected);
        }
        let calls = engine.calls(30).len();
        assert!((6..=8).contains(&calls), "{calls}");
        assert_eq!(engine.limit(), Limit::NONE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_only_refuses_stops_the_run_after_a_quarter_of_an_hour() {
    for (refusal, most) in [
        (ScriptedResult::RetryAfter(429, "60"), 17),
        // Without a rate limit of our own each row backs off by itself, for 15 s on average.
        (ScriptedResult::Status(429), 90),
    ] {
        let began = Instant::now();
        let engine = Fixture::new(Scripted::new(refusal.immediately()).row(1, [GOOD])).build();
        assert_eq!(engine.outcome(1).await.outline(), "t-1");
        let stopped = engine.outcome(2).await;
        assert_eq!(stopped.outline(), "- ! max_wait 3");
        // Not that the service asked to wait: one of them named no time.
        let said = stopped.report();
        assert!(said.contains(" has accepted no call for 1"), "{said}");
        let minutes = began.elapsed().as_secs() / 60;
        assert!((15..=17).contains(&minutes), "{minutes}");
        assert!(engine.calls(2).len() <= most, "{}", engine.calls(2).len());
    }
}

#[tokio::test(start_paused = true)]
async fn headers_that_say_with_every_answer_that_nothing_is_left_hold_a_run_up_once() {
    let service = Scripted::new(GOOD)
        .with_header("ratelimit-remaining", "0")
        .with_header("ratelimit-reset", "60");
    let (engine, began) = (Fixture::new(service).build(), Instant::now());
    for row in 1..=50 {
        assert_eq!(engine.outcome(row).await.outline(), format!("t-{row}"));
    }
    let took = began.elapsed().as_secs();
    // Five calls a minute, until more are accepted than were left.
    assert!((20..=60).contains(&took), "{took} s");
    let pace = engine.counts().pace.unwrap();
    assert_eq!((pace.headers, pace.rate), (Hint::Disbelieved, None));
}
