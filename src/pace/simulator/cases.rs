//! The services to try, and what is expected with each.

use super::case::{Case, Disturbance, case};
use super::models::{
    Away, Cache, Concurrency, Faults, FixedWindow, Hint, Model, Outage, Queue, RefusingAtRandom,
    TokenBucket, UsedUp, Work,
};

/// The ceiling at which some of these services take every call.
const SIXTY_FOUR: usize = 64;
pub(super) const USUAL: Work = Work {
    typical: 0.08,
    spread: 0.3,
};

pub(super) fn bucket(rates: &[(f64, f64)], burst: f64, hint: Hint) -> TokenBucket {
    TokenBucket::new(rates, burst, hint, USUAL)
}

pub(super) fn calls_in_flight(
    calls: usize,
    typical: f64,
    spread: f64,
    wire: f64,
) -> Box<dyn Model> {
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
        case("bucket of 1, 0.7/s, no hint", || {
            Box::new(bucket(&[(0.0, 0.7)], 1.0, Hint::None))
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
        case("20 in flight, 80 ms", || {
            calls_in_flight(20, 0.08, 0.3, 0.0)
        }),
        // A service does not count calls on the wire, so its limit looks like one of calls a second.
        Case {
            share: 0.8,
            ..case("20 in flight, 80 ms, 30 ms away", || {
                calls_in_flight(20, 0.08, 0.3, 0.03)
            })
        },
        Case {
            share: 0.65,
            ..case("2 in flight, 80 ms, 30 ms away", || {
                calls_in_flight(2, 0.08, 0.3, 0.03)
            })
        },
        case("5 in flight, 10 ms, 50 ms away", || {
            calls_in_flight(5, 0.01, 0.3, 0.05)
        }),
        Case {
            ceiling: SIXTY_FOUR,
            ..case("slow: 64 in flight, 8 s", || {
                calls_in_flight(64, 8.0, 0.2, 0.0)
            })
        },
        Case {
            ceiling: SIXTY_FOUR,
            minutes: 1,
            search: 15,
            refused: 0,
            ..case("fast: 64 in flight, 20 ms", || {
                calls_in_flight(64, 0.02, 0.1, 0.0)
            })
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
            // Until the controller notices the rise, half of the allowed calls are missing.
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
            // Thirty calls are in flight at the first refusal, and a few at each further cut.
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
            // Only the last timeout ends it.
            change: Some(Disturbance {
                from: 600,
                to: 660,
                share: 0.0,
                recovery: 120,
            }),
            ..case("everything hangs for 1 min, bucket of 50, 40/s", || {
                Box::new(Outage {
                    service: bucket(&[(0.0, 40.0)], 50.0, Hint::RetryAfter),
                    away: Away::Hanging,
                    from: 600.0,
                    to: 660.0,
                })
            })
        },
        Case {
            // Those that were in flight, and single calls.
            refused: 60,
            at_first: 0.7,
            each_minute: 0.9,
            ..case("refuses everything for 15 s, bucket of 60, 60/s", || {
                Box::new(Outage {
                    service: bucket(&[(0.0, 60.0)], 60.0, Hint::None),
                    away: Away::Refusing,
                    from: 15.0,
                    to: 30.0,
                })
            })
        },
        Case {
            // Those that were in flight, and single calls.
            refused: 60,
            at_first: 0.7,
            ..case(
                "refuses everything for 10 s at first, bucket of 60, 60/s",
                || {
                    Box::new(Outage {
                        service: bucket(&[(0.0, 60.0)], 60.0, Hint::None),
                        away: Away::Refusing,
                        from: 0.0,
                        to: 10.0,
                    })
                },
            )
        },
    ]
}

/// A service that takes whatever 64 calls in flight can ask for.
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

/// Some answers come from a cache, others take ten times as long; there is no limit.
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

/// Trouble that is not a limit, and limits that are badly announced.
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
            // A hanging call takes a place for 30 s, so 64 in flight reach 22 % at most.
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
            // If the first random refusals come while the rate is low, it takes minutes to recognise them.
            share: 0.5,
            quick: 10,
            refused: u32::MAX,
            refused_share: 0.015,
            ..case("one call in 100 is refused, no limit", || {
                Box::new(RefusingAtRandom {
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
                Box::new(RefusingAtRandom {
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
                Box::new(RefusingAtRandom {
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
                Box::new(RefusingAtRandom {
                    service: bucket(&[(0.0, 40.0)], 50.0, Hint::RetryAfter),
                    refusing: 0.001,
                    hint: Hint::RetryAfter,
                })
            })
        },
        Case {
            share: 0.9,
            // At that rate sixty calls are in flight when a window is used up.
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
