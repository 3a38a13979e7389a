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

mod models;
mod pacers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::Ended;
use super::calls::{Call, Turn};
use crate::event::Limit;
use models::{
    Away, Concurrency, Faults, FixedWindow, Hint, Model, Outage, Queue, TokenBucket, UsedUp, Work,
};
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
    let (mut number, mut working) = (0, 0);
    let mut wakes: Vec<Option<Duration>> = vec![Some(Duration::ZERO); pacers.len()];
    while now < end {
        for (who, pacer) in pacers.iter_mut().enumerate() {
            if wakes[who].is_some_and(|at| at > now) {
                continue;
            }
            wakes[who] = loop {
                match pacer.ask(now) {
                    Turn::Go(call) => {
                        let (how, time) = model.call(now.as_secs_f64(), working, &mut random);
                        working += usize::from(how == Ended::Answered);
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
            working -= usize::from(how == Ended::Answered);
            pacers[who].ended(now, call, how, random.f64());
            // What it says may change when the next may go.
            wakes[who] = Some(now);
        }
    }
    seen
}

/// A service to be tried, and what is expected.
struct Case {
    name: &'static str,
    model: fn() -> Box<dyn Model>,
    programs: usize,
    minutes: usize,
    /// Seconds that the search may take before shares count.
    search: usize,
    /// Of what is allowed, after the search.
    share: f64,
    /// Calls in all minutes, a program.
    refused: u32,
    /// When the service changes for a while: the share in that time, and seconds to recover from it.
    change: Option<Change>,
}

struct Change {
    from: usize,
    to: usize,
    share: f64,
    recovery: usize,
}

const IN_FLIGHT: usize = 64;
const USUAL: Work = Work {
    typical: 0.08,
    spread: 0.3,
};

fn case(name: &'static str, model: fn() -> Box<dyn Model>) -> Case {
    Case {
        name,
        model,
        programs: 1,
        minutes: 30,
        search: 240,
        share: 0.94,
        refused: 30,
        change: None,
    }
}

fn bucket(rates: &[(f64, f64)], burst: f64, hint: Hint) -> TokenBucket {
    TokenBucket::new(rates, burst, hint, USUAL)
}

fn at_once(calls: usize, typical: f64, spread: f64) -> Box<dyn Model> {
    let work = Work { typical, spread };
    Box::new(Concurrency { calls, work })
}

/// Limits that stay as they are.
fn steady() -> Vec<Case> {
    vec![
        case("bucket of 50, 40/s, Retry-After", || {
            Box::new(bucket(&[(0.0, 40.0)], 50.0, Hint::RetryAfter))
        }),
        case("bucket of 50, 40/s, no hint", || {
            Box::new(bucket(&[(0.0, 40.0)], 50.0, Hint::None))
        }),
        case("bucket of 5, 40/s, no hint", || {
            Box::new(bucket(&[(0.0, 40.0)], 5.0, Hint::None))
        }),
        case("bucket of 10, 3/s, no hint", || {
            Box::new(bucket(&[(0.0, 3.0)], 10.0, Hint::None))
        }),
        Case {
            // At the first refusal some sixty calls are out.
            refused: 40,
            ..case("bucket of 400, 400/s, no hint", || {
                Box::new(bucket(&[(0.0, 400.0)], 400.0, Hint::None))
            })
        },
        case("400 in 10 s, Retry-After", || {
            Box::new(FixedWindow::new(400, 10.0, Hint::RetryAfter, USUAL))
        }),
        Case {
            refused: 40,
            ..case("400 in 10 s, no hint", || {
                Box::new(FixedWindow::new(400, 10.0, Hint::None, USUAL))
            })
        },
        Case {
            refused: 40,
            ..case("1,200 in 60 s, Retry-After", || {
                Box::new(FixedWindow::new(1_200, 60.0, Hint::RetryAfter, USUAL))
            })
        },
        case("20 at once, 80 ms", || at_once(20, 0.08, 0.3)),
        case("slow: 64 at once, 8 s", || at_once(64, 8.0, 0.2)),
        Case {
            minutes: 1,
            search: 15,
            refused: 0,
            ..case("fast: 64 at once, 20 ms", || at_once(64, 0.02, 0.1))
        },
        Case {
            refused: 0,
            ..case("queues what is above 40/s", || {
                Box::new(Queue {
                    workers: vec![0.0; 4],
                    work: Work {
                        typical: 0.1,
                        spread: 0.2,
                    },
                })
            })
        },
        Case {
            programs: 2,
            ..case("two programs, bucket of 50, 40/s", || {
                Box::new(bucket(&[(0.0, 40.0)], 50.0, Hint::RetryAfter))
            })
        },
    ]
}

/// Limits that change.
fn changing() -> Vec<Case> {
    vec![
        Case {
            minutes: 60,
            // Half as much again for as long as nobody knows that it has risen.
            share: 0.75,
            change: Some(Change {
                from: 600,
                to: 1200,
                share: 0.88,
                recovery: 900,
            }),
            ..case("40/s falls to 20/s for 10 min", || {
                let rates = [(0.0, 40.0), (600.0, 20.0), (1200.0, 40.0)];
                Box::new(bucket(&rates, 20.0, Hint::RetryAfter))
            })
        },
        Case {
            change: Some(Change {
                from: 600,
                to: 780,
                share: 0.0,
                recovery: 60,
            }),
            ..case("503 for 3 min, bucket of 50, 40/s", || {
                Box::new(Outage {
                    service: bucket(&[(0.0, 40.0)], 50.0, Hint::RetryAfter),
                    away: Away::Failing,
                    from: 600.0,
                    to: 780.0,
                })
            })
        },
        Case {
            // Until the last call of a minute has timed out nobody knows.
            change: Some(Change {
                from: 600,
                to: 660,
                share: 0.0,
                recovery: 120,
            }),
            ..case("all hangs for 1 min, bucket of 50, 40/s", || {
                Box::new(Outage {
                    service: bucket(&[(0.0, 40.0)], 50.0, Hint::RetryAfter),
                    away: Away::Hanging,
                    from: 600.0,
                    to: 660.0,
                })
            })
        },
    ]
}

/// A service that does whatever 64 calls in flight can ask.
fn everything() -> Concurrency {
    Concurrency {
        calls: IN_FLIGHT,
        work: USUAL,
    }
}

/// Trouble that is nobody's limit, and limits that are told badly.
fn troubled() -> Vec<Case> {
    vec![
        Case {
            minutes: 10,
            share: 0.9,
            refused: 0,
            ..case("one call in 20 fails, no limit", || {
                Box::new(Faults {
                    service: everything(),
                    failing: 0.05,
                    hanging: 0.0,
                })
            })
        },
        Case {
            minutes: 10,
            // Who hangs takes a place from others for 30 s: 64 in flight can do no more than 22 %.
            share: 0.19,
            refused: 0,
            ..case("one call in 100 hangs, no limit", || {
                Box::new(Faults {
                    service: everything(),
                    failing: 0.0,
                    hanging: 0.01,
                })
            })
        },
        Case {
            share: 0.9,
            // With that limit sixty calls are out when a window is used up.
            refused: 90,
            ..case("3,000 a minute, used up for 45 s at first", || {
                Box::new(UsedUp {
                    service: FixedWindow::new(3_000, 60.0, Hint::RetryAfter, USUAL),
                    until: 45.0,
                })
            })
        },
        Case {
            minutes: 60,
            share: 0.7,
            ..case("bucket of 50, 40/s, always asks for 60 s", || {
                Box::new(bucket(&[(0.0, 40.0)], 50.0, Hint::Always(60)))
            })
        },
        Case {
            minutes: 60,
            share: 0.8,
            ..case("6 in 60 s, no hint", || {
                Box::new(FixedWindow::new(6, 60.0, Hint::None, USUAL))
            })
        },
    ]
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
    for case in steady().iter().chain(&changing()).chain(&troubled()) {
        for seed in 1..=3 {
            let seen = case.run(|| ours(IN_FLIGHT), seed);
            println!("{}: {}", case.name, case.shown(&seen));
            case.holds(&seen, seed);
        }
    }
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
