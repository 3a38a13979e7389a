//! What holds while a share of random refusals is known: then a single refusal says nothing, and only their number does.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use super::state::Controller;
use super::tests::{MILLISECOND, call, call_of, limits};
use crate::pace::rate::Rate;
use crate::pace::types::{Admission, CallOutcome, PaceEvent, Try};
use crate::telemetry::pace::Limit;

const REFUSED: CallOutcome = CallOutcome::Throttled(None);
const RUN: Duration = Duration::from_secs(300);

/// Every eighth call is refused.
fn eighth(number: u32) -> CallOutcome {
    if number.is_multiple_of(8) {
        REFUSED
    } else {
        CallOutcome::Answered
    }
}

/// A run that knows the share, one call at a time.
fn with_a_share(now: &mut Duration) -> Controller {
    let mut controller = Controller::new(limits(Rate::Auto, 64));
    let knows = (0..100_000).any(|number| {
        call(&mut controller, now, eighth(number));
        *now > RUN && controller.pace(*now).refused_at_any.is_some()
    });
    assert!(knows, "no share is known after {now:?}");
    controller
}

#[test]
fn a_moment_in_which_all_is_refused_shows_no_limit_of_next_to_nothing() {
    let mut now = Duration::ZERO;
    let mut controller = with_a_share(&mut now);
    let moment = now + Duration::from_secs(2);
    while now < moment {
        call(&mut controller, &mut now, REFUSED);
    }
    assert!(controller.rate(now).unwrap() >= 1.0);
    let minute = now + Duration::from_secs(60);
    let is_back = (0..10_000).any(|number| {
        call(&mut controller, &mut now, eighth(number));
        controller.rate(now).unwrap() >= 20.0
    });
    assert!(is_back && now < minute, "20/s again within a minute");
}

#[test]
fn a_service_that_refuses_all_is_left_alone_whatever_share_is_known() {
    let mut now = Duration::ZERO;
    let mut controller = with_a_share(&mut now);
    let end = now + Duration::from_secs(900);
    let mut calls = 0;
    while now < end {
        call(&mut controller, &mut now, REFUSED);
        calls += 1;
    }
    assert!(calls < 100, "{calls} calls in 15 minutes");
}

#[test]
fn a_call_that_hangs_hides_refusals_only_for_a_moment() {
    let mut now = Duration::ZERO;
    let mut controller = with_a_share(&mut now);
    let before = controller.rate(now).unwrap();
    while !matches!(controller.admit(now), Admission::Admitted(_)) {
        now += MILLISECOND;
    }
    let mut calls = 0;
    while calls < 100 && controller.rate(now).unwrap() >= before {
        call(&mut controller, &mut now, REFUSED);
        calls += 1;
    }
    assert!(calls < 100, "no cut after {calls} calls");
}

#[test]
fn rows_that_are_always_refused_are_a_share_of_all_and_leave_no_limit() {
    let mut controller = Controller::new(limits(Rate::Auto, 64));
    let mut now = Duration::ZERO;
    for _ in 0..4 {
        for _ in 0..500 {
            call(&mut controller, &mut now, CallOutcome::Answered);
        }
        assert_eq!(controller.pace(now).refused_at_any, None);
        call(&mut controller, &mut now, REFUSED);
        call_of(&mut controller, &mut now, REFUSED, Try::FoundAlone);
    }
    let share = controller.pace(now).refused_at_any.unwrap();
    assert!((share - 0.002).abs() < 0.000_1, "{share}");
    assert_eq!(controller.limit(), Limit::NONE);
    let before = controller.rate(now);
    let event = call(&mut controller, &mut now, REFUSED);
    assert!(
        matches!(event, Some(PaceEvent::RowWaits(_))),
        "no other call waits: {event:?}"
    );
    assert!(controller.rate(now) >= before, "and none is slower");
}
