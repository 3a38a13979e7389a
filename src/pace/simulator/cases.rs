//! The services that are tried, and what is expected of each.

use std::sync::Arc;

use super::models::{
    Away, Cache, Concurrency, Faults, FixedWindow, Hint, Model, Moody, Outage, Queue, TokenBucket,
    UsedUp, Work,
};

/// A service to be tried, and what is expected.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) model: Arc<dyn Fn() -> Box<dyn Model> + Send + Sync>,
    pub(super) programs: usize,
    /// Calls in flight that each may have at most.
    pub(super) ceiling: usize,
    /// Whether the programs stall now and then.
    pub(super) noisy: bool,
    pub(super) minutes: usize,
    /// So many of them are enough for the everyday tests; with none they do without it.
    pub(super) quick: usize,
    /// Seconds that the search may take before shares count.
    pub(super) search: usize,
    /// Of what is allowed, after the search.
    pub(super) share: f64,
    /// Calls in all minutes, a program; or as many as were in flight at the first refusal.
    pub(super) refused: u32,
    /// Of all calls.
    pub(super) refused_share: f64,
    /// Of what is allowed, in the first 75 s.
    pub(super) at_first: f64,
    /// Of what is allowed, in each minute after the first.
    pub(super) each_minute: f64,
    /// The mean time of a call, as a multiple of what it takes without others, where they wait for each other.
    pub(super) latency: f64,
    /// So many rows have their answers after so many seconds.
    pub(super) rows: Option<(u64, f64)>,
    /// When the service changes for a while: the share in that time, and seconds to recover from it.
    pub(super) change: Option<Disturbance>,
}

#[derive(Clone)]
pub(super) struct Disturbance {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) share: f64,
    pub(super) recovery: usize,
}

/// The default ceiling of calls in flight.
pub(super) const IN_FLIGHT: usize = 512;
/// The ceiling with which some of these services bear everything.
const SIXTY_FOUR: usize = 64;
pub(super) const USUAL: Work = Work {
    typical: 0.08,
    spread: 0.3,
};

pub(super) fn case(
    name: impl Into<String>,
    model: impl Fn() -> Box<dyn Model> + Send + Sync + 'static,
) -> Case {
    Case {
        name: name.into(),
        model: Arc::new(model),
        programs: 1,
        ceiling: IN_FLIGHT,
        noisy: false,
        minutes: 30,
        quick: usize::MAX,
        search: 240,
        share: 0.94,
        refused: 30,
        refused_share: 1.0,
        at_first: 0.0,
        each_minute: 0.0,
        latency: f64::INFINITY,
        rows: None,
        change: None,
    }
}

pub(super) fn bucket(rates: &[(f64, f64)], burst: f64, hint: Hint) -> TokenBucket {
    TokenBucket::new(rates, burst, hint, USUAL)
}

pub(super) fn at_once(calls: usize, typical: f64, spread: f64, wire: f64) -> Box<dyn Model> {
    Box::new(Concurrency::new(calls, Work { typical, spread }, wire))
}

/// Limits that stay as they are.
pub(super) fn steady() -> Vec<Case> {
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
            quick: 10,
            ..case("bucket of 400, 400/s, no hint", || {
                Box::new(bucket(&[(0.0, 400.0)], 400.0, Hint::None))
            })
        },
        case("400 in 10 s, Retry-After", || {
            Box::new(FixedWindow::new(400, 10.0, Hint::RetryAfter, USUAL))
        }),
        case("400 in 10 s, no hint", || {
            Box::new(FixedWindow::new(400, 10.0, Hint::None, USUAL))
        }),
        case("1,200 in 60 s, Retry-After", || {
            Box::new(FixedWindow::new(1_200, 60.0, Hint::RetryAfter, USUAL))
        }),
        case("20 at once, 80 ms", || at_once(20, 0.08, 0.3, 0.0)),
        // Of calls on the wire a service counts none, so that its limit looks like one of calls a second.
        Case {
            share: 0.8,
            ..case("20 at once, 80 ms, 30 ms away", || {
                at_once(20, 0.08, 0.3, 0.03)
            })
        },
        Case {
            share: 0.65,
            ..case("2 at once, 80 ms, 30 ms away", || {
                at_once(2, 0.08, 0.3, 0.03)
            })
        },
        case("5 at once, 10 ms, 50 ms away", || {
            at_once(5, 0.01, 0.3, 0.05)
        }),
        Case {
            ceiling: SIXTY_FOUR,
            ..case("slow: 64 at once, 8 s", || at_once(64, 8.0, 0.2, 0.0))
        },
        Case {
            ceiling: SIXTY_FOUR,
            minutes: 1,
            search: 15,
            refused: 0,
            ..case("fast: 64 at once, 20 ms", || at_once(64, 0.02, 0.1, 0.0))
        },
        Case {
            refused: 0,
            latency: 2.0,
            ..case("queues what is above 40/s", || {
                let work = Work {
                    typical: 0.1,
                    spread: 0.2,
                };
                Box::new(Queue::new(4, work))
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
pub(super) fn changing() -> Vec<Case> {
    vec![
        Case {
            minutes: 60,
            // Half as much again for as long as nobody knows that it has risen.
            share: 0.75,
            change: Some(Disturbance {
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
            change: Some(Disturbance {
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
            change: Some(Disturbance {
                from: 660,
                to: 1740,
                share: 0.9,
                recovery: 10,
            }),
            ..case("40/s falls to 2/s", || {
                let rates = [(0.0, 40.0), (600.0, 2.0)];
                Box::new(bucket(&rates, 20.0, Hint::RetryAfter))
            })
        },
        Case {
            // At the first refusal thirty calls are out, and on the way down some each time.
            refused: 80,
            change: Some(Disturbance {
                from: 660,
                to: 1740,
                share: 0.9,
                recovery: 10,
            }),
            ..case("400/s falls to 1/s", || {
                let rates = [(0.0, 400.0), (600.0, 1.0)];
                Box::new(bucket(&rates, 20.0, Hint::None))
            })
        },
        Case {
            // Until the last call of a minute has timed out nobody knows.
            change: Some(Disturbance {
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
    Concurrency::new(SIXTY_FOUR, USUAL, 0.0)
}

fn cache(hits: f64) -> Box<dyn Model> {
    let work = |typical| Work {
        typical,
        spread: 0.3,
    };
    Box::new(Cache {
        calls: SIXTY_FOUR,
        hits,
        hit: work(0.02),
        miss: work(0.2),
    })
}

/// Some answers at once, others ten times as late, and no limit.
pub(super) fn uneven() -> Vec<Case> {
    vec![
        Case {
            ceiling: SIXTY_FOUR,
            minutes: 10,
            refused: 0,
            ..case("half of the answers in 20 ms, half in 200 ms", || {
                cache(0.5)
            })
        },
        Case {
            ceiling: SIXTY_FOUR,
            minutes: 10,
            refused: 0,
            ..case("one answer in five in 20 ms, the others in 200 ms", || {
                cache(0.2)
            })
        },
    ]
}

/// Trouble that is nobody's limit, and limits that are told badly.
pub(super) fn troubled() -> Vec<Case> {
    vec![
        Case {
            ceiling: SIXTY_FOUR,
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
            ceiling: SIXTY_FOUR,
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
            ceiling: SIXTY_FOUR,
            // Refused by chance while the rate is still low, it takes minutes until that is known.
            share: 0.5,
            quick: 10,
            refused: u32::MAX,
            refused_share: 0.015,
            ..case("one call in 100 is refused, no limit", || {
                Box::new(Moody {
                    service: everything(),
                    refusing: 0.01,
                    hint: Hint::RetryAfter,
                })
            })
        },
        Case {
            ceiling: SIXTY_FOUR,
            share: 0.4,
            quick: 10,
            refused: u32::MAX,
            refused_share: 0.002,
            ..case("one call in 1,000 is refused, no limit", || {
                Box::new(Moody {
                    service: everything(),
                    refusing: 0.001,
                    hint: Hint::None,
                })
            })
        },
        Case {
            share: 0.45,
            refused: u32::MAX,
            refused_share: 0.05,
            ..case("one call in 100 is refused, bucket of 50, 40/s", || {
                Box::new(Moody {
                    service: bucket(&[(0.0, 40.0)], 50.0, Hint::None),
                    refusing: 0.01,
                    hint: Hint::None,
                })
            })
        },
        Case {
            share: 0.3,
            refused: u32::MAX,
            refused_share: 0.02,
            ..case("one call in 1,000 is refused, bucket of 50, 40/s", || {
                Box::new(Moody {
                    service: bucket(&[(0.0, 40.0)], 50.0, Hint::RetryAfter),
                    refusing: 0.001,
                    hint: Hint::RetryAfter,
                })
            })
        },
        Case {
            share: 0.9,
            // With that limit sixty calls are out when a window is used up.
            refused: 60,
            ..case("3,000 a minute, used up for 45 s at first", || {
                Box::new(UsedUp {
                    service: FixedWindow::new(3_000, 60.0, Hint::RetryAfter, USUAL),
                    until: 45.0,
                })
            })
        },
        Case {
            minutes: 60,
            share: 0.67,
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
