//! What the controller must reach with every service, and what it must do better than.

use super::baselines::{Aimd, FixedRate};
use super::cases::{changing, steady};
use super::demands::{HINTS, no_limit};
use super::models::RefusingAtRandom;
use super::ours::{ours, ours_near};
use super::pacers::Pacer;
use super::short;
use super::table::{all, for_each};
use super::world::{Plan, Seen, simulate};
use crate::telemetry::pace::Limit;

#[test]
fn limits_are_found_kept_to_and_hardly_ever_exceeded() {
    let mut runs = Vec::new();
    for case in all().into_iter().filter(|case| case.quick > 0) {
        let quick = case.quick;
        // Without optimisation the long ones take too long for two seeds.
        let seeds = if quick == usize::MAX { 2 } else { 1 };
        let case = short::as_reached(case.within(quick, usize::MAX));
        runs.extend((1..=seeds).map(|seed| (case.clone(), seed)));
    }
    let missed = std::sync::Mutex::new(Vec::new());
    // On all cores: hours of a fast service take a while.
    for_each(runs.len(), |place| {
        let (case, seed) = &runs[place];
        let seen = case.run(|| ours(case.ceiling), *seed);
        if let Some(what) = case.missed(&seen) {
            let what = format!("{}, seed {seed}: {what}", case.name);
            missed.lock().unwrap().push(what);
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_run_that_knows_an_earlier_limit_is_refused_less() {
    const SECONDS: usize = 180;
    println!("refused, full speed after: the first run | the next one, which knows the limit");
    let mut found = 0;
    for case in steady().iter().filter(|case| case.programs == 1) {
        let (mut at_first, mut then_refused) = (0, 0);
        for seed in 1..=3 {
            let night = |known| {
                let mut pacers = [ours_near(case.ceiling, known)];
                let plan = Plan {
                    seconds: SECONDS,
                    seed,
                    noisy: case.noisy,
                    rows: 0,
                };
                let seen = simulate(&mut pacers, &mut *(case.model)(), plan);
                (seen, pacers[0].limit())
            };
            let (first, known) = night(Limit::NONE);
            let (then, _) = night(known);
            let shown = |seen: &Seen| (seen.refused, seen.recovery(0));
            println!(
                "{}, seed {seed}: {:?} | {:?} | {known:?}",
                case.name,
                shown(&first),
                shown(&then)
            );
            // Some services have no limit of their own.
            if known != Limit::NONE {
                at_first += first.refused;
                then_refused += then.refused;
                found += 1;
            }
        }
        let what = format!("{}: {at_first}, then {then_refused}", case.name);
        // Where the service says nothing of its windows, they are taken for trouble at first, and one may be used up by as many
        // calls as are in flight.
        let most = if case.name == "400 in 10 s, no hint" {
            at_first + 512
        } else {
            at_first
        };
        assert!(then_refused <= most, "{what}");
    }
    assert!(found > 20);
}

#[test]
fn random_refusals_leave_no_limit_that_the_next_run_trusts() {
    // Seconds, and not minutes: too short for it to be seen that the refusals are random.
    const SECONDS: usize = 40;
    let mut found = 0;
    for refusing in [0.005, 0.02] {
        for (hints, hint) in HINTS {
            for seed in 1..=8 {
                let mut service = RefusingAtRandom {
                    service: no_limit(0.02),
                    refusing,
                    hint,
                };
                let mut pacers = [ours(50)];
                let plan = Plan {
                    seconds: SECONDS,
                    seed,
                    noisy: false,
                    rows: 0,
                };
                simulate(&mut pacers, &mut service, plan);
                let known = pacers[0].limit().seen_as_limit();
                if let Some(rate) = known.rate {
                    found += 1;
                    let what = format!("{refusing}, {hints}, seed {seed}");
                    assert!(rate.is_doubtful(), "{what}: {rate:?}");
                }
            }
        }
    }
    assert!(found > 3, "{found} limits");
}

#[test]
fn a_guessed_rate_and_concurrency_alone_do_worse() {
    println!("ours | 50/s guessed, 16 in flight | AIMD on concurrency");
    for case in steady().iter().chain(&changing()) {
        // Of a single run, chance decides too much.
        let runs = |pacer: &dyn Fn() -> Box<dyn Pacer>| {
            let seen = (1..=3).map(|seed| case.run(pacer, seed));
            seen.collect::<Vec<Seen>>()
        };
        let own = runs(&|| ours(case.ceiling));
        let fixed = runs(&|| FixedRate::boxed(50.0, 16));
        let aimd = runs(&|| Aimd::boxed(case.ceiling));
        println!(
            "{} | {} | {} | {}",
            case.name,
            case.shown(&own[0]),
            case.shown(&fixed[0]),
            case.shown(&aimd[0])
        );
        let refused = |runs: &[Seen]| runs.iter().map(|seen| seen.refused).sum::<u32>();
        let share = |runs: &[Seen]| runs.iter().map(|seen| case.share_of(seen)).sum::<f64>() / 3.0;
        let in_flight = |runs: &[Seen]| runs.iter().map(|seen| seen.most_in_flight).max();
        let worse = |other: &[Seen]| {
            refused(other) > 2 * refused(&own)
                || share(other) < share(&own) - 0.05
                || in_flight(other) > in_flight(&own)
        };
        // Without a limit of the service they are all the same.
        let is_unlimited = case.refused == 0 || case.name.starts_with("slow");
        // Growing fast, ours once has many calls in flight when a long window is used up.
        let even = is_unlimited || case.name.starts_with("1,200 in 60 s");
        assert!(even || worse(&fixed) && worse(&aimd), "{}", case.name);
    }
}
