//! A refused API key: when it is read again, and when the run stops. How a file is read is in the process tests.

use super::harness::*;

const REFUSED: &str = "- ! refused 4";

/// How many calls there were, how often a new key was looked for, and how many were found and reported.
fn calls_and_keys(engine: &Engine<Scripted>) -> (usize, usize, u64) {
    let service = engine.service();
    (
        service.rows().len(),
        service.looks(),
        engine.counts().keys_renewed,
    )
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_stops_the_run_and_is_looked_for_only_after_verdicts() {
    let service = Scripted::new(KEY_REFUSED).row(1, [ScriptedResult::Status(422).immediately()]);
    let engine = engine(1, service.renewals([Ok(())]));
    assert_outlines(&engine, &["refused", REFUSED]).await;
    assert_eq!(calls_and_keys(&engine), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn each_rotated_key_is_renewed_and_uses_up_no_retry() {
    let service = with_rows(Scripted::new(GOOD), [2, 4], &[KEY_REFUSED]);
    let service = service.renewals([const { Ok(()) }; 2]);
    let engine = Fixture::new(service).build_with(|it| it.retries = 0);
    assert_outlines(&engine, &["t-1", "t-2", "t-3", "t-4"]).await;
    let made = engine.service().made();
    let calls: Vec<_> = made.iter().map(|made| (made.row, made.key)).collect();
    assert_eq!(calls, [(1, 0), (2, 0), (2, 1), (3, 1), (4, 1), (4, 2)]);
    assert_eq!(calls_and_keys(&engine), (6, 2, 2));
    let calls = engine.counts().calls;
    assert_eq!((calls.sent, calls.retries, calls.answered), (6, 0, 4));
    assert_eq!(calls.billed_without_verdict + calls.unknown_outcome, 0);
}

#[tokio::test(start_paused = true)]
async fn one_of_the_calls_in_flight_with_the_old_key_looks_for_a_new_one_and_all_continue() {
    // Row 9 meets the 401 long after the others, when the new key has brought verdicts.
    let soon = [ScriptedResult::Status(401).after(10)];
    let service = with_rows(Scripted::new(GOOD), 2..=8, &soon);
    let service = service.row(9, [ScriptedResult::Status(401).after(5_000)]);
    let engine = engine(8, service.renewals([Ok(())]));
    engine.scored_row(1).await;
    let expected: Vec<_> = (2..=9).map(|row| format!("t-{row}")).collect();
    assert_eq!(engine.outlines(2..=9).await, expected);
    assert_eq!(calls_and_keys(&engine), (1 + 2 * 8, 1, 1));
    for row in 2..=9 {
        let keys: Vec<_> = engine.calls(row).iter().map(|made| made.key).collect();
        assert_eq!(keys, [0, 1], "row {row}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_did_not_change_stops_the_run_and_is_looked_for_once() {
    let kept = Err("it is the same".to_owned());
    let service = Scripted::new(KEY_REFUSED).row(1, [GOOD]);
    let engine = engine(4, service.renewals([kept, Ok(())]));
    engine.scored_row(1).await;
    assert_eq!(engine.outlines(2..=5).await, [REFUSED; 4]);
    assert_eq!(calls_and_keys(&engine), (5, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_new_key_must_bring_a_verdict_before_another_is_looked_for() {
    // The verdict of a call with the old key comes late and says nothing about the new key.
    let refused = [1, 10].map(|after| ScriptedResult::Status(401).after(after));
    let service = Scripted::new(KEY_REFUSED)
        .row(1, [GOOD])
        .row(2, [ScriptedResult::Verdict.after(5)]);
    let service = with_rows(service, 3..=4, &refused);
    let engine = engine(4, service.renewals([Ok(()), Ok(())]));
    engine.scored_row(1).await;
    assert_eq!(engine.outlines(2..=4).await, ["t-2", REFUSED, REFUSED]);
    assert_eq!(calls_and_keys(&engine), (6, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopping_looks_for_no_key() {
    let service = Scripted::new(GOOD).row(2, [ScriptedResult::Status(401).after(500)]);
    let engine = engine(1, service.renewals([Ok(())]));
    engine.scored_row(1).await;
    let close = async {
        sleep(Duration::from_millis(100)).await;
        engine.gate.close();
    };
    let (scored, ()) = join(engine.scored_row(2), close).await;
    assert!(scored.verdict.is_none());
    assert_eq!(calls_and_keys(&engine), (2, 0, 0));
}
