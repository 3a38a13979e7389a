//! Tests of the dispatcher's handlers without its loop: what each thing that happens does to its state.

use crate::pace::{FailureBudget, FailureLimit};
use crate::pipeline::dispatcher::{Dispatcher, Response};
use crate::pipeline::interests::{Interests, StartNeeds, WriteNeeds};
use crate::pipeline::wake::Wake;
use crate::scorer::{RowCall, RowOutcome};
use crate::verdict::{Answer, Decision, Score, TransactionId};

use super::harness::*;

type Tested<'a> = Dispatcher<'a, Scripted>;

fn rows(asked: Vec<Asked>) -> Wake<'static> {
    Wake::Read(Some(Read::Rows {
        rows: pending(asked),
        position: 0,
        trailer: Bytes::new(),
    }))
}

/// A row that was scored, with a verdict or without one.
fn done(call: &RowCall, has_verdict: bool) -> Wake<'static> {
    let answer = Answer {
        transaction_id: TransactionId::new("t").unwrap(),
        score: Score::from_json_number("1").unwrap(),
        captured: Box::default(),
    };
    Wake::RowDone(RowOutcome {
        row: call.row,
        verdict: has_verdict.then_some(Verdict::Scored(answer, Some(Decision::Approve))),
        stop: None,
    })
}

fn asked_to_stop(reason: CancelReason, error: Option<Error>) -> Wake<'static> {
    Wake::StopAsked(Stop { reason, error })
}

/// Has the dispatcher handle something that needs nothing else to be done.
fn handle<'a>(dispatcher: &mut Tested<'a>, wake: Wake<'a>) {
    assert!(matches!(dispatcher.handle(wake), Response::None));
}

/// The numbers of the rows that the dispatcher hands over at the end.
fn rest(dispatcher: &mut Tested<'_>) -> Vec<u64> {
    match dispatcher.take_rest() {
        (Some(Write::Rows(rows)), _) => rows.iter().map(|row| row.row.number.get()).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn rows_are_read_only_while_none_waits() {
    let scorer = scorer(4, &Log::default(), Scripted::new(GOOD));
    let mut dispatcher = Dispatcher::new(&scorer, WINDOW);
    let reading = Interests {
        row_done: false,
        read: true,
        drain_end: false,
        start: StartNeeds::NoRow,
        write: WriteNeeds::NoRow,
        claims: None,
    };
    assert_eq!(dispatcher.interests(), reading);
    handle(&mut dispatcher, rows(asked(2, &[])));
    // The canary: the second row waits until the first has its verdict, or the service is known to be down.
    let (first, _permit) = dispatcher.start_now().unwrap();
    assert!(dispatcher.start_now().is_none());
    let canary = Interests {
        row_done: true,
        read: false,
        start: StartNeeds::Canary,
        ..reading
    };
    assert_eq!(dispatcher.interests(), canary);
    handle(&mut dispatcher, done(&first, true));
    let second = Interests {
        read: false,
        start: StartNeeds::Permit,
        write: WriteNeeds::More,
        ..reading
    };
    assert_eq!(dispatcher.interests(), second);
    handle(&mut dispatcher, Wake::WriteDue);
    assert_eq!(dispatcher.interests().write, WriteNeeds::Writer);
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_no_row_needs_any_more_is_given_back() {
    let scorer = scorer(1, &Log::default(), Scripted::new(GOOD));
    let mut dispatcher = Dispatcher::new(&scorer, WINDOW);
    let permit = scorer.try_permit().unwrap();
    assert!(scorer.try_permit().is_none());
    handle(&mut dispatcher, Wake::Permit(permit));
    assert!(scorer.try_permit().is_some());

    handle(&mut dispatcher, rows(asked(1, &[])));
    let permit = scorer.try_permit().unwrap();
    let response = dispatcher.handle(Wake::Permit(permit));
    assert!(matches!(response, Response::Score(call, _) if call.row == RowNumber::FIRST));
}

#[tokio::test(start_paused = true)]
async fn admission_stops_at_the_row_that_reaches_the_limit_of_failures() {
    let log = Log::default();
    let most = FailureLimit::Rows(3.try_into().unwrap());
    let scorer = fixture(4, &log, Scripted::new(GOOD))
        .failures(FailureBudget(Some(most)))
        .build();
    let mut dispatcher = Dispatcher::new(&scorer, WINDOW);
    handle(&mut dispatcher, rows(asked(9, &[1, 2, 3, 4, 5])));
    assert!(dispatcher.start_now().is_none());
    assert!(dispatcher.is_done());
    assert_eq!(rest(&mut dispatcher), [1, 2, 3]);
    let stop = dispatcher.into_stop().unwrap();
    assert_eq!(stop.reason, CancelReason::MaxFailures);
    assert_eq!(scorer.events().with_stats(Stats::resolved), 3);
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_no_row_starts_and_a_lost_answer_is_still_reported() {
    let log = Log::default();
    let scorer = scorer(4, &log, Scripted::new(GOOD));
    let mut dispatcher = Dispatcher::new(&scorer, WINDOW);
    handle(&mut dispatcher, rows(asked(3, &[])));
    let (call, _permit) = dispatcher.start_now().unwrap();
    let interrupted = asked_to_stop(CancelReason::Interrupted, None);
    handle(&mut dispatcher, interrupted);
    assert!(scorer.permit().await.is_err());
    assert!(dispatcher.start_now().is_none() && !dispatcher.is_done());
    let interests = dispatcher.interests();
    assert!(interests.row_done && interests.drain_end && !interests.read);

    let lost = asked_to_stop(CancelReason::Ledger, Some(Error::stopped("disk full")));
    handle(&mut dispatcher, lost);
    handle(&mut dispatcher, done(&call, false));
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
    let scorer = scorer(4, &log, Scripted::new(GOOD));
    let mut dispatcher = Dispatcher::new(&scorer, WINDOW);
    handle(&mut dispatcher, rows(asked(2, &[1])));
    assert!(dispatcher.start_now().is_some());
    let terminated = asked_to_stop(CancelReason::Terminated, None);
    handle(&mut dispatcher, terminated);
    assert!(dispatcher.drain_ends().is_some());
    let response = dispatcher.handle(Wake::DrainEnded);
    assert!(matches!(response, Response::GiveUp) && dispatcher.is_done());
    assert_eq!(rest(&mut dispatcher), [1]);
    assert_eq!(scorer.events().with_stats(|stats| stats.left), 1);
}

#[tokio::test(start_paused = true)]
async fn threads_that_end_without_a_message_stop_the_run_as_a_bug() {
    for wake in [|| Wake::Read(None), || Wake::WriterGone(None)] {
        let scorer = scorer(4, &Log::default(), Scripted::new(GOOD));
        let mut dispatcher = Dispatcher::new(&scorer, WINDOW);
        handle(&mut dispatcher, wake());
        assert!(dispatcher.is_done());
        let stop = dispatcher.into_stop().unwrap();
        assert_eq!(stop.reason, CancelReason::Internal);
        assert_eq!(stop.error.unwrap().exit(), Exit::Internal);
    }
}
