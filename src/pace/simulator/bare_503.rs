//! Proxies that answer with a bare 503 to calls beyond a limit, as nginx does, and also when the service is away.

use super::case::{Case, Disturbance, case};
use super::cases::{USUAL, bucket, calls_in_flight};
use super::demands::no_limit;
use super::limit_req::{Burst, LimitReq};
use super::models::{Away, FixedWindow, Hint, Model, Outage, RefusingAtRandom, Work};
use super::rows::Row;
use super::wrapped::{AlwaysRefused, RefusedRows};
use crate::pace::types::CallOutcome;

/// Another service whose refusals are bare 503s.
pub(super) struct Bare503(pub(super) Box<dyn Model>);

impl Model for Bare503 {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        self.0.way(random)
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let (how, time) = self.0.call(now, row, random);
        match how {
            CallOutcome::Throttled(_) => (CallOutcome::BusyOrAway, time),
            _ => (how, time),
        }
    }

    fn allows(&self, now: f64) -> f64 {
        self.0.allows(now)
    }
}

fn bare_503(name: &str, model: impl Fn() -> Box<dyn Model> + Send + Sync + 'static) -> Case {
    case(format!("bare 503: {name}"), move || {
        Box::new(Bare503(model()))
    })
}

const SHORT: Work = Work {
    typical: 0.02,
    spread: 0.3,
};

/// Away from 10 minutes on, for so many seconds.
fn away(name: &str, seconds: usize) -> Case {
    const FROM: usize = 600;
    let to = FROM + seconds;
    Case {
        change: Some(Disturbance {
            from: FROM,
            to,
            share: 0.0,
            recovery: 60,
        }),
        // Those that are in flight at the first refusal, before each test of an outage, and when all come back.
        refused: 60,
        ..bare_503(name, move || {
            Box::new(Outage {
                service: bucket(&[(0.0, 40.0)], 50.0, Hint::None),
                away: Away::Refusing,
                from: FROM as f64,
                to: to as f64,
            })
        })
    }
}

/// Half of what is possible is the aim, as where random refusals ask for fewer calls.
fn at_random<M: Model + 'static>(
    name: &str,
    refusing: f64,
    service: impl Fn() -> M + Send + Sync + 'static,
) -> Case {
    Case {
        quick: 10,
        share: 0.5,
        refused: u32::MAX,
        refused_share: refusing * 1.5 + 0.01,
        ..bare_503(name, move || {
            Box::new(RefusingAtRandom {
                service: service(),
                refusing,
                hint: Hint::Always(0),
            })
        })
    }
}

pub(super) fn bare_503s() -> Vec<Case> {
    vec![
        bare_503("bucket of 20, 40/s", || {
            Box::new(bucket(&[(0.0, 40.0)], 20.0, Hint::None))
        }),
        bare_503("nginx, 50/s, 20 pass immediately", || {
            Box::new(LimitReq::new(50.0, Burst::Passes(20.0), SHORT))
        }),
        Case {
            share: 0.6,
            refused: u32::MAX,
            refused_share: 0.02,
            ..bare_503("nginx, 200/s, none closer", || {
                Box::new(LimitReq::new(200.0, Burst::None, SHORT))
            })
        },
        bare_503("8 in flight, 50 ms", || calls_in_flight(8, 0.05, 0.3, 0.0)),
        Case {
            share: 0.8,
            ..bare_503("20 in flight, 80 ms, 30 ms away", || {
                calls_in_flight(20, 0.08, 0.3, 0.03)
            })
        },
        Case {
            // They are refused for as long as the first ones take.
            refused: 200,
            ..bare_503("64 in flight, 8 s", || calls_in_flight(64, 8.0, 0.2, 0.0))
        },
        Case {
            // Each window is used up soon, and then the service is taken to be away until the next one.
            refused: u32::MAX,
            refused_share: 0.03,
            ..bare_503("1,200 in 60 s", || {
                Box::new(FixedWindow::new(1_200, 60.0, Hint::None, USUAL))
            })
        },
        at_random("one call in 100 at random, no limit", 0.01, || {
            no_limit(0.25)
        }),
        at_random("one call in 16 at random, no limit", 0.0625, || {
            no_limit(0.25)
        }),
        at_random(
            "one call in 16 at random, bucket of 50, 40/s",
            0.0625,
            || bucket(&[(0.0, 40.0)], 50.0, Hint::None),
        ),
        Case {
            quick: 2,
            minutes: 10,
            refused: u32::MAX,
            refused_share: 0.02,
            share: 0.9,
            ..bare_503("one row in 500 always, no limit", || {
                Box::new(AlwaysRefused {
                    service: no_limit(0.25),
                    bad: RefusedRows::Every(500),
                    hint: Hint::None,
                })
            })
        },
        away("away for 1 s, bucket of 50, 40/s", 1),
        away("away for 3 min, bucket of 50, 40/s", 180),
    ]
}
