//! Rows that the service always refuses for being too many calls, wherever they are: the others get their verdicts.

use super::harness::*;
use crate::pace::Rate;

/// A run at a pace that is searched for, over this number of rows of which these are always refused, and its counters.
async fn run_refusing(rows: u64, refused: impl Iterator<Item = u64>) -> (RunEnd, Counts) {
    let log = Log::default();
    let service = refused.fold(Scripted::new(GOOD), |service, row| {
        service.row(row, [ScriptedResult::Status(429).after(10); 60])
    });
    let engine = fixture(64, &log, service).rate(Rate::Auto).build();
    let read = batches(asked(rows, &[]), &[usize::try_from(rows).unwrap()]);
    let ran = run_to_end(&engine, Surroundings::of(read)).await;
    assert_invariants(&engine);
    let counts = engine.events().with_counts(Clone::clone);
    (ran, counts)
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_always_refused_does_not_stop_the_others_also_if_it_comes_first() {
    for row in [1, 2, 50] {
        let (ran, counts) = run_refusing(100, row..=row).await;
        assert!(ran.stop.is_none(), "row {row}");
        assert_eq!((counts.scored(), counts.failed.rows), (99, 1), "row {row}");
        assert!(
            counts.calls.throttled < 20,
            "row {row}: {}",
            counts.calls.throttled
        );
        assert!(
            ran.elapsed < Duration::from_secs(40),
            "row {row}: {:?}",
            ran.elapsed
        );
    }
}

#[tokio::test(start_paused = true)]
async fn several_rows_in_a_row_that_are_always_refused_do_not_stop_the_others() {
    for (first, rows) in [(201, 4), (201, 8), (1, 4)] {
        let (ran, counts) = run_refusing(1_000, first..first + rows).await;
        let case = format!("{rows} rows from row {first}: {:?}", ran.elapsed);
        assert!(ran.stop.is_none(), "{case}");
        assert_eq!(
            (counts.scored(), counts.failed.rows),
            (1_000 - rows, rows),
            "{case}"
        );
        assert!(ran.elapsed < Duration::from_secs(180), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_search_no_second_row_is_sent_before_the_first_verdict() {
    let log = Log::default();
    let service = Scripted::new(ScriptedResult::Status(429).after(10));
    let engine = engine(64, &log, service);
    let read = batches(asked(1_000, &[]), &[1_000]);
    let ran = run_to_end(&engine, Surroundings::of(read)).await;
    assert!(ran.stop.is_some());
    let made = engine.service().made();
    assert!(made.iter().all(|made| made.row == 1));
    assert!(made.len() < 100, "{}", made.len());
    assert_invariants(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_third_of_refusals_at_random_delays_no_row_to_the_end_of_the_file() {
    let log = Log::default();
    let service = (1..=5_000)
        .filter(|row| row % 5 < 2)
        .fold(Scripted::new(GOOD), |service, row| {
            service.row(row, [ScriptedResult::Status(429).after(10)])
        });
    let engine = engine(64, &log, service);
    let read = batches(asked(5_000, &[]), &[5_000]);
    let ran = run_to_end(&engine, Surroundings::of(read)).await;
    assert!(ran.stop.is_none());
    let made = engine.service().made();
    let second = made.iter().rposition(|made| made.row == 5).unwrap();
    assert!(second < 2_000, "{second} of {}", made.len());
    assert_invariants(&engine);
}
