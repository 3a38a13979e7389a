//! What the pace must reach with the services of the contract, and with services drawn at random.

use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::contract::{Case, Reached, contract, controller};
use super::drawn::{hundred, other_kinds, slow_and_noisy};
use super::limits::{Burst, Clock, FixedWindow, LimitReq, TokenBucket};
use super::models::{Hint, Model, Work};
use super::world::{Seen, simulate, simulate_sharing};
use super::wrapped::{Penalty, Wrapped, Wrapper};
use crate::pace::controller::Controller;
use crate::pace::types::Rate;
use crate::telemetry::pace::FoundLimit;

/// Calls `work` with each number below `many`, on all cores, and returns what it returned.
fn for_each<T: Send>(many: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let cores = std::env::var("SIM_THREADS").map_or(2, |number| number.parse().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= many {
                        return;
                    }
                    let result = work(place);
                    done.lock().unwrap().push((place, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Prints a table of these services and returns what was reached, and what was missed.
fn table(cases: &[Case], seeds: RangeInclusive<u64>) -> (Vec<Reached>, Vec<String>) {
    let reached = for_each(cases.len(), |place| cases[place].reached(seeds.clone()));
    println!("| service | share, % | worst minute, % | refused | s to 90 % | missed |");
    println!("|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for (case, reached) in cases.iter().zip(&reached) {
        let what = reached.missed(case.aim);
        println!("| {} | {reached} | {what} |", case.name);
        if !what.is_empty() {
            missed.push(format!("{}: {what}", case.name));
        }
    }
    (reached, missed)
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Those services whose names contain one of the parts of `SIM_CASES`, which are separated by `|`.
fn chosen(mut cases: Vec<Case>) -> Vec<Case> {
    let only = std::env::var("SIM_CASES").unwrap_or_default();
    cases.retain(|case| only.split('|').any(|part| case.name.contains(part)));
    cases
}

#[test]
fn every_service_of_the_contract_is_used_well() {
    // Without optimisation the whole time, and the fast services, would take too long.
    let cases: Vec<_> = contract().into_iter().filter_map(Case::shortened).collect();
    let (_, missed) = table(&cases, 1..=1);
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
#[ignore = "takes minutes; `cargo test --release --lib pace::simulator -- --ignored --nocapture`"]
fn the_contract_is_kept() {
    let from = number("SIM_FROM", 1);
    let seeds = from..=from + number("SIM_SEEDS", 8) - 1;
    let (_, missed) = table(&chosen(contract()), seeds);
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
#[ignore = "takes minutes; `SIM_BLIND=SEED cargo test --release --lib pace::simulator -- --ignored --nocapture`"]
fn services_drawn_at_random_are_used_well() {
    let seed = number("SIM_BLIND", 1);
    let shares = [
        mean_share(hundred(seed), 70.0),
        mean_share(slow_and_noisy(seed), 90.0),
    ];
    assert!(shares[0] >= 95.0 && shares[1] >= 90.0);
}

#[test]
#[ignore = "takes minutes; `SIM_BLIND=SEED cargo test --release --lib pace::simulator -- --ignored --nocapture`"]
fn services_of_other_kinds_are_used() {
    let kinds = other_kinds(number("SIM_BLIND", 1), 10);
    let cases: Vec<_> = kinds.iter().flat_map(|(_, cases)| cases.clone()).collect();
    let (reached, _) = table(&cases, 1..=number("SIM_SEEDS", 2));
    println!("| kind | share: mean, least | refused: mean |\n|---|---|---|");
    for ((kind, _), reached) in kinds.iter().zip(reached.chunks(10)) {
        let mean = |of: fn(&Reached) -> f64| reached.iter().map(of).sum::<f64>() / 10.0;
        let least = reached.iter().map(Reached::share).fold(f64::MAX, f64::min);
        let (share, refused) = (mean(Reached::share), mean(Reached::refused));
        println!("| {kind} | {share:.1}, {least:.0} | {refused:.0} |");
    }
}

/// The mean share of these services, in percent; prints how many have less than `least`.
fn mean_share(cases: Vec<Case>, least: f64) -> f64 {
    let (reached, _) = table(&chosen(cases), 1..=number("SIM_SEEDS", 2));
    let mean = reached.iter().map(Reached::share).sum::<f64>() / reached.len() as f64;
    let below = reached.iter().filter(|one| one.share() < least).count();
    println!("mean share {mean:.1} %, {below} below {least} %");
    mean
}

/// The share in percent, and how many calls were refused, of this number of runs that share a pace, or do not if there is no round trip.
fn sharing(case: &Case, runs: usize, round_trip: u64, seeds: u64) -> (f64, f64) {
    let (mut share, mut refused) = (0.0, 0.0);
    for seed in 1..=seeds {
        let new = || controller(case.ceiling, Rate::Auto, FoundLimit::default());
        let mut programs: Vec<_> = (0..runs).map(|_| new()).collect();
        let (model, seconds) = (&mut *(case.model)(), 900);
        let seen = if round_trip == 0 {
            simulate(&mut programs, model, seconds, seed)
        } else {
            let way = Duration::from_millis(round_trip);
            simulate_sharing(way, &mut programs, model, seconds, seed)
        };
        share += 100.0 * seen.share(case.search, seconds) / seeds as f64;
        refused += f64::from(seen.refused) / seeds as f64;
    }
    (share, refused)
}

#[test]
#[ignore = "takes minutes; `cargo test --release --lib pace::simulator -- --ignored --nocapture`"]
fn runs_that_share_a_pace_use_a_service_as_one_does() {
    let mut cases = chosen(contract());
    cases.retain(|case| case.programs == 1);
    let columns = [(1, 0), (2, 5), (8, 5), (32, 5), (2, 50), (8, 50), (32, 50)];
    println!(
        "| service | alone | 2, 5 ms | 8, 5 ms | 32, 5 ms | 2, 50 ms | 8, 50 ms | 32, 50 ms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let seeds = number("SIM_SEEDS", 2);
    let reached = for_each(cases.len(), |place| {
        columns.map(|(runs, way)| sharing(&cases[place], runs, way, seeds))
    });
    let mut missed = Vec::new();
    for (case, reached) in cases.iter().zip(&reached) {
        let cells = reached.map(|(share, refused)| format!(" {share:.0}/{refused:.0} |"));
        println!("| {} |{}", case.name, cells.concat());
        let least = match &case.name {
            // Runs learn late how many calls others have in flight.
            name if name.contains("in flight") => 60.0,
            // All runs pass through its 15 s while they learn its window.
            name if name.contains("shut out") => 70.0,
            _ => reached[0].0 - 6.0,
        };
        missed.extend(
            reached
                .iter()
                .any(|(share, _)| *share < least)
                .then_some(&case.name),
        );
    }
    assert_eq!(missed, Vec::<&String>::new());
}

#[test]
fn runs_that_share_a_pace_keep_to_one_limit() {
    let bucket = || TokenBucket::new(40.0, 20.0, Hint::RetryAfter, Work::of(0.08));
    let mut programs: Vec<_> = (0..4)
        .map(|_| controller(64, Rate::Auto, FoundLimit::default()))
        .collect();
    let way = Duration::from_millis(20);
    let seen = simulate_sharing(way, &mut programs, &mut bucket(), 300, 1);
    assert!(seen.share(60, 300) >= 0.9, "{}", seen.share(60, 300));
    assert!(seen.refused <= 60, "{}", seen.refused);
    let limits: Vec<_> = programs.iter().map(|one| one.value.limit().rate).collect();
    assert!(limits[0].is_some() && limits.iter().all(|limit| *limit == limits[0]));
}

#[test]
fn a_run_that_remembers_a_limit_is_refused_less() {
    let (mut found, mut worse, mut first_refused, mut then_refused) = (0, 0, 0, 0);
    let without_hint = |case: &Case| case.name.contains("no hint");
    let slow = contract().into_iter().filter_map(Case::shortened);
    for case in slow.filter(without_hint) {
        for seed in 1..=3 {
            let night = |remembered| {
                let mut program = [controller(case.ceiling, Rate::Auto, remembered)];
                let seen = simulate(&mut program, &mut *(case.model)(), 180, seed);
                (seen, program[0].value.limit())
            };
            let (first, limit) = night(FoundLimit::default());
            let (then, _) = night(limit);
            if limit != FoundLimit::default() {
                found += 1;
                first_refused += first.refused;
                then_refused += then.refused;
                worse += u32::from(then.share(0, 180) < first.share(0, 180) - 0.03);
            }
        }
    }
    println!("{found} found: {first_refused} refused, then {then_refused}; {worse} slower");
    assert!(found >= 15 && then_refused * 2 < first_refused * 3 / 2 && worse <= 2);
}

/// A run of a quarter of an hour with this service, at this rate.
fn quarter(rate: Rate, model: &mut dyn Model) -> (Seen, Controller) {
    let mut program = [controller(512, rate, FoundLimit::default())];
    let seen = simulate(&mut program, model, 900, 1);
    let [program] = program;
    (seen, program)
}

#[test]
fn nginx_with_one_call_a_second_and_no_burst_is_hardly_ever_exceeded() {
    let nginx = LimitReq::new(1.0, Burst::None, Work::of(0.02));
    let service = &mut Wrapped::new(nginx, Wrapper::Bare503);
    let (seen, _) = quarter(Rate::Auto, service);
    assert!(seen.share(0, 900) >= 0.9, "{}", seen.share(0, 900));
    assert!(seen.refused <= 40, "{}", seen.refused);
}

#[test]
fn services_that_few_had_in_mind_are_used_well() {
    let slow = Work::of(0.15).spread(0.9);
    let wide = &mut TokenBucket::new(100.0, 100.0, Hint::RetryAfter, slow);
    let window = |calls, seconds| FixedWindow::new(calls, seconds, Hint::None, Work::of(0.02));
    let block = Wrapper::Blocks(20.0, Penalty::Never, Hint::None);
    let blocks = &mut Wrapped::new(window(15, 1.0), block);
    let time_of_day = &mut window(600, 60.0).with_headers(Clock::Epoch(0.5));
    for (name, service, share, refused) in [
        ("answers of any length", wide as &mut dyn Model, 0.92, 100),
        ("blocks callers for 20 s", blocks, 0.4, 80),
        ("names the time when a window ends", time_of_day, 0.9, 0),
    ] {
        let (seen, _) = quarter(Rate::Auto, service);
        let reached = seen.share(240, 900);
        assert!(reached >= share, "{name}: {reached}");
        assert!(seen.refused <= refused, "{name}: {}", seen.refused);
    }
}

#[test]
fn a_share_of_the_limit_leaves_room_for_others() {
    let bucket = &mut TokenBucket::new(40.0, 20.0, Hint::None, Work::of(0.08));
    let (seen, program) = quarter(Rate::Share(0.8), bucket);
    let limit = program.value.limit().rate.unwrap();
    assert!((36.0..44.0).contains(&limit), "{limit}");
    // For a minute now and then it looks whether the limit is still the same.
    let share = seen.share(120, 900);
    assert!((0.75..0.87).contains(&share), "{share}");
}
