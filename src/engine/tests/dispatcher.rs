//! Tests of the dispatcher's handlers without its loop: what each thing that happens does to its state.

use crate::base::numbers::Tolerance;
use crate::engine::dispatcher::Dispatcher;
use crate::engine::parts::{RowCall, RowOutcome};
use crate::ledger::{ClaimResult, Claimed, WorkerNumber};
use crate::pace::FailureBudget;
use crate::verdict::{Answer, Decision, Score, TransactionId};

use super::harness::*;

fn rows(asked: Vec<RowState>) -> Read {
    Read::Rows(RowBatch {
        dropped: 0,
        rows: pending(asked),
        position: 0,
        trailer: Bytes::new(),
    })
}

/// A row that was scored, with a verdict or without one.
fn done(call: &RowCall, has_verdict: bool) -> RowOutcome {
    let answer = Answer {
        transaction_id: TransactionId::new("t").unwrap(),
        score: Score::from_json_number("1").unwrap(),
        captured: Box::default(),
    };
    RowOutcome {
        row: call.row,
        verdict: has_verdict.then_some(Verdict::Scored(answer, Some(Decision::Approve))),
        stop: None,
    }
}

/// Claims what is to be claimed.
fn claim(dispatcher: &mut Dispatcher<'_, Scripted>) {
    if let Some((requests, _)) = dispatcher.claim_now() {
        let ours = ClaimResult::Ours { taken_over: false };
        dispatcher.claimed(Ok(Claimed {
            worker: WorkerNumber::default(),
            results: vec![ours; requests.len()],
        }));
    }
}

/// The numbers of the rows that the dispatcher hands over at the end.
fn rest(dispatcher: &mut Dispatcher<'_, Scripted>) -> Vec<u64> {
    let (rows, _) = dispatcher.take_rest();
    rows.iter().map(|row| row.number.get()).collect()
}

#[tokio::test(start_paused = true)]
async fn rows_are_read_only_while_none_waits() {
    let engine = engine(4, &Log::default(), Scripted::new(GOOD));
    let mut dispatcher = Dispatcher::new(&engine, WINDOW);
    let needs = |dispatcher: &Dispatcher<'_, _>| {
        let (reads, writes) = (dispatcher.wants_rows(), dispatcher.should_write());
        (
            reads,
            (dispatcher.needs_permit(), dispatcher.may_start()),
            writes,
        )
    };
    assert_eq!(needs(&dispatcher), (true, (false, false), false));
    dispatcher.read(Some(rows(asked(2, &[]))));
    assert!(!dispatcher.wants_rows());
    claim(&mut dispatcher);
    // The canary: the second row waits until the first has its verdict, or the service is known to be down.
    let (first, _permit) = dispatcher.start_now().unwrap();
    claim(&mut dispatcher);
    assert!(dispatcher.start_now().is_none());
    assert_eq!(needs(&dispatcher), (true, (true, false), false));
    assert!(dispatcher.scoring > 0 && dispatcher.write_at().is_none());
    dispatcher.row_done(done(&first, true));
    claim(&mut dispatcher);
    assert_eq!(needs(&dispatcher), (true, (true, true), false));
    assert!(
        dispatcher.write_at().is_some(),
        "the first row waits for more"
    );
    dispatcher.rows.window.set_overdue();
    assert_eq!(needs(&dispatcher), (true, (true, true), true));
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_no_row_needs_any_more_starts_nothing() {
    let engine = engine(1, &Log::default(), Scripted::new(GOOD));
    let mut dispatcher = Dispatcher::new(&engine, WINDOW);
    assert!(dispatcher.start().is_none());
    dispatcher.read(Some(rows(asked(1, &[]))));
    claim(&mut dispatcher);
    assert_eq!(dispatcher.start().unwrap().row, RowNumber::FIRST);
}

#[tokio::test(start_paused = true)]
async fn admission_stops_at_the_row_that_reaches_the_limit_of_failures() {
    let log = Log::default();
    let most = Tolerance::Rows(3);
    let engine = fixture(4, &log, Scripted::new(GOOD))
        .failures(FailureBudget(Some(most)))
        .build();
    let mut dispatcher = Dispatcher::new(&engine, WINDOW);
    dispatcher.read(Some(rows(asked(9, &[1, 2, 3, 4, 5]))));
    assert!(dispatcher.start_now().is_none());
    assert!(dispatcher.is_done());
    assert_eq!(rest(&mut dispatcher), [1, 2, 3]);
    let stop = dispatcher.into_stop().unwrap();
    assert_eq!(stop.reason, CancelReason::MaxFailures);
    assert_eq!(
        engine.events().with_counts(|counts| counts.rows.resolved),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_no_row_starts_and_a_lost_answer_is_still_reported() {
    let log = Log::default();
    let engine = engine(4, &log, Scripted::new(GOOD));
    let mut dispatcher = Dispatcher::new(&engine, WINDOW);
    dispatcher.read(Some(rows(asked(3, &[]))));
    claim(&mut dispatcher);
    let (call, _permit) = dispatcher.start_now().unwrap();
    dispatcher.stop(Stop {
        reason: CancelReason::Interrupted,
        error: None,
    });
    assert!(engine.gate.permit().await.is_err());
    assert!(dispatcher.start_now().is_none() && !dispatcher.is_done());
    assert!(dispatcher.scoring > 0 && dispatcher.drain_ends().is_some());
    assert!(!dispatcher.wants_rows());

    dispatcher.stop(Stop::new(CancelReason::Ledger, Error::stopped("disk full")));
    dispatcher.row_done(done(&call, false));
    assert!(dispatcher.is_done());
    let stop = dispatcher.into_stop().unwrap();
    assert_eq!(stop.reason, CancelReason::Interrupted);
    assert_eq!(stop.error.unwrap().to_string(), "disk full");
    let began = |(_, event): &&(Duration, Event)| matches!(event, Event::CancelBegan(_));
    assert_eq!(log.events().iter().filter(began).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn when_the_drain_ends_rows_without_a_verdict_are_left() {
    let log = Log::default();
    let engine = engine(4, &log, Scripted::new(GOOD));
    let mut dispatcher = Dispatcher::new(&engine, WINDOW);
    dispatcher.read(Some(rows(asked(2, &[1]))));
    claim(&mut dispatcher);
    assert!(dispatcher.start_now().is_some());
    dispatcher.stop(Stop {
        reason: CancelReason::Terminated,
        error: None,
    });
    assert!(dispatcher.drain_ends().is_some());
    dispatcher.scoring = 0;
    assert!(dispatcher.is_done());
    assert_eq!(rest(&mut dispatcher), [1]);
    assert_eq!(
        engine.events().with_counts(|counts| counts.rows.unfinished),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn threads_that_end_without_a_message_stop_the_run_as_a_bug() {
    for is_reader in [true, false] {
        let engine = engine(4, &Log::default(), Scripted::new(GOOD));
        let mut dispatcher = Dispatcher::new(&engine, WINDOW);
        if is_reader {
            dispatcher.read(None);
        } else {
            dispatcher.writer_gone(None);
        }
        assert!(dispatcher.is_done());
        let stop = dispatcher.into_stop().unwrap();
        assert_eq!(stop.reason, CancelReason::Internal);
        assert_eq!(stop.error.unwrap().exit(), Exit::Internal);
    }
}
