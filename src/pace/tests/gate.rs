//! The gate on tokio's paused clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::pace::gate::{Gate, Permit, Undurable};
use crate::pace::retry::RowRefusals;
use crate::pace::types::{CallSignal, PaceEvent, PaceLimits};
use crate::telemetry::pace::FoundLimit;

fn gate(in_flight: usize, rate: &str) -> Gate {
    let limits = PaceLimits {
        rate: rate.parse().unwrap(),
        in_flight: in_flight.try_into().unwrap(),
        remembered: FoundLimit::default(),
        max_wait: Duration::from_secs(900),
    };
    Gate::new(limits, fastrand::Rng::with_seed(7))
}

async fn immediately<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::ZERO, future).await.ok()
}

/// Ends a call now. What is left of its permit, until its answer is durable, and what followed.
fn end(permit: Permit<'_>, signal: CallSignal) -> (Undurable<'_>, Option<PaceEvent>) {
    permit.finish(Instant::now(), signal, &mut RowRefusals::default())
}

#[tokio::test(start_paused = true)]
async fn permits_are_as_many_as_calls_may_be_in_flight_and_twice_with_answers_that_are_not_durable()
{
    let gate = gate(2, "unlimited");
    let first = gate.permit().await.unwrap();
    let second = gate.permit().await.unwrap();
    assert!(immediately(gate.permit()).await.is_none());
    let first = end(first, CallSignal::Answered).0;
    let second = end(second, CallSignal::Answered).0;
    let _third = immediately(gate.permit()).await.unwrap().unwrap();
    let fourth = immediately(gate.permit()).await.unwrap().unwrap();
    let _fourth = end(fourth, CallSignal::Answered).0;
    assert!(immediately(gate.permit()).await.is_none());
    drop((first, second));
    assert!(immediately(gate.permit()).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_all_calls_and_then_one_goes_first() {
    let gate = gate(4, "unlimited");
    let asked = Some(Duration::from_secs(30));
    let (permit, began) = (gate.permit().await.unwrap(), Instant::now());
    let (_, event) = end(permit, CallSignal::Throttled(asked));
    let Some(PaceEvent::Paused(pause)) = event else {
        panic!("{event:?}");
    };
    assert!((30.0..=33.0).contains(&pause.length.as_secs_f64()));
    let probe = gate.permit().await.unwrap();
    assert!(probe.began() - began >= pause.length);
    assert!(immediately(gate.permit()).await.is_none());
    drop(end(probe, CallSignal::Answered));
    let _second = gate.permit().await.unwrap();
    let _third = gate.permit().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pauses_in_a_row_end_with_an_accepted_call() {
    for refused in [CallSignal::Throttled(None), CallSignal::BusyOrAway] {
        let gate = gate(1, "auto");
        let good = CallSignal::Answered;
        for signal in [good, refused, good, refused] {
            let permit = gate.permit().await.unwrap();
            sleep(Duration::from_millis(20)).await;
            drop(end(permit, signal));
        }
        assert!(!gate.refuses_all(1), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_waits_for_a_call_to_end_is_woken_by_it() {
    let (gate, began) = (gate(1, "unlimited"), Instant::now());
    let first = gate.permit().await.unwrap();
    let (second, ()) = tokio::join!(gate.permit(), async {
        sleep(Duration::from_secs(1)).await;
        drop(end(first, CallSignal::Answered));
    });
    assert!(second.is_ok());
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn closing_wakes_all_who_wait() {
    let (gate, began) = (gate(1, "0.01/s"), Instant::now());
    drop(gate.permit().await.unwrap());
    let waiting = async {
        let back_off = gate.back_off(Duration::from_secs(99));
        tokio::join!(gate.permit(), gate.permit(), back_off)
    };
    let ((first, second, third), ()) = tokio::join!(waiting, async { gate.close() });
    assert!(first.is_err() && second.is_err() && third.is_err());
    assert!(gate.permit().await.is_err());
    assert_eq!(began.elapsed(), Duration::ZERO);
}
