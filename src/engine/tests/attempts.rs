//! Tests of one row's attempts: what is sent again, how often, and what is reported of calls that are abandoned.

use super::one_row::*;

#[tokio::test(start_paused = true)]
async fn a_service_that_recovers_gives_its_verdict() {
    let engine = Fixture::new(Scripted::new(GOOD).row(1, [SICK, SICK])).build();
    assert_outcomes(&engine, &["t-1"]).await;
    assert_eq!(engine.service().rows(), [1, 1, 1]);
    let counts = engine.counts();
    assert_eq!(
        (
            counts.calls.sent,
            counts.calls.retries,
            counts.calls.answered
        ),
        (3, 2, 1)
    );
    assert_eq!(
        (
            counts.calls.maybe_billed_twice,
            counts.calls.unknown_outcome
        ),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_row_has_its_retries_and_no_more() {
    let engine = Fixture::new(Scripted::new(SICK).row(1, [GOOD])).build();
    assert_outcomes(&engine, &["t-1", "server_error"]).await;
    assert_eq!(engine.calls(2).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_may_have_been_billed_is_sent_again_once_at_most() {
    let silence = [ScriptedResult::TimedOut.after(30_000); 2];
    let service = || {
        Scripted::new(GOOD)
            .row(2, silence)
            .row(3, [silence[0], SICK])
    };
    let once = Fixture::new(service()).build();
    assert_outcomes(&once, &["t-1", "no_answer", "t-3"]).await;
    assert_eq!(once.service().rows(), [1, 2, 2, 3, 3, 3]);
    let counts = once.counts();
    assert_eq!(
        (
            counts.calls.maybe_billed_twice,
            counts.calls.unknown_outcome
        ),
        (2, 3)
    );

    let never = Fixture::new(service()).resends(0).build();
    assert_outcomes(&never, &["t-1", "no_answer", "no_answer", "t-4"]).await;
    assert_eq!(never.service().rows(), [1, 2, 3, 4]);
    let counts = never.counts();
    assert_eq!(
        (
            counts.calls.maybe_billed_twice,
            counts.calls.unknown_outcome
        ),
        (0, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn no_permit_is_held_in_a_back_off() {
    let engine = Fixture::new(Scripted::new(GOOD).row(2, [SICK])).build();
    engine.outcome(1).await;
    let (second, third) = join(engine.outcome(2), engine.outcome(3)).await;
    assert_eq!([second.outline(), third.outline()], ["t-2", "t-3"]);
    assert_eq!(engine.service().rows(), [1, 2, 3, 2]);
    assert_eq!(engine.calls(3)[0].began, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn every_row_gets_its_verdict_where_half_of_the_first_tries_fail() {
    let sick = (2..=400).step_by(2);
    let service = sick.fold(Scripted::new(GOOD), |service, row| service.row(row, [SICK]));
    let engine = Fixture::new(service).retries(1).build();
    for row in 1..=400 {
        assert_eq!(engine.outcome(row).await.outline(), format!("t-{row}"));
    }
    assert_eq!(engine.service().made().len(), 600);
}

#[tokio::test(start_paused = true)]
async fn a_closed_gate_leaves_waiting_rows_without_delay() {
    let began = Instant::now();
    for first in [SICK, ScriptedResult::RetryAfter(429, "60").immediately()] {
        let engine = Fixture::new(Scripted::new(GOOD).row(1, [first])).build();
        let close = async {
            while engine.counts().calls.sent == 0 || engine.counts().calls.in_flight > 0 {
                tokio::task::yield_now().await;
            }
            engine.gate.close();
        };
        let (outcome, ()) = join(engine.outcome(1), close).await;
        assert_eq!(outcome.outline(), "-");
        assert_eq!(engine.outcome(2).await.outline(), "-");
        assert_eq!(engine.service().rows(), [1]);
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_out_when_the_gate_closes_keeps_its_verdict() {
    let engine = Fixture::new(Scripted::new(ScriptedResult::Verdict.after(500))).build();
    let close = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        engine.gate.close();
    };
    let (outcome, ()) = join(engine.outcome(1), close).await;
    assert_eq!(outcome.outline(), "t-1");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_call_counts_as_perhaps_billed() {
    let engine = Fixture::new(Scripted::new(ScriptedResult::Stall.immediately())).build();
    let outcome = tokio::time::timeout(Duration::from_secs(9), engine.outcome(1)).await;
    assert!(outcome.is_err());
    let counts = engine.counts();
    assert_eq!(
        (counts.calls.in_flight, counts.calls.unknown_outcome),
        (0, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn one_answer_for_different_users_is_reported_and_counted_each_time() {
    let cached = [ScriptedResult::VerdictOf(2).immediately()];
    let service = Scripted::new(GOOD).row(4, cached).row(5, cached);
    let engine = Fixture::new(service).build();
    assert_outcomes(&engine, &["t-1", "t-2", "t-3", "t-2", "t-2", "t-6"]).await;
    assert_eq!(engine.counts().calls.repeated_transaction_ids, 2);
    assert_eq!(engine.counts().calls.answered, 6);
}

#[tokio::test(start_paused = true)]
async fn the_same_answer_for_the_same_user_is_not_reported() {
    let engine = Fixture::new(Scripted::new(GOOD)).build();
    engine.outcome(1).await;
    let outcome = engine.outcome_of(2, 1).await;
    assert_eq!(outcome.outline(), "t-1");
    assert_eq!(engine.counts().calls.repeated_transaction_ids, 0);
}
