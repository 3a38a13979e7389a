//! The search against limits that are told to it: what was refused and what was accepted.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(500);

fn search() -> LimitSearch {
    LimitSearch::new(Quantity::Rate, 10.0, 0.1, 10_000.0)
}

const fn measured(rate: f64, calls: u64) -> Measurement {
    Measurement {
        rate,
        without_pauses: rate,
        calls,
    }
}

/// All goes well for so long.
fn calm(search: &mut LimitSearch, now: &mut Duration, length: Duration) {
    let end = *now + length;
    while *now < end {
        *now += INTERVAL;
        search.calm(*now, INTERVAL, Duration::from_secs(2), true, true);
    }
}

/// Refused at what it is now, and so much was accepted since the refusal before.
fn refused(search: &mut LimitSearch, now: Duration, accepted: Option<Measurement>) -> Finding {
    search.refused(now, search.value(), accepted, false)
}

#[test]
fn it_doubles_until_it_is_refused_and_then_undoes_the_last_doubling() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    calm(&mut search, &mut now, INTERVAL * 4);
    assert!((search.value() - 160.0).abs() < 1e-9);
    assert_eq!(search.stage(), Search::Growing);
    assert_eq!(refused(&mut search, now, None), Finding::TooMuch);
    assert!((search.value() - 80.0).abs() < 1e-9);
    assert_eq!(search.stage(), Search::ClosingIn);
    assert_eq!(search.limit(), None, "nothing was borne yet");
}

#[test]
fn what_is_accepted_at_two_paces_is_the_limit() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    calm(&mut search, &mut now, INTERVAL * 5);
    refused(&mut search, now, None);
    refused(&mut search, now + MINUTE, Some(measured(39.0, 60)));
    assert_eq!(search.stage(), Search::ClosingIn);
    refused(&mut search, now + MINUTE * 2, Some(measured(40.0, 60)));
    assert_eq!(search.stage(), Search::Holding);
    assert!(
        (39.0..=40.0).contains(&search.value()),
        "{}",
        search.value()
    );
    let limit = search
        .limit()
        .map(|found| (found.value.round(), found.times));
    assert_eq!(limit, Some((40.0, 3)));
}

#[test]
fn the_interval_between_borne_and_refused_is_halved() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    calm(&mut search, &mut now, INTERVAL * 4);
    let limit = 100.0;
    refused(&mut search, now, None);
    let mut refusals = 0;
    for _ in 0..600 {
        if search.value() > limit {
            refused(&mut search, now, None);
            refusals += 1;
        }
        calm(&mut search, &mut now, INTERVAL);
    }
    assert!(
        (92.0..=100.0).contains(&search.value()),
        "{}",
        search.value()
    );
    assert!(refusals <= 12, "{refusals}");
}

#[test]
fn a_refusal_of_what_was_borne_is_unexplained_and_the_cut_is_checked() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    calm(&mut search, &mut now, INTERVAL * 4);
    refused(&mut search, now, None);
    calm(&mut search, &mut now, Duration::from_secs(3));
    let borne = 80.0;
    assert_eq!(
        search.refused(now, borne, Some(measured(50.0, 9)), false),
        Finding::Unexplained
    );
    assert_eq!(search.stage(), Search::Checking);
    assert!(search.value() < borne);
    // As long as it is not known whether that has helped, it stays there.
    let checked = search.value();
    for _ in 0..10 {
        now += INTERVAL;
        search.calm(now, INTERVAL, Duration::from_secs(2), true, false);
    }
    assert!((search.value() - checked).abs() < 1e-9);
    calm(&mut search, &mut now, Duration::from_secs(3));
    assert_ne!(search.stage(), Search::Checking);
}

#[test]
fn a_limit_that_is_gone_is_forgotten() {
    let (mut search, mut now) = (search(), Duration::ZERO);
    search.start_near(40.0, 5);
    assert!((search.value() - 28.0).abs() < 1e-9);
    calm(&mut search, &mut now, MINUTE * 10);
    assert!(search.value() > 1_000.0, "{}", search.value());
    assert_eq!(search.limit(), None);
}

#[test]
fn calls_in_flight_are_whole_and_looked_past_one_at_a_time() {
    let mut search = LimitSearch::new(Quantity::InFlight, 4.0, 1.0, 512.0);
    let mut now = Duration::ZERO;
    search.found(now, 3.0, 3);
    assert!((search.value() - 2.0).abs() < 1e-9);
    calm(&mut search, &mut now, MINUTE * 2 + INTERVAL);
    assert!((search.value() - 3.0).abs() < 1e-9);
    assert!(search.is_past_limit(3.0));
    refused(&mut search, now, None);
    assert!((search.value() - 2.0).abs() < 1e-9);
}

#[test]
fn what_is_not_used_does_not_grow() {
    let mut search = search();
    for second in 0..100 {
        search.calm(Duration::from_secs(second), INTERVAL, INTERVAL, false, true);
    }
    assert!((search.value() - 10.0).abs() < 1e-9);
}
