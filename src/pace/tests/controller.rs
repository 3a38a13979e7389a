//! What holds with any service: properties over all signals at all times, and a few plain cases.

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
use crate::pace::types::{Admission, Allowance, Call, CallSignal, PaceEvent, PaceLimits, Rate};
use crate::telemetry::pace::FoundLimit;

const MILLISECOND: Duration = Duration::from_millis(1);

fn limits(rate: Rate, in_flight: usize) -> PaceLimits {
    PaceLimits {
        rate,
        in_flight: in_flight.try_into().unwrap(),
        remembered: FoundLimit::default(),
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
    End(usize, CallSignal, f64),
    /// Headers say what is left.
    Allowed(u64, u64),
}

fn signal() -> impl Strategy<Value = CallSignal> {
    prop_oneof![
        8 => Just(CallSignal::Answered),
        2 => prop::option::of(0_u64..100).prop_map(|wait| CallSignal::Throttled(wait.map(Duration::from_secs))),
        1 => Just(CallSignal::Failed),
        1 => Just(CallSignal::Unavailable),
        1 => Just(CallSignal::TimedOut),
        1 => Just(CallSignal::Abandoned),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Ask),
        3 => (0_u64..2_000).prop_map(Step::Wait),
        // A laptop sleeps, or no rows come.
        1 => (10_000_u64..10_000_000).prop_map(Step::Wait),
        6 => (any::<usize>(), signal(), 0.0..1.0).prop_map(|(which, how, chance)| Step::End(which, how, chance)),
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
                Admission::OnChange => {
                    assert!(!self.out.is_empty(), "it would wait for ever");
                    return;
                }
            }
        }
    }

    fn step(&mut self, step: &Step) {
        if self.limits.rate == Rate::Unlimited {
            assert_eq!(
                self.controller.value.limit(),
                FoundLimit::default(),
                "without a search"
            );
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
                    .call_ended(self.now, call, how, false, chance);
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
                .call_ended(self.now, call, CallSignal::Answered, false, 0.0);
        }
        for _ in 0..1_000 {
            match self.controller.admit(self.now) {
                Admission::Admitted(_) => return,
                Admission::NotBefore(at) => self.now = at,
                Admission::OnChange => unreachable!("no call is out"),
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
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

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
        let mut one = Calls::new(&limits(Rate::Auto, 1_000));
        one.answer(calls);
        one.now += Duration::from_secs(rest);
        let mut at_once = 0;
        while matches!(one.controller.admit(one.now), Admission::Admitted(_)) {
            at_once += 1;
        }
        let burst = one.pace().0.unwrap() * 0.010;
        prop_assert!(f64::from(at_once) <= burst.max(1.0) + 1.0, "{at_once}");
    }
}

/// A controller among calls that are made one after the other.
struct Calls {
    controller: Controller,
    now: Duration,
}

impl Calls {
    fn new(limits: &PaceLimits) -> Self {
        Self {
            controller: Controller::new(limits),
            now: Duration::ZERO,
        }
    }

    /// Makes a call as soon as it may start. It takes 50 ms and ends with this signal.
    fn call(&mut self, signal: CallSignal) -> Option<PaceEvent> {
        loop {
            match self.controller.admit(self.now) {
                Admission::Admitted(call) => {
                    self.now += MILLISECOND * 50;
                    let now = self.now;
                    return self.controller.call_ended(now, call, signal, false, 0.0);
                }
                Admission::NotBefore(at) => self.now = at,
                Admission::OnChange => unreachable!("no call is out"),
            }
        }
    }

    fn answer(&mut self, times: usize) {
        for _ in 0..times {
            self.call(CallSignal::Answered);
        }
    }

    /// The rate and the most calls in flight at present.
    fn pace(&self) -> (Option<f64>, usize) {
        let controller = &self.controller;
        (controller.rate(self.now), controller.most_in_flight())
    }
}

#[test]
fn a_run_starts_slowly_unless_a_rate_is_named_or_a_limit_is_remembered() {
    let remembered = FoundLimit {
        rate: Some(100.0),
        in_flight: Some(20),
    };
    let near = |remembered, rate, in_flight| PaceLimits {
        remembered,
        ..limits(rate, in_flight)
    };
    let (auto, free, named) = (Rate::Auto, Rate::Unlimited, Rate::PerSecond(100.0));
    let [only_rate, only_in_flight] = [(remembered.rate, None), (None, remembered.in_flight)]
        .map(|(rate, in_flight)| FoundLimit { rate, in_flight });
    for (limit, rate, most, pace, kept) in [
        (
            FoundLimit::default(),
            auto,
            64,
            (Some(10.0), 4),
            FoundLimit::default(),
        ),
        (
            FoundLimit::default(),
            named,
            64,
            (Some(100.0), 64),
            FoundLimit::default(),
        ),
        (
            FoundLimit::default(),
            free,
            64,
            (None, 64),
            FoundLimit::default(),
        ),
        // Until the service refuses, the remembered limit stays, except if the user allows less or everything.
        (remembered, auto, 64, (Some(80.0), 16), remembered),
        (remembered, auto, 20, (Some(80.0), 4), only_rate),
        (remembered, named, 64, (Some(100.0), 16), only_in_flight),
        (remembered, free, 64, (None, 64), FoundLimit::default()),
    ] {
        let calls = Calls::new(&near(limit, rate, most));
        assert_eq!(calls.controller.value.limit(), kept, "{limit:?} {rate:?}");
        assert_eq!(calls.pace(), pace, "{limit:?} {rate:?} {most}");
    }
    let mut calls = Calls::new(&limits(Rate::Auto, 64));
    calls.answer(40);
    assert!(calls.pace().0 > Some(10.0), "{:?}", calls.pace());
    let mut calls = Calls::new(&near(remembered, auto, 64));
    calls.answer(1_000);
    let (rate, in_flight) = calls.pace();
    assert!(
        rate.unwrap() <= 100.0 && in_flight <= 20,
        "one call after the other needs no more"
    );
    assert_eq!(calls.controller.value.limit(), remembered);
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
    let mut random = fastrand::Rng::with_seed(1);
    for (percent, is_outage) in [(50, false), (90, true)] {
        let mut calls = Calls::new(&limits(Rate::PerSecond(500.0), 64));
        let is_down = (0..500).any(|_| {
            calls.call(if random.u32(..100) < percent {
                CallSignal::Failed
            } else {
                CallSignal::Answered
            });
            calls.controller.is_down()
        });
        assert_eq!(is_down, is_outage, "{percent} % fail");
    }
}

#[test]
fn a_service_that_is_down_is_tried_ever_more_rarely_until_patience_ends() {
    let mut calls = Calls::new(&PaceLimits {
        max_wait: Duration::from_secs(200),
        ..limits(Rate::PerSecond(40.0), 20)
    });
    calls.answer(1);
    for _ in 0..9 {
        assert_eq!(calls.call(CallSignal::Unavailable), None);
    }
    for (signal, wait) in [
        (CallSignal::Unavailable, 5),
        (CallSignal::Unavailable, 10),
        (CallSignal::BusyOrAway, 20),
        // It answers, so it is tried more often.
        (CallSignal::Failed, 10),
        (CallSignal::Unavailable, 60),
        (CallSignal::Unavailable, 60),
        // Patience counts from the first failed call.
        (CallSignal::Unavailable, 34),
    ] {
        let Some(PaceEvent::Down { next, .. }) = calls.call(signal) else {
            panic!("it is down");
        };
        assert_eq!((next + MILLISECOND * 500).as_secs(), wait);
    }
}

#[test]
fn refusals_and_an_outage_count_together_until_patience_ends() {
    let mut calls = Calls::new(&PaceLimits {
        max_wait: Duration::from_secs(60),
        ..limits(Rate::PerSecond(40.0), 20)
    });
    calls.answer(1);
    calls.call(CallSignal::Throttled(Some(Duration::from_secs(40))));
    let first = calls.now;
    while !calls.controller.is_down() {
        calls.call(CallSignal::Unavailable);
    }
    // The wait after the third would end later.
    for _ in 0..3 {
        calls.call(CallSignal::Unavailable);
    }
    let waited = calls.controller.without_success_for(calls.now);
    assert_eq!(waited, calls.now - first);
    assert!((60.0..60.2).contains(&waited.as_secs_f64()), "{waited:?}");
    calls.answer(1);
    assert_eq!(
        calls.controller.without_success_for(calls.now),
        Duration::ZERO
    );
}

#[test]
fn probes_that_get_a_bare_503_show_an_outage_in_the_end() {
    let mut calls = Calls::new(&limits(Rate::Auto, 20));
    calls.answer(1);
    let mut pauses = Vec::new();
    while !calls.controller.is_down() {
        match calls.call(CallSignal::BusyOrAway) {
            Some(PaceEvent::Paused(pause)) => pauses.push(pause.length.as_secs_f64()),
            event => assert!(matches!(event, Some(PaceEvent::Down { .. })), "{event:?}"),
        }
    }
    let doubling = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0];
    assert_eq!(pauses, doubling);
}

#[test]
fn with_an_unlimited_rate_refusals_do_not_lower_the_calls_in_flight() {
    let mut calls = Calls::new(&limits(Rate::Unlimited, 20));
    for _ in 0..6 {
        let mut out = Vec::new();
        while let Admission::Admitted(call) = calls.controller.admit(calls.now) {
            out.push(call);
        }
        calls.now += MILLISECOND * 50;
        for (nth, call) in out.into_iter().enumerate() {
            let how = if nth < 10 {
                CallSignal::Answered
            } else {
                CallSignal::Throttled(Some(Duration::from_secs(1)))
            };
            calls
                .controller
                .call_ended(calls.now, call, how, false, 0.0);
        }
        calls.now += Duration::from_secs(2);
        calls.answer(1);
    }
    assert_eq!(calls.pace(), (None, 20));
}

#[test]
fn a_service_that_is_back_is_called_at_half_the_pace() {
    let mut calls = Calls::new(&limits(Rate::PerSecond(40.0), 20));
    while calls.now < Duration::from_secs(20) {
        calls.answer(1);
    }
    let before = calls.now;
    while !calls.controller.is_down() {
        calls.call(CallSignal::Unavailable);
    }
    calls.call(CallSignal::Unavailable);
    calls.answer(2);
    let up = calls.call(CallSignal::Answered);
    assert!(matches!(up, Some(PaceEvent::Up { .. })), "{up:?}");
    let waited = calls.now - before;
    assert!(waited >= Duration::from_secs(15), "5 s and 10 s");
    let (rate, in_flight) = calls.pace();
    let rate = rate.unwrap();
    assert!((rate - 20.0).abs() < 1e-9, "half of 40/s: {rate}");
    assert_eq!(in_flight, 10);
}
