//! Many workers that share a pace beside one worker alone, as a Markdown table.

use std::sync::Mutex;
use std::time::Duration;

use super::bare_503::Bare503;
use super::cases::{USUAL, bucket};
use super::models::{Away, Hint, Model, Outage};
use super::ours::ours;
use super::rows::Row;
use super::sharing::{Life, sharing};
use super::table::for_each;
use super::world::{Plan, Seen, simulate};
use super::wrapped::NoLimit;
use crate::pace::types::CallOutcome;

/// A service, and how long it is called.
struct Service {
    name: &'static str,
    model: fn() -> Box<dyn Model>,
    /// Calls in flight of all workers together.
    ceiling: usize,
    seconds: usize,
    /// Seconds of the search, before shares count.
    search: usize,
    aim: Aim,
}

/// The least share that workers together are to get, and how many of their calls may be refused for each one of a single
/// worker's.
#[derive(Clone, Copy)]
struct Aim(f64, f64);

const USUAL_AIM: Aim = Aim(0.93, 1.5);

/// Calls in flight that the service without a limit takes; more would only make the simulation longer.
const SIXTY_FOUR: usize = 64;

const SERVICES: [Service; 8] = [
    Service {
        name: "150/s",
        model: || Box::new(bucket(&[(0.0, 150.0)], 15.0, Hint::None)),
        ceiling: 512,
        seconds: 600,
        search: 120,
        aim: USUAL_AIM,
    },
    Service {
        name: "bucket of 50, 40/s, Retry-After",
        model: || Box::new(bucket(&[(0.0, 40.0)], 50.0, Hint::RetryAfter)),
        ceiling: 512,
        seconds: 600,
        search: 120,
        aim: USUAL_AIM,
    },
    Service {
        name: "150/s falls to 100/s after 5 min",
        model: || {
            let rates = [(0.0, 150.0), (300.0, 100.0)];
            Box::new(bucket(&rates, 15.0, Hint::RetryAfter))
        },
        ceiling: 512,
        seconds: 600,
        search: 120,
        aim: USUAL_AIM,
    },
    Service {
        name: "no two calls closer than 5 ms",
        model: || Box::new(bucket(&[(0.0, 200.0)], 1.0, Hint::None)),
        ceiling: 512,
        seconds: 600,
        search: 120,
        // One worker alone gets 0.8.
        aim: Aim(0.65, 3.0),
    },
    Service {
        name: "3 % refused at random, no limit",
        model: || Box::new(AtRandom(no_limit(), 0.03)),
        ceiling: SIXTY_FOUR,
        seconds: 600,
        search: 240,
        aim: USUAL_AIM,
    },
    Service {
        name: "no limit",
        model: || Box::new(no_limit()),
        ceiling: SIXTY_FOUR,
        seconds: 120,
        search: 30,
        aim: USUAL_AIM,
    },
    Service {
        name: "bare 503: 60/s, away from 5 min on for 2 min",
        model: || {
            Box::new(Bare503(Box::new(Outage {
                service: bucket(&[(0.0, 60.0)], 20.0, Hint::None),
                away: Away::Refusing,
                from: 300.0,
                to: 420.0,
            })))
        },
        ceiling: 512,
        seconds: 600,
        search: 120,
        // Each worker finds out by itself that the service is away, and when it is back.
        aim: Aim(0.85, 6.0),
    },
    Service {
        name: "20 in flight",
        model: || super::cases::calls_in_flight(20, 0.08, 0.3, 0.0),
        ceiling: 512,
        seconds: 600,
        search: 120,
        aim: USUAL_AIM,
    },
];

/// A service that takes whatever 64 calls in flight can ask for.
fn no_limit() -> NoLimit {
    NoLimit {
        ceiling: SIXTY_FOUR,
        work: USUAL,
    }
}

/// A service that refuses this share of calls at any pace.
struct AtRandom(NoLimit, f64);

impl Model for AtRandom {
    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        if random.f64() < self.1 {
            return (CallOutcome::Throttled(None), 0.05);
        }
        self.0.call(now, row, random)
    }

    fn allows(&self, now: f64) -> f64 {
        self.0.allows(now)
    }
}

/// How the workers of a run come and go.
#[derive(Debug, Clone, Copy)]
enum Workers {
    /// The controller alone, without a row.
    Alone,
    /// These many from the start to the end.
    Steady(usize),
    /// These many at a time, each of which dies after a minute, and another one starts.
    Changing(usize),
}

impl Workers {
    fn lives(self, seconds: usize) -> Vec<Life> {
        match self {
            Self::Alone => Vec::new(),
            Self::Steady(workers) => vec![(0, u64::MAX); workers],
            Self::Changing(workers) => (0..workers)
                .flat_map(|place| {
                    let first = place * MINUTE / workers;
                    let starts = (first..seconds).step_by(MINUTE);
                    let starts = starts.map(|from| (from as u64, (from + MINUTE) as u64));
                    starts.chain([(0, first as u64)])
                })
                .collect(),
        }
    }
}

/// Seconds that a worker lives if workers come and go.
const MINUTE: usize = 60;

/// What is seen of a run, and how far the worker furthest from an even part of the calls is from it, as a factor.
fn run(service: &Service, workers: Workers, delay: u64, seed: u64) -> (Seen, f64) {
    let plan = Plan {
        seconds: service.seconds,
        seed,
        noisy: false,
        rows: 0,
    };
    let mut model = (service.model)();
    let each = match workers {
        Workers::Alone => {
            return (
                simulate(&mut [ours(service.ceiling)], &mut *model, plan),
                1.0,
            );
        }
        Workers::Steady(workers) | Workers::Changing(workers) => service.ceiling / workers,
    };
    let delay = Duration::from_millis(delay);
    let lives = workers.lives(service.seconds);
    let (mut pacers, accepted) = sharing(&lives, each.max(1), delay, seed);
    let seen = simulate(&mut pacers, &mut *model, plan);
    let each = accepted.each();
    let even = each.iter().sum::<u64>() as f64 / each.len() as f64;
    let least = each.iter().copied().min().unwrap_or_default() as f64;
    let most = each.iter().copied().max().unwrap_or_default() as f64;
    (seen, (most / even).max(even / least.max(0.1)))
}

/// Runs of a service by the same workers.
struct Runs(Vec<(Seen, f64)>);

impl Runs {
    fn of(service: &Service, workers: Workers, delay: u64, seeds: usize) -> Self {
        let runs = Mutex::new(Vec::new());
        for_each(seeds, |seed| {
            let seen = run(service, workers, delay, seed as u64 + 1);
            runs.lock().unwrap().push(seen);
        });
        Self(runs.into_inner().unwrap())
    }

    fn mean(&self, value: impl Fn(&Seen) -> f64) -> f64 {
        self.0.iter().map(|(seen, _)| value(seen)).sum::<f64>() / self.0.len() as f64
    }

    fn least(&self, value: impl Fn(&Seen) -> f64) -> f64 {
        let values = self.0.iter().map(|(seen, _)| value(seen));
        values.fold(f64::INFINITY, f64::min)
    }

    fn most(&self, value: impl Fn(&Seen) -> f64) -> f64 {
        let values = self.0.iter().map(|(seen, _)| value(seen));
        values.fold(0.0, f64::max)
    }

    fn uneven(&self) -> f64 {
        self.0.iter().map(|(_, uneven)| *uneven).fold(1.0, f64::max)
    }
}

/// All kinds of workers, and the round trips to the row in milliseconds.
const KINDS: [(Workers, u64); 13] = [
    (Workers::Alone, 0),
    (Workers::Steady(2), 5),
    (Workers::Steady(2), 50),
    (Workers::Steady(8), 5),
    (Workers::Steady(8), 50),
    (Workers::Steady(32), 5),
    (Workers::Steady(32), 50),
    (Workers::Changing(2), 5),
    (Workers::Changing(2), 50),
    (Workers::Changing(8), 5),
    (Workers::Changing(8), 50),
    (Workers::Changing(32), 5),
    (Workers::Changing(32), 50),
];

#[test]
fn workers_that_share_a_pace_keep_to_the_limit_as_one_does() {
    let service = |name: &str| SERVICES.iter().find(|one| one.name == name).unwrap();
    let runs = [
        (service("150/s"), Workers::Steady(2), 50),
        (service("150/s"), Workers::Steady(8), 5),
        (service("150/s"), Workers::Steady(32), 50),
        (service("150/s"), Workers::Changing(8), 50),
        (service("150/s"), Workers::Changing(2), 5),
        (
            service("bucket of 50, 40/s, Retry-After"),
            Workers::Steady(8),
            50,
        ),
        (
            service("no two calls closer than 5 ms"),
            Workers::Steady(8),
            5,
        ),
        (
            service("bare 503: 60/s, away from 5 min on for 2 min"),
            Workers::Steady(8),
            50,
        ),
        (service("no limit"), Workers::Steady(8), 50),
        (service("no limit"), Workers::Changing(8), 5),
    ];
    let missed = Mutex::new(Vec::new());
    for_each(runs.len(), |place| {
        let (service, workers, delay) = runs[place];
        // Without optimisation a run takes seconds.
        let (alone, _) = run(service, Workers::Alone, 0, 1);
        let (seen, uneven) = run(service, workers, delay, 1);
        let share = seen.share(service.search, service.seconds);
        let steady = matches!(workers, Workers::Steady(_));
        let Aim(least, most) = service.aim;
        if share < least
            || f64::from(seen.refused) > most * f64::from(alone.refused)
            || steady && uneven > 2.0
        {
            missed.lock().unwrap().push(format!(
                "{}, {workers:?}, {delay} ms: share {share:.3}, {} refused and {} alone, uneven {uneven:.2}",
                service.name, seen.refused, alone.refused
            ));
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
#[ignore = "takes minutes; `cargo test --release --lib sharing_table -- --ignored --nocapture`"]
fn table_of_shared_paces() {
    let wanted = std::env::var("SIM_CASES").unwrap_or_default();
    let seeds = std::env::var("SIM_SEEDS").map_or(12, |seeds| seeds.parse().unwrap());
    let only = std::env::var("SIM_KIND").ok();
    println!(
        "| service | workers | round trip, ms | share, mean | least | refused, mean | most | beside one | in the first minute | furthest from an even part |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for service in { SERVICES.iter() }.filter(|one| one.name.contains(&wanted)) {
        let mut alone = 0.0;
        for (place, (workers, delay)) in KINDS.into_iter().enumerate() {
            if only.as_ref().is_some_and(|only| *only != place.to_string()) {
                continue;
            }
            let runs = Runs::of(service, workers, delay, seeds);
            let share = |seen: &Seen| seen.share(service.search, service.seconds) * 100.0;
            let refused = |seen: &Seen| f64::from(seen.refused);
            let (name, uneven) = match workers {
                Workers::Alone => ("alone".to_owned(), String::new()),
                Workers::Steady(workers) => (workers.to_string(), format!("{:.2}", runs.uneven())),
                Workers::Changing(workers) => (format!("{workers}, come and go"), String::new()),
            };
            if let Workers::Alone = workers {
                alone = runs.mean(refused);
            }
            println!(
                "| {} | {name} | {delay} | {:.1} | {:.1} | {:.0} | {:.0} | {:.2} | {:.0} | {uneven} |",
                service.name,
                runs.mean(share),
                runs.least(share),
                runs.mean(refused),
                runs.most(refused),
                runs.mean(refused) / alone.max(1.0),
                runs.most(|seen| f64::from(seen.refused_early)),
            );
        }
    }
}
