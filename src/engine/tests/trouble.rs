//! Tests of what stops the run: answers without a verdict, refusals, and a service that cannot be reached.

use super::one_row::*;
use crate::pace::Rate;

#[tokio::test(start_paused = true)]
async fn after_a_paid_answer_without_a_verdict_nothing_is_sent_again() {
    let useless = ScriptedResult::Useless.immediately();
    let amid = Fixture::new(Scripted::new(useless).row(1, [GOOD])).build();
    assert_outcomes(&amid, &[&["t-1"], ["bad_answer"; 5].as_slice()].concat()).await;
    assert_eq!(amid.service().rows(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(amid.counts().calls.billed_without_verdict, 5);

    let start = Fixture::new(Scripted::new(useless)).build();
    let expected = ["bad_answer", "bad_answer", "bad_answer ! no_verdicts 3"];
    assert_outcomes(&start, &expected).await;
    assert_eq!(start.service().rows(), [1, 2, 3]);

    let page = Fixture::new(Scripted::new(ScriptedResult::Page.immediately())).build();
    assert_outcomes(&page, &["bad_answer ! no_verdicts 3"]).await;

    let later = Fixture::new(Scripted::new(useless).row(1, [GOOD])).build();
    let outcomes = until_stopped(&later).await;
    assert_eq!(outcomes.len(), 1 + 20, "they are all paid for");
    assert_eq!(outcomes[20].outline(), "bad_answer ! no_verdicts 3");
}

#[tokio::test(start_paused = true)]
async fn twenty_users_with_one_transaction_id_stop_the_run_and_keep_their_answers() {
    let mixed_up = Scripted::new(ScriptedResult::VerdictOf(1).immediately());
    let outcomes = until_stopped(&Fixture::new(mixed_up).build()).await;
    assert_eq!(outcomes.len(), 20);
    assert_eq!(outcomes[18].outline(), "t-1");
    assert_eq!(outcomes[19].outline(), "t-1 ! no_verdicts 3");

    let mixed_up = Scripted::new(ScriptedResult::VerdictOf(1).immediately());
    let engine = { Fixture::new(mixed_up).keep_going() }.build();
    assert_outcomes(&engine, &["t-1"; 30]).await;
    assert_eq!(engine.counts().calls.repeated_transaction_ids, 29);
}

#[tokio::test(start_paused = true)]
async fn a_bare_403_stops_the_run_at_the_start_or_after_three_in_a_row() {
    let forbidden = ScriptedResult::Status(403).immediately();
    let start = Fixture::new(Scripted::new(forbidden)).build();
    assert_outcomes(&start, &["- ! refused 4"]).await;

    let service = Scripted::new(forbidden)
        .row(1, [GOOD])
        .row(3, [GOOD])
        .row(6, [ScriptedResult::Status(422).immediately()]);
    let amid = Fixture::new(service).build();
    let expected = [
        "t-1",
        "forbidden",
        "t-3",
        "forbidden",
        "forbidden",
        "refused",
        "forbidden",
        "forbidden",
        "- ! refused 4",
    ];
    assert_outcomes(&amid, &expected).await;
    assert_eq!(amid.service().made().len(), expected.len(), "none again");
}

#[tokio::test(start_paused = true)]
async fn a_row_at_fault_is_never_sent_again_and_stops_the_run_only_at_the_start() {
    let refusing = Scripted::new(ScriptedResult::Status(422).immediately()).row(1, [GOOD]);
    let amid = Fixture::new(refusing).build();
    assert_outcomes(&amid, &[&["t-1"], ["refused"; 90].as_slice()].concat()).await;
    assert_eq!(amid.service().made().len(), 91);

    let start = Fixture::new(Scripted::new(ScriptedResult::Status(422).immediately())).build();
    let expected = ["refused", "refused", "refused ! no_verdicts 3"];
    assert_outcomes(&start, &expected).await;
    let never = Fixture::new(Scripted::new(ScriptedResult::Status(422).immediately()))
        .keep_going()
        .build();
    assert_outcomes(&never, &["refused"; 90]).await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_be_reached_stops_the_run() {
    let nowhere = Scripted::new(ScriptedResult::HostNotFound.immediately());
    let nowhere = Fixture::new(nowhere).build();
    assert_outcomes(&nowhere, &["- ! unavailable 3"]).await;
    assert_eq!(
        nowhere.service().made().len(),
        1,
        "a wrong address costs one"
    );

    let sick = Fixture::new(Scripted::new(SICK)).build();
    assert_outcomes(&sick, &["- ! unavailable 3"]).await;
    assert_eq!(sick.service().made().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_up_yet_is_waited_for() {
    let away = ScriptedResult::NotConnected.immediately();
    let engine = Fixture::new(Scripted::new(GOOD).row(1, [away; 14]))
        .retries(1)
        .build();
    let began = Instant::now();
    assert_outcomes(&engine, &["t-1", "t-2"]).await;
    // Ten calls show that it is down; then it is tried after 5, 10, 20, 40 and 60 seconds.
    let waited = began.elapsed().as_secs();
    assert!((130..150).contains(&waited), "{waited} s");

    let engine = Fixture::new(Scripted::new(away)).build();
    let began = Instant::now();
    assert_outcomes(&engine, &["- ! unavailable 3"]).await;
    let waited = began.elapsed().as_secs();
    assert!((900..1_000).contains(&waited), "{waited} s");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_stays_away_is_probed_and_stops_the_run() {
    // Ten calls show it. A service that answers, but only with failures, is in the engine's tests: that takes several
    // concurrent rows.
    for (trouble, calls, lost) in [
        (ScriptedResult::Status(503).immediately(), 10, 2),
        (ScriptedResult::HostNotFound.immediately(), 10, 2),
    ] {
        let began = Instant::now();
        let engine = Fixture::new(Scripted::new(trouble).row(1, [GOOD])).build();
        let outcomes = until_stopped(&engine).await;
        assert_eq!(outcomes.last().unwrap().outline(), "- ! unavailable 3");
        let outage = began.elapsed().as_secs();
        assert!((900..1_000).contains(&outage), "{outage} s");
        // After that it is tried at 5, 10, 20, 40 and every 60 seconds.
        assert_eq!(engine.service().made().len(), 1 + calls + 18);
        assert_eq!(outcomes.len() - 2, lost, "rows that were given up");
    }
}

#[tokio::test(start_paused = true)]
async fn bare_503s_at_a_pace_that_is_searched_for_are_waited_for_and_stop_the_run() {
    let began = Instant::now();
    let away = ScriptedResult::Status(503).immediately();
    let engine = Fixture::new(Scripted::new(away).row(1, [GOOD]))
        .rate(Rate::Auto)
        .build();
    let outcomes = until_stopped(&engine).await;
    assert_eq!(outcomes.last().unwrap().outline(), "- ! unavailable 3");
    let waited = began.elapsed().as_secs();
    assert!((900..1_000).contains(&waited), "{waited} s");
    let calls = engine.service().made().len();
    assert!(calls < 50, "{calls} calls");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_comes_back_costs_no_row_anything() {
    let away = [ScriptedResult::Status(503).immediately(); 6];
    let service = (2..=5).fold(Scripted::new(GOOD), |service, row| service.row(row, away));
    let engine = Fixture::new(service).retries(8).build();
    engine.outcome(1).await;
    let outcomes = join_all((2..=5).map(|row| engine.outcome(row))).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| outcome.outline().starts_with("t-"))
    );
    for row in 6..=8 {
        engine.outcome(row).await;
    }
    let counts = engine.counts();
    assert_eq!((counts.outages, counts.outage), (1, None));
    assert!(
        counts.down >= Duration::from_secs(5 + 10),
        "{:?}",
        counts.down
    );
}
