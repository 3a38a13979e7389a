//! Tests of a refused API key: when it is read again, and when the run stops.

use super::one_row::*;

#[tokio::test(start_paused = true)]
async fn a_refused_key_stops_the_run() {
    let refused = [ScriptedResult::Status(401).immediately()];
    let engine = Fixture::new(Scripted::new(GOOD).row(1, refused).row(3, refused)).build();
    assert_outcomes(&engine, &["- ! refused 4", "t-2", "- ! refused 4"]).await;
    assert_eq!(engine.service().rows(), [1, 2, 3]);
}

/// How often a new key was looked for, and how many were found and reported.
fn keys(engine: &Engine<Scripted>) -> (usize, u64) {
    (engine.service().looks(), engine.counts().keys_renewed)
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_never_good_is_not_looked_for_again() {
    let service = Scripted::new(KEY_REFUSED).row(1, [ScriptedResult::Status(422).immediately()]);
    let engine = Fixture::new(service.renewals([KeyRenewal::Renewed])).build();
    assert_outcomes(&engine, &["refused", "- ! refused 4"]).await;
    assert_eq!((engine.service().rows().len(), keys(&engine)), (2, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_rotated_key_is_renewed_and_uses_up_no_attempt() {
    let service = Scripted::new(GOOD).row(2, [KEY_REFUSED]);
    let engine = Fixture::new(service.renewals([KeyRenewal::Renewed]))
        .retries(0)
        .build();
    assert_outcomes(&engine, &["t-1", "t-2", "t-3"]).await;
    let calls: Vec<_> = engine
        .service()
        .made()
        .iter()
        .map(|m| (m.row, m.key))
        .collect();
    assert_eq!(calls, [(1, 0), (2, 0), (2, 1), (3, 1)]);
    assert_eq!(keys(&engine), (1, 1));
    let counts = engine.counts();
    assert_eq!(
        (
            counts.calls.sent,
            counts.calls.retries,
            counts.calls.answered
        ),
        (4, 0, 3)
    );
    assert_eq!(
        counts.calls.billed_without_verdict + counts.calls.unknown_outcome,
        0
    );
}

#[tokio::test(start_paused = true)]
async fn one_of_the_calls_in_flight_with_the_old_key_looks_for_a_new_one_and_all_continue() {
    // Row 9 meets the 401 long after the others, when the new key has brought verdicts.
    let service = (2..=8).fold(Scripted::new(GOOD), |service, row| {
        service.row(row, [ScriptedResult::Status(401).after(10)])
    });
    let service = service.row(9, [ScriptedResult::Status(401).after(5_000)]);
    let engine = Fixture::new(service.renewals([KeyRenewal::Renewed]))
        .concurrency(8)
        .build();
    engine.outcome(1).await;
    let outcomes = join_all((2..=9).map(|row| engine.outcome(row))).await;
    for (row, outcome) in (2..).zip(&outcomes) {
        assert_eq!(outcome.outline(), format!("t-{row}"));
    }
    assert_eq!(
        (keys(&engine), engine.counts().calls.in_flight),
        ((1, 1), 0)
    );
    for row in 2..=9 {
        let keys: Vec<_> = engine.calls(row).iter().map(|made| made.key).collect();
        assert_eq!(keys, [0, 1], "row {row}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_did_not_change_stops_the_run_and_is_looked_for_once() {
    for renewal in [
        KeyRenewal::Fixed,
        KeyRenewal::Kept("it is the same".to_owned()),
    ] {
        let service = Scripted::new(KEY_REFUSED).row(1, [GOOD]);
        let engine = Fixture::new(service.renewals([renewal.clone(), KeyRenewal::Renewed]))
            .concurrency(4)
            .build();
        engine.outcome(1).await;
        let outcomes = join_all((2..=5).map(|row| engine.outcome(row))).await;
        let outlines: Vec<_> = outcomes.iter().map(RowOutcome::outline).collect();
        assert_eq!(outlines, ["- ! refused 4"; 4]);
        assert_eq!((engine.service().rows().len(), keys(&engine)), (5, (1, 0)));
        let report = outcomes[0].report();
        assert_eq!(
            report.contains("it is the same"),
            renewal != KeyRenewal::Fixed,
            "{report}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_key_must_bring_a_verdict_before_another_is_looked_for() {
    // The verdict of a call with the old key comes late and says nothing about the new key.
    let service = Scripted::new(KEY_REFUSED)
        .row(1, [GOOD])
        .row(2, [ScriptedResult::Verdict.after(5)])
        .row(
            3,
            [1, 10].map(|after| ScriptedResult::Status(401).after(after)),
        )
        .row(
            4,
            [1, 10].map(|after| ScriptedResult::Status(401).after(after)),
        );
    let engine = Fixture::new(service.renewals([KeyRenewal::Renewed, KeyRenewal::Renewed]))
        .concurrency(4)
        .build();
    engine.outcome(1).await;
    let outcomes = join_all((2..=4).map(|row| engine.outcome(row))).await;
    let outlines: Vec<_> = outcomes.iter().map(RowOutcome::outline).collect();
    assert_eq!(outlines, ["t-2", "- ! refused 4", "- ! refused 4"]);
    assert_eq!((engine.service().rows().len(), keys(&engine)), (6, (1, 1)));
    let report = outcomes[1].report();
    assert!(
        report.contains("the new one is refused as well"),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_of_days_meets_several_rotations() {
    let rows = (2..=9).step_by(2);
    let service = rows.fold(Scripted::new(GOOD), |service, row| {
        service.row(row, [KEY_REFUSED])
    });
    let engine = Fixture::new(service.renewals([const { KeyRenewal::Renewed }; 4])).build();
    assert_outcomes(
        &engine,
        &[
            "t-1", "t-2", "t-3", "t-4", "t-5", "t-6", "t-7", "t-8", "t-9",
        ],
    )
    .await;
    assert_eq!(keys(&engine), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopping_looks_for_no_key() {
    let service = Scripted::new(GOOD).row(2, [ScriptedResult::Status(401).after(500)]);
    let engine = Fixture::new(service.renewals([KeyRenewal::Renewed])).build();
    engine.outcome(1).await;
    let close = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        engine.gate.close();
    };
    let (outcome, ()) = join(engine.outcome(2), close).await;
    assert!(outcome.verdict.is_none());
    assert_eq!((engine.service().rows().len(), keys(&engine)), (2, (0, 0)));
}
