//! What holds with any service: properties over all outcomes at all times, and a few plain cases.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::unchecked_time_subtraction,
    clippy::similar_names,
    reason = "tests"
)]

use std::time::Duration;

use proptest::prelude::*;

use crate::pace::controller::Controller;
use crate::pace::types::Rate;
use crate::pace::types::{Admission, Allowance, Call, CallOutcome, PaceEvent, PaceLimits, Try};
use crate::telemetry::pace::Limit;

const MILLISECOND: Duration = Duration::from_millis(1);

fn limits(rate: Rate, in_flight: usize) -> PaceLimits {
    PaceLimits {
        rate,
        in_flight: in_flight.try_into().unwrap(),
        known: Limit::NONE,
        max_wait: Duration::from_secs(900),
    }
}

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    /// All calls start that may.
    Ask,
    /// Time passes.
    Wait(u64),
    /// This one of the calls that are out ends, a millisecond later.
    End(usize, CallOutcome, f64),
    /// Headers say what is left.
    Allowed(u64, u64),
}

fn outcome() -> impl Strategy<Value = CallOutcome> {
    prop_oneof![
        8 => Just(CallOutcome::Answered),
        2 => prop::option::of(0_u64..100).prop_map(|wait| CallOutcome::Throttled(wait.map(Duration::from_secs))),
        1 => Just(CallOutcome::Failed),
        1 => Just(CallOutcome::Unavailable),
        1 => Just(CallOutcome::TimedOut),
        1 => Just(CallOutcome::Abandoned),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Ask),
        3 => (0_u64..2_000).prop_map(Step::Wait),
        // A laptop sleeps, or no rows come.
        1 => (10_000_u64..10_000_000).prop_map(Step::Wait),
        6 => (any::<usize>(), outcome(), 0.0..1.0).prop_map(|(which, how, chance)| Step::End(which, how, chance)),
        1 => (0_u64..100, 0_u64..100).prop_map(|(calls, lasts)| Step::Allowed(calls, lasts)),
    ]
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![
        Just(Rate::Auto),
        Just(Rate::Unlimited),
        Just(Rate::Share(0.8)),
        (0.01..5_000.0).prop_map(Rate::PerSecond),
    ]
}

/// A controller among calls, and what must always hold.
struct World {
    controller: Controller,
    limits: PaceLimits,
    now: Duration,
    out: Vec<Call>,
    /// When calls started.
    begun: Vec<Duration>,
    paused_until: Duration,
}

impl World {
    fn ask(&mut self) {
        loop {
            match self.controller.admit(self.now) {
                Admission::Admitted(call) => {
                    assert!(self.now >= self.paused_until, "a call in a pause");
                    self.out.push(call);
                    self.begun.push(self.now);
                    assert!(self.out.len() <= self.limits.in_flight.get());
                }
                Admission::NotBefore(at) => {
                    assert!(at > self.now, "the time to ask again must be later");
                    return;
                }
                Admission::AfterAnother => {
                    assert!(!self.out.is_empty(), "it would wait for ever");
                    return;
                }
            }
        }
    }

    fn step(&mut self, step: &Step) {
        if self.limits.rate == Rate::Unlimited {
            assert_eq!(self.controller.limit(), Limit::NONE, "without a search");
        }
        match *step {
            Step::Ask => self.ask(),
            Step::Wait(milliseconds) => self.now += Duration::from_millis(milliseconds),
            Step::End(which, how, chance) => {
                if self.out.is_empty() {
                    return;
                }
                self.now += MILLISECOND;
                let call = self.out.swap_remove(which % self.out.len());
                let change = self
                    .controller
                    .call_ended(self.now, call, how, Try::First, chance);
                if let Some(PaceEvent::Paused(pause)) = change {
                    self.paused_until = self.paused_until.max(self.now + pause.length);
                }
            }
            Step::Allowed(calls, lasts) => {
                let lasts = Duration::from_secs(lasts);
                self.controller
                    .allowed(self.now, Allowance { calls, lasts });
            }
        }
    }

    /// All calls are answered, and then another one can start before long.
    fn goes_on(&mut self) {
        for call in std::mem::take(&mut self.out) {
            self.controller
                .call_ended(self.now, call, CallOutcome::Answered, Try::First, 0.0);
        }
        for _ in 0..1_000 {
            match self.controller.admit(self.now) {
                Admission::Admitted(_) => return,
                Admission::NotBefore(at) => self.now = at,
                Admission::AfterAnother => unreachable!("no call is out"),
            }
        }
        panic!("it would stall for ever");
    }

    /// In no second there are more calls than the user's rate allows, except for a burst of 10 ms and the one that was due.
    fn keeps_to_the_rate(&self) {
        let Rate::PerSecond(rate) = self.limits.rate else {
            return;
        };
        for (nth, first) in self.begun.iter().enumerate() {
            let second = self.begun.iter().skip(nth);
            let count = second
                .take_while(|at| **at < *first + Duration::from_secs(1))
                .count();
            let most = rate * 1.01 + 2.0;
            assert!(count as f64 <= most, "{count} at {rate}/s");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_call_is_ever_made_in_a_pause_or_above_a_ceiling(
        rate in rate(),
        in_flight in 1_usize..100,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let limits = limits(rate, in_flight);
        let mut world = World {
            controller: Controller::new(&limits),
            limits,
            now: Duration::ZERO,
            out: Vec::new(),
            begun: Vec::new(),
            paused_until: Duration::ZERO,
        };
        for step in &steps {
            world.step(step);
        }
        world.keeps_to_the_rate();
        world.goes_on();
    }

    #[test]
    fn after_an_idle_time_there_is_no_burst(rest in 1_u64..100_000, calls in 10_usize..500) {
        let mut controller = Controller::new(&limits(Rate::Auto, 1_000));
        let mut now = Duration::ZERO;
        for _ in 0..calls {
            let call = loop {
                match controller.admit(now) {
                    Admission::Admitted(call) => break call,
                    Admission::NotBefore(at) => now = at,
                    Admission::AfterAnother => unreachable!("no call is out"),
                }
            };
            now += Duration::from_millis(20);
            controller.call_ended(now, call, CallOutcome::Answered, Try::First, 0.0);
        }
        now += Duration::from_secs(rest);
        let at_once = std::iter::from_fn(|| match controller.admit(now) {
            Admission::Admitted(call) => Some(call),
            _ => None,
        })
        .count();
        let burst = controller.rate(now).unwrap() * 0.010;
        prop_assert!(at_once as f64 <= burst.max(1.0) + 1.0, "{at_once}");
    }
}

/// Makes a call as soon as it may start. It takes 50 ms and ends with this outcome.
fn call(
    controller: &mut Controller,
    now: &mut Duration,
    outcome: CallOutcome,
) -> Option<PaceEvent> {
    call_of(controller, now, outcome, Try::First)
}

/// The same for a row that may have been refused before.
fn call_of(
    controller: &mut Controller,
    now: &mut Duration,
    outcome: CallOutcome,
    tried: Try,
) -> Option<PaceEvent> {
    loop {
        match controller.admit(*now) {
            Admission::Admitted(call) => {
                *now += MILLISECOND * 50;
                return controller.call_ended(*now, call, outcome, tried, 0.0);
            }
            Admission::NotBefore(at) => *now = at,
            Admission::AfterAnother => unreachable!("no call is out"),
        }
    }
}

#[test]
fn a_run_starts_slowly_unless_a_rate_is_named() {
    let mut auto = Controller::new(&limits(Rate::Auto, 64));
    assert_eq!(
        (auto.rate(Duration::ZERO), auto.most_in_flight()),
        (Some(10.0), 4)
    );
    let mut now = Duration::ZERO;
    for _ in 0..40 {
        call(&mut auto, &mut now, CallOutcome::Answered);
    }
    assert!(auto.rate(now).unwrap() > 10.0, "{:?}", auto.rate(now));
    let named = Controller::new(&limits(Rate::PerSecond(30.0), 64));
    assert_eq!((named.rate(now), named.most_in_flight()), (Some(30.0), 64));
    let free = Controller::new(&limits(Rate::Unlimited, 64));
    assert_eq!((free.rate(now), free.most_in_flight()), (None, 64));
}

#[test]
fn a_run_starts_near_a_known_limit() {
    let near = PaceLimits {
        known: Limit {
            rate: Some(100.0),
            in_flight: Some(20),
        },
        ..limits(Rate::Auto, 64)
    };
    let mut controller = Controller::new(&near);
    let mut now = Duration::ZERO;
    assert_eq!(controller.rate(now), Some(80.0));
    assert_eq!(controller.most_in_flight(), 16);
    // Until the service refuses, the known limit stays.
    assert_eq!(controller.limit(), near.known);
    while now < Duration::from_secs(60) {
        call(&mut controller, &mut now, CallOutcome::Answered);
    }
    // One call after the other does not need more.
    assert!(controller.rate(now).unwrap() <= 100.0);
    assert!(controller.most_in_flight() <= 20);
    assert_eq!(controller.limit(), near.known);
}

#[test]
fn a_known_limit_is_ignored_where_the_user_allows_less_or_everything() {
    let known = Limit {
        rate: Some(100.0),
        in_flight: Some(20),
    };
    let limit = |rate, in_flight| {
        let near = PaceLimits {
            known,
            ..limits(rate, in_flight)
        };
        Controller::new(&near).limit()
    };
    assert_eq!(limit(Rate::PerSecond(200.0), 64), known);
    assert_eq!(limit(Rate::Auto, 20).in_flight, None);
    assert_eq!(limit(Rate::PerSecond(100.0), 64).rate, None);
    assert_eq!(limit(Rate::Unlimited, 64), Limit::NONE);
}

#[test]
fn headers_slow_down_and_never_speed_up() {
    let mut controller = Controller::new(&limits(Rate::PerSecond(50.0), 64));
    let at = Duration::from_secs;
    for (now, calls, lasts, expected) in [
        (1, 100, 10, 10.0),
        (20, 10_000, 10, 50.0),
        (40, 0, 10, 0.5),
        // What they asked for is over, and a day's quota is not spread evenly.
        (60, 10, 86_400, 50.0),
    ] {
        let lasts = at(lasts);
        controller.allowed(at(now), Allowance { calls, lasts });
        assert_eq!(controller.rate(at(now)), Some(expected), "at {now} s");
    }
}

#[test]
fn half_of_the_calls_failing_is_no_outage_and_nine_in_ten_are() {
    for (failing, is_outage) in [(2, false), (10, true)] {
        let mut controller = Controller::new(&limits(Rate::PerSecond(500.0), 64));
        let mut now = Duration::ZERO;
        let is_down = (0..2_000).any(|nth| {
            let is_good = nth % failing == 0;
            let outcome = if is_good {
                CallOutcome::Answered
            } else {
                CallOutcome::Failed
            };
            call(&mut controller, &mut now, outcome);
            controller.is_down()
        });
        assert_eq!(is_down, is_outage, "one in {failing} is good");
    }
}

#[test]
fn a_service_that_is_down_is_tried_ever_more_rarely_until_patience_ends() {
    let patience = PaceLimits {
        max_wait: Duration::from_secs(200),
        ..limits(Rate::PerSecond(40.0), 20)
    };
    let mut controller = Controller::new(&patience);
    let mut now = Duration::ZERO;
    call(&mut controller, &mut now, CallOutcome::Answered);
    for _ in 0..9 {
        assert_eq!(
            call(&mut controller, &mut now, CallOutcome::Unavailable),
            None
        );
    }
    let waits: Vec<_> = [
        CallOutcome::Unavailable,
        CallOutcome::Unavailable,
        CallOutcome::BusyOrAway,
        // It answers, so it is tried more often.
        CallOutcome::Failed,
        CallOutcome::Unavailable,
        CallOutcome::Unavailable,
        CallOutcome::Unavailable,
    ]
    .into_iter()
    .map(|outcome| match call(&mut controller, &mut now, outcome) {
        Some(PaceEvent::Down { next, .. }) => next.as_secs_f64().round(),
        event => panic!("{event:?}"),
    })
    .collect();
    // Patience counts from the first failed call.
    assert_eq!(waits, [5.0, 10.0, 20.0, 10.0, 60.0, 60.0, 34.0]);
}

#[test]
fn refusals_and_an_outage_count_together_until_patience_ends() {
    let patience = PaceLimits {
        max_wait: Duration::from_secs(60),
        ..limits(Rate::PerSecond(40.0), 20)
    };
    let mut controller = Controller::new(&patience);
    let mut now = Duration::ZERO;
    call(&mut controller, &mut now, CallOutcome::Answered);
    let asked = CallOutcome::Throttled(Some(Duration::from_secs(40)));
    call(&mut controller, &mut now, asked);
    let first = now;
    while !controller.is_down() {
        call(&mut controller, &mut now, CallOutcome::Unavailable);
    }
    call(&mut controller, &mut now, CallOutcome::Unavailable);
    call(&mut controller, &mut now, CallOutcome::Unavailable);
    // The wait after that would end later.
    call(&mut controller, &mut now, CallOutcome::Unavailable);
    let waited = controller.in_vain_for(now);
    assert_eq!(waited, now - first);
    assert!((60.0..60.2).contains(&waited.as_secs_f64()), "{waited:?}");
    call(&mut controller, &mut now, CallOutcome::Answered);
    assert_eq!(controller.in_vain_for(now), Duration::ZERO);
}

#[test]
fn single_calls_that_get_a_bare_503_show_an_outage_in_the_end() {
    let mut controller = Controller::new(&limits(Rate::Auto, 20));
    let mut now = Duration::ZERO;
    call(&mut controller, &mut now, CallOutcome::Answered);
    let mut pauses = Vec::new();
    while !controller.is_down() {
        match call(&mut controller, &mut now, CallOutcome::BusyOrAway) {
            Some(PaceEvent::Paused(pause)) => pauses.push(pause.length.as_secs_f64()),
            event => assert!(matches!(event, Some(PaceEvent::Down { .. })), "{event:?}"),
        }
    }
    let doubling = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0];
    assert_eq!(pauses, doubling);
}

#[test]
fn with_an_unlimited_rate_refusals_do_not_lower_the_calls_in_flight() {
    let mut controller = Controller::new(&limits(Rate::Unlimited, 20));
    let mut now = Duration::ZERO;
    for _ in 0..6 {
        let calls: Vec<Call> = std::iter::from_fn(|| match controller.admit(now) {
            Admission::Admitted(call) => Some(call),
            _ => None,
        })
        .collect();
        now += MILLISECOND * 50;
        let asked = Some(Duration::from_secs(1));
        for (nth, call) in calls.iter().enumerate() {
            let how = if nth < 10 {
                CallOutcome::Answered
            } else {
                CallOutcome::Throttled(asked)
            };
            controller.call_ended(now, *call, how, Try::First, 0.0);
        }
        now += Duration::from_secs(2);
        call(&mut controller, &mut now, CallOutcome::Answered);
    }
    assert_eq!(
        (controller.rate(now), controller.most_in_flight()),
        (None, 20)
    );
}

#[test]
fn only_the_cut_that_a_row_led_to_is_undone_once_it_is_known_to_be_about_the_row() {
    let mut controller = Controller::new(&limits(Rate::Auto, 64));
    let mut now = Duration::ZERO;
    let refused = CallOutcome::Throttled(None);
    let answers = |controller: &mut Controller, now: &mut Duration| {
        for _ in 0..20 {
            call(controller, now, CallOutcome::Answered);
        }
    };
    answers(&mut controller, &mut now);
    let before = controller.rate(now).unwrap();
    call(&mut controller, &mut now, refused);
    assert!(controller.rate(now).unwrap() < before);
    call_of(&mut controller, &mut now, refused, Try::FoundAlone);
    assert_eq!(controller.rate(now), Some(before));

    answers(&mut controller, &mut now);
    call(&mut controller, &mut now, refused);
    let cut = controller.rate(now);
    call_of(&mut controller, &mut now, refused, Try::AgainAlone);
    assert_eq!(controller.rate(now), cut, "another row led to it");
}

#[test]
fn a_service_that_is_back_is_called_at_half_the_pace() {
    let mut controller = Controller::new(&limits(Rate::PerSecond(40.0), 20));
    let mut now = Duration::ZERO;
    while now < Duration::from_secs(20) {
        call(&mut controller, &mut now, CallOutcome::Answered);
    }
    let before = now;
    let down =
        std::iter::from_fn(|| Some(call(&mut controller, &mut now, CallOutcome::Unavailable)))
            .take(10)
            .last();
    assert!(
        matches!(down, Some(Some(PaceEvent::Down { .. }))),
        "{down:?}"
    );
    call(&mut controller, &mut now, CallOutcome::Unavailable);
    for _ in 0..2 {
        assert_eq!(call(&mut controller, &mut now, CallOutcome::Answered), None);
    }
    let up = call(&mut controller, &mut now, CallOutcome::Answered);
    assert!(matches!(up, Some(PaceEvent::Up { .. })), "{up:?}");
    assert!(now - before >= Duration::from_secs(15), "5 s and 10 s");
    let rate = controller.rate(now).unwrap();
    assert!((rate - 20.0).abs() < 1e-9, "half of 40/s: {rate}");
    assert_eq!(controller.most_in_flight(), 10);
}
