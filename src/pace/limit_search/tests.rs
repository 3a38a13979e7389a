//! The search against given limits: what it tries after what was refused and what was accepted.

use std::time::Duration;

use super::progress::QuietInterval;
use super::refusal::RefusalKind;
use super::search::{LimitSearch, Quantity};
use crate::pace::throughput::Measurement;
use crate::telemetry::pace::{FoundLimit, Search};

const MINUTE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(500);

fn search() -> LimitSearch {
    LimitSearch::new(Quantity::Rate, 10.0, 0.1, 10_000.0)
}

const fn measured(rate: f64, calls: u64) -> Measurement {
    Measurement { rate, calls }
}

const QUIET: QuietInterval = QuietInterval {
    calls: 0.0,
    length: INTERVAL,
    step: Duration::from_secs(2),
    fully_used: true,
    cut_helped: true,
};

/// Nothing is refused for this long.
fn quiet(search: &mut LimitSearch, now: &mut Duration, length: Duration) {
    let end = *now + length;
    while *now < end {
        *now += INTERVAL;
        search.quiet(*now, QUIET);
    }
}

/// The present value is refused, and this was accepted since the refusal before.
fn refused(search: &mut LimitSearch, now: Duration, accepted: Option<Measurement>) -> RefusalKind {
    search.refused(now, search.value(), accepted)
}

#[test]
fn it_doubles_until_the_first_refusal_and_then_undoes_the_last_doubling() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    quiet(&mut search, &mut now, INTERVAL * 4);
    assert!((search.value() - 160.0).abs() < 1e-9);
    assert_eq!(search.stage(), Search::Growing);
    assert_eq!(refused(&mut search, now, None), RefusalKind::TooMuch);
    assert!((search.value() - 80.0).abs() < 1e-9);
    assert_eq!(search.stage(), Search::ClosingIn);
    assert_eq!(search.limit(), None, "nothing was sustained yet");
}

#[test]
fn refusals_at_the_lowest_pace_are_not_put_down_to_it() {
    let (mut search, now) = (search(), Duration::ZERO);
    let blind = [(); 3].map(|()| refused(&mut search, now, None));
    assert_eq!(blind, [RefusalKind::TooMuch; 3], "10, 5 and 2.5/s");
    assert!((search.value() - 2.0).abs() < 1e-9);
    for _ in 0..3 {
        assert_eq!(
            refused(&mut search, now, None),
            RefusalKind::Unexplained,
            "a cut changes nothing"
        );
    }
}

#[test]
fn the_same_rate_accepted_at_two_paces_is_the_limit() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    quiet(&mut search, &mut now, INTERVAL * 5);
    refused(&mut search, now, None);
    refused(&mut search, now + MINUTE, Some(measured(39.0, 60)));
    assert_eq!(search.stage(), Search::ClosingIn);
    refused(&mut search, now + MINUTE * 2, Some(measured(40.0, 60)));
    // It is looked past immediately, as 160/s is the least that was refused before.
    assert_eq!(search.stage(), Search::Looking);
    assert!(
        (41.0..=43.0).contains(&search.value()),
        "{}",
        search.value()
    );
    let limit = search
        .limit()
        .map(|found| (found.value.round(), found.times));
    assert_eq!(limit, Some((40.0, 2)), "doubtful so far");
}

#[test]
fn the_gap_between_sustained_and_refused_is_halved() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    quiet(&mut search, &mut now, INTERVAL * 4);
    let limit = 100.0;
    refused(&mut search, now, None);
    let mut refusals = 0;
    for _ in 0..600 {
        if search.value() > limit {
            refused(&mut search, now, None);
            refusals += 1;
        }
        quiet(&mut search, &mut now, INTERVAL);
    }
    assert!(
        (92.0..=100.0).contains(&search.value()),
        "{}",
        search.value()
    );
    assert!(refusals <= 12, "{refusals}");
}

#[test]
fn a_refusal_of_a_sustained_value_is_unexplained_and_the_cut_is_checked() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    quiet(&mut search, &mut now, INTERVAL * 4);
    refused(&mut search, now, None);
    quiet(&mut search, &mut now, Duration::from_secs(3));
    let sustained = 80.0;
    assert_eq!(
        search.refused(now, sustained, Some(measured(50.0, 9))),
        RefusalKind::Unexplained
    );
    assert_eq!(search.stage(), Search::Checking);
    assert!(search.value() < sustained);
    // It stays there until it is known whether that has helped.
    let checked = search.value();
    for _ in 0..10 {
        now += INTERVAL;
        let interval = QuietInterval {
            cut_helped: false,
            ..QUIET
        };
        search.quiet(now, interval);
    }
    assert!((search.value() - checked).abs() < 1e-9);
    quiet(&mut search, &mut now, Duration::from_secs(3));
    assert_ne!(search.stage(), Search::Checking);
}

#[test]
fn a_limit_that_is_gone_is_forgotten() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    search.start_near(FoundLimit {
        value: 40.0,
        times: 5,
    });
    assert!((search.value() - 28.0).abs() < 1e-9);
    quiet(&mut search, &mut now, MINUTE * 10);
    assert!(search.value() > 1_000.0, "{}", search.value());
    assert_eq!(search.limit(), None);
}

#[test]
fn a_limit_is_doubtful_while_chance_explains_the_refusals() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    let limit = 100.0;
    let mut refusals = 0;
    let mut closes_in = |search: &mut LimitSearch| {
        while search.stage() != Search::Holding {
            if search.value() > limit {
                refused(search, now, None);
                refusals += 1;
            }
            quiet(search, &mut now, INTERVAL);
        }
        refusals
    };
    assert!(closes_in(&mut search) > 3);
    assert_eq!(search.limit().map(|found| found.times), Some(2), "doubtful");
    quiet(&mut search, &mut now, MINUTE);
    assert!(search.limit().is_some_and(|found| found.times > 3));
}

#[test]
fn calls_in_flight_are_whole_numbers_and_looked_past_one_at_a_time() {
    let mut search = LimitSearch::new(Quantity::InFlight, 4.0, 1.0, 512.0);
    let mut now = Duration::ZERO;
    search.limit_found(now, 3.0);
    assert!((search.value() - 2.0).abs() < 1e-9);
    quiet(&mut search, &mut now, MINUTE * 2 + INTERVAL);
    assert!((search.value() - 3.0).abs() < 1e-9);
    assert!(search.is_past_limit(3.0));
    refused(&mut search, now, None);
    assert!((search.value() - 2.0).abs() < 1e-9);
}

#[test]
fn an_unused_value_does_not_grow() {
    let mut search = search();
    for second in 0..100 {
        let interval = QuietInterval {
            fully_used: false,
            ..QUIET
        };
        search.quiet(Duration::from_secs(second), interval);
    }
    assert!((search.value() - 10.0).abs() < 1e-9);
}
