//! The controller against services as they may be, in virtual time: no sockets, no waiting.
//!
//! `cargo test --lib simulator -- --nocapture` prints the table.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::similar_names,
    reason = "what it simulates is small, and a simulation that breaks must end"
)]

mod cases;
mod models;
mod pacers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::Ended;
use super::calls::{Call, Turn};
use crate::event::Limit;
use cases::{Case, IN_FLIGHT, changing, steady, troubled, uneven};
use models::Model;
use pacers::{Aimd, FixedRate, Pacer, ours, ours_near};

/// What was seen of a run.
#[derive(Debug, Default)]
struct Seen {
    /// Accepted calls in each second.
    accepted: Vec<u32>,
    /// What the model allowed in each second.
    allowed: Vec<f64>,
    refused: u32,
    /// Refused, after the first five minutes.
    refused_later: u32,
    most_in_flight: usize,
}

impl Seen {
    /// The share of what was allowed from one second to another.
    fn share(&self, from: usize, to: usize) -> f64 {
        let accepted: u32 = self.accepted[from..to].iter().sum();
        f64::from(accepted) / self.allowed[from..to].iter().sum::<f64>()
    }

    /// Seconds from `from` until ten seconds together had nine tenths of what was allowed.
    fn recovery(&self, from: usize) -> Option<usize> {
        (from..self.accepted.len() - 10)
            .find(|at| self.share(*at, at + 10) >= 0.9)
            .map(|at| at - from)
    }
}

/// An end of a call that is to come.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Duration,
    number: u64,
    who: usize,
}

/// Lets these pacers call this service for so long; everybody always has something to ask.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn simulate(
    pacers: &mut [Box<dyn Pacer>],
    model: &mut dyn Model,
    seconds: usize,
    seed: u64,
) -> Seen {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut seen = Seen {
        accepted: vec![0; seconds],
        allowed: (0..seconds)
            .map(|second| model.allows(second as f64 + 0.5))
            .collect(),
        ..Seen::default()
    };
    let end = Duration::from_secs(seconds as u64);
    let mut now = Duration::ZERO;
    let mut due: BinaryHeap<Reverse<Due>> = BinaryHeap::new();
    let mut calls: std::collections::HashMap<u64, (Call, Ended)> = std::collections::HashMap::new();
    let mut number = 0;
    let mut wakes: Vec<Option<Duration>> = vec![Some(Duration::ZERO); pacers.len()];
    while now < end {
        for (who, pacer) in pacers.iter_mut().enumerate() {
            if wakes[who].is_some_and(|at| at > now) {
                continue;
            }
            wakes[who] = loop {
                match pacer.ask(now) {
                    Turn::Go(call) => {
                        let (how, time) = model.call(now.as_secs_f64(), &mut random);
                        calls.insert(number, (call, how));
                        seen.most_in_flight = seen.most_in_flight.max(calls.len());
                        if matches!(how, Ended::Throttled(_)) {
                            seen.refused += 1;
                            seen.refused_later += u32::from(now.as_secs() >= 300);
                        } else if how == Ended::Answered {
                            seen.accepted[now.as_secs() as usize] += 1;
                        }
                        let at = now + Duration::from_secs_f64(time);
                        due.push(Reverse(Due { at, number, who }));
                        number += 1;
                    }
                    // A timer ticks at 1 ms.
                    Turn::At(at) => break Some(at.max(now + Duration::from_millis(1))),
                    Turn::AfterAnother => break None,
                }
            };
        }
        let next_end = due.peek().map(|due| due.0.at);
        let next_wake = wakes.iter().flatten().min().copied();
        now = match (next_end, next_wake) {
            (Some(one), Some(other)) => one.min(other),
            (one, other) => one.or(other).expect("nobody stalls for ever"),
        }
        .max(now);
        while due.peek().is_some_and(|due| due.0.at <= now) {
            let Some(Reverse(Due { number, who, .. })) = due.pop() else {
                break;
            };
            let (call, how) = calls.remove(&number).expect("ends once");
            pacers[who].ended(now, call, how, random.f64());
            // What it says may change when the next may go.
            wakes[who] = Some(now);
        }
    }
    seen
}

impl Case {
    fn run(&self, pacer: impl Fn() -> Box<dyn Pacer>, seed: u64) -> Seen {
        let mut pacers: Vec<_> = (0..self.programs).map(|_| pacer()).collect();
        simulate(&mut pacers, &mut *(self.model)(), self.minutes * 60, seed)
    }

    fn shown(&self, seen: &Seen) -> String {
        let recovery = self
            .change
            .as_ref()
            .map(|change| {
                let recovery = seen.recovery(change.to);
                recovery.map_or(" never".to_owned(), |seconds| format!(" {seconds} s"))
            })
            .unwrap_or_default();
        format!(
            "{:.1} % {} {} {}{recovery}",
            seen.share(self.search, self.minutes * 60) * 100.0,
            seen.refused,
            seen.most_in_flight,
            seen.recovery(0)
                .map_or("never".to_owned(), |seconds| format!("{seconds} s")),
        )
    }

    fn holds(&self, seen: &Seen, seed: u64) {
        let what = format!("{}, seed {seed}: {}", self.name, self.shown(seen));
        let share = seen.share(self.search, self.minutes * 60);
        assert!(share >= self.share, "{what}");
        let refused = self.refused * u32::try_from(self.programs).unwrap();
        assert!(seen.refused <= refused, "{what}");
        if let Some(change) = &self.change {
            let share = seen.share(change.from, change.to);
            assert!(share.is_nan() || share >= change.share, "{what}: {share}");
            let recovery = seen.recovery(change.to);
            assert!(
                recovery.is_some_and(|seconds| seconds <= change.recovery),
                "{what}"
            );
        }
    }
}

#[test]
fn limits_are_found_kept_to_and_hardly_ever_passed() {
    println!(
        "share of what is allowed after the search, refused, most in flight, full speed after, recovery"
    );
    let cases = [steady(), changing(), troubled(), uneven()].concat();
    // Side by side, as hours of a fast service take a while.
    std::thread::scope(|scope| {
        let seeds = |case: &Case| [1, 2, 3].map(|seed| (seed, case.run(|| ours(IN_FLIGHT), seed)));
        let runs: Vec<_> = cases
            .iter()
            .map(|case| scope.spawn(move || seeds(case)))
            .collect();
        for (case, run) in cases.iter().zip(runs) {
            for (seed, seen) in run.join().unwrap() {
                println!("{}: {}", case.name, case.shown(&seen));
                case.holds(&seen, seed);
            }
        }
    });
}

#[test]
fn who_knows_what_an_earlier_run_found_is_refused_less() {
    const SECONDS: usize = 180;
    println!("refused, full speed after: the first run | the next one, which knows");
    let mut found = 0;
    for case in steady().iter().filter(|case| case.programs == 1) {
        for seed in 1..=3 {
            let night = |known| {
                let mut pacers = [ours_near(IN_FLIGHT, known)];
                let seen = simulate(&mut pacers, &mut *(case.model)(), SECONDS, seed);
                (seen, pacers[0].limit())
            };
            let (first, known) = night(Limit::NONE);
            let (then, _) = night(known);
            let shown = |seen: &Seen| (seen.refused, seen.recovery(0));
            let what = format!(
                "{}, seed {seed}: {:?} | {:?} | {known:?}",
                case.name,
                shown(&first),
                shown(&then)
            );
            println!("{what}");
            // Some services have no limit of their own.
            if known != Limit::NONE {
                assert!(then.refused < first.refused, "{what}");
                found += 1;
            }
        }
    }
    assert!(found > 20);
}

#[test]
fn a_guessed_rate_and_concurrency_alone_do_worse() {
    println!("ours | 50/s guessed, 16 in flight | AIMD on concurrency");
    for case in steady().iter().chain(&changing()) {
        let own = case.run(|| ours(IN_FLIGHT), 1);
        let fixed = case.run(|| FixedRate::boxed(50.0, 16), 1);
        let aimd = case.run(|| Aimd::boxed(IN_FLIGHT), 1);
        println!(
            "{} | {} | {} | {}",
            case.name,
            case.shown(&own),
            case.shown(&fixed),
            case.shown(&aimd)
        );
        let worse = |other: &Seen| {
            let share = |seen: &Seen| seen.share(case.search, case.minutes * 60);
            other.refused > 2 * own.refused
                || share(other) < share(&own) - 0.05
                || other.most_in_flight > own.most_in_flight
        };
        // A service without a limit of its own cannot tell them apart.
        let even = case.refused == 0 || case.name.starts_with("slow");
        assert!(even || worse(&fixed) && worse(&aimd), "{}", case.name);
    }
}
