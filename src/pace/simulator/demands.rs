//! More services to try: each was once paced badly, or might be.

use std::collections::HashSet;
use std::sync::Arc;

use super::case::{Case, IN_FLIGHT, case};
use super::cases::{USUAL, bucket, calls_in_flight};
use super::limit_req::{Burst, LimitReq};
use super::models::{Hint, Model, Queue, RefusingAtRandom, TokenBucket, Work};
use super::rows::Row;
use super::wrapped::{
    AlwaysRefused, Changed, Evenly, Far, NoLimit, RefusedOnce, RefusedRows, UnderWay,
};

/// The number of refusals is not limited, or another expectation limits it.
const ANY: u32 = u32::MAX;
const ONE_IN_FIFTY: f64 = 0.02;

const fn work(typical: f64) -> Work {
    Work {
        typical,
        spread: 0.3,
    }
}

/// Takes whatever 512 calls in flight can ask for, with answers after this time.
pub(super) const fn no_limit(typical: f64) -> NoLimit {
    NoLimit {
        ceiling: IN_FLIGHT,
        work: work(typical),
    }
}

/// 2,000/s with the default ceiling: more would only make the simulation longer.
const LONG: f64 = 0.25;

/// What a refusal that is not about a limit may say.
pub(super) const HINTS: [(&str, Hint); 3] = [
    ("no hint", Hint::None),
    ("Retry-After 0", Hint::Always(0)),
    ("Retry-After 1", Hint::Always(1)),
];

pub(super) fn demands() -> Vec<Case> {
    [
        fast(),
        strict(),
        refused_rows(),
        at_random(),
        knees(),
        others(),
        noisy(),
    ]
    .concat()
}

/// Nothing limits calls but the search itself.
fn fast() -> Vec<Case> {
    let takes_everything = |name: &str, typical, rows| Case {
        minutes: 1,
        search: 15,
        share: 0.9,
        refused: 0,
        rows: Some(rows),
        ..case(name, move || Box::new(no_limit(typical)))
    };
    vec![
        takes_everything("no limit, 20 ms", 0.02, (10_000, 5.5)),
        takes_everything("no limit, 100 ms", 0.1, (200, 2.0)),
        Case {
            minutes: 10,
            quick: 2,
            search: 30,
            ..takes_everything("no limit, 300 ms", 0.3, (1_000, 6.0))
        },
        // As fast as the program itself can be.
        Case {
            share: 0.8,
            quick: 0,
            model: Arc::new(|| Box::new(Queue::new(30, work(0.001)))),
            ..takes_everything("30 workers of 1 ms", 0.0, (100_000, 6.0))
        },
    ]
}

/// nginx, and others that count strictly.
fn strict() -> Vec<Case> {
    let mut cases = Vec::new();
    // On a clock of milliseconds, 1/200 s can be a little shorter.
    for (rate, bests) in [(200.0, [1.0, 0.57, 0.295]), (20.0, [1.0, 0.545, 0.287])] {
        for (jitter, best) in [0.0, 1.0, 3.0].into_iter().zip(bests) {
            let name = format!("no two closer than 1/{rate} s, jitter of {jitter} spacings");
            cases.push(strictly(name, move || {
                let strict = LimitReq::new(rate, Burst::None, work(0.02));
                Box::new(strict.jittered(jitter, best))
            }));
        }
    }
    for (name, burst) in [
        ("nginx, 200/s, 20 pass immediately", Burst::Passes(20.0)),
        ("nginx, 200/s, 20 wait", Burst::Waits(20.0)),
    ] {
        cases.push(Case {
            quick: 10,
            ..case(name, move || {
                Box::new(LimitReq::new(200.0, burst, work(0.02)))
            })
        });
    }
    for (name, burst, best, hint) in [
        (
            "the stand-in, 100/s, burst 1, no hint",
            1.0,
            BURST_OF_1,
            Hint::None,
        ),
        (
            "the stand-in, 100/s, burst 1, Retry-After",
            1.0,
            BURST_OF_1,
            Hint::RetryAfter,
        ),
        (
            "the stand-in, 100/s, burst 10, no hint",
            10.0,
            BURST_OF_10,
            Hint::None,
        ),
    ] {
        cases.push(strictly(name.to_owned(), move || {
            let answer = work(0.001);
            Box::new(UnderWay {
                service: TokenBucket::new(&[(0.0, 100.0)], burst, hint, answer),
                least: 0.04,
                most: 0.12,
                best,
            })
        }));
    }
    for burst in [1.0, 10.0] {
        let name = format!("100/s counted on arrival, burst {burst}, 80 ms ± 40 ms");
        cases.push(strictly(name, move || {
            let answer = work(0.001);
            Box::new(Evenly {
                service: TokenBucket::new(&[(0.0, 100.0)], burst, Hint::None, answer),
                least: 0.04,
                most: 0.12,
            })
        }));
    }
    cases
}

/// With eight spacings of jitter; found by trying regular intervals over many calls.
const BURST_OF_1: f64 = 0.13;
const BURST_OF_10: f64 = 1.0;

fn strictly(name: String, model: impl Fn() -> Box<dyn Model> + Send + Sync + 'static) -> Case {
    Case {
        share: 0.6,
        refused: ANY,
        refused_share: ONE_IN_FIFTY,
        quick: 15,
        ..case(name, model)
    }
}

/// Rows that are always refused; each fails after several refusals.
fn refused_rows() -> Vec<Case> {
    const FIVE: &[Row] = &[100, 101, 700, 1_500, 4_000];
    let mut cases = Vec::new();
    for (many, bad, refused) in [
        ("one row", RefusedRows::These(&FIVE[..1]), 60),
        ("five rows", RefusedRows::These(FIVE), 100),
        ("one row in 100", RefusedRows::Every(100), ANY),
        ("one row in 500", RefusedRows::Every(500), ANY),
    ] {
        for hint in [HINTS[0], HINTS[2]] {
            let name = |service: &str| format!("{many} always refused, {service}, {}", hint.0);
            cases.push(Case {
                minutes: 10,
                quick: 2,
                search: 60,
                share: 0.85,
                refused,
                each_minute: 0.8,
                ..case(name("no limit"), move || {
                    let service = no_limit(LONG);
                    let hint = hint.1;
                    Box::new(AlwaysRefused { service, bad, hint })
                })
            });
            cases.push(Case {
                share: 0.85,
                refused,
                each_minute: 0.5,
                ..case(name("bucket of 50, 40/s"), move || {
                    let service = bucket(&[(0.0, 40.0)], 50.0, hint.1);
                    let hint = hint.1;
                    Box::new(AlwaysRefused { service, bad, hint })
                })
            });
        }
    }
    for (said, hint) in HINTS {
        cases.push(Case {
            minutes: 10,
            search: 60,
            share: 0.5,
            refused: ANY,
            ..case(
                format!("every 16th row refused once, bucket of 20, 200/s, {said}"),
                move || {
                    Box::new(RefusedOnce {
                        service: bucket(&[(0.0, 200.0)], 20.0, hint),
                        every: 16,
                        hint,
                        refused: HashSet::new(),
                    })
                },
            )
        });
    }
    cases
}

/// Refusals that are not about a limit.
fn at_random() -> Vec<Case> {
    let mut cases = Vec::new();
    let randomly =
        |name: String, refusing: f64, model: Box<dyn Fn() -> Box<dyn Model> + Send + Sync>| Case {
            // What the limit refuses on top must stay small.
            refused_share: refusing * 2.0 + 0.05,
            search: 60,
            share: 0.5,
            refused: ANY,
            each_minute: 0.1,
            ..case(name, model)
        };
    for percent in [0.1, 1.0, 3.0, 6.0, 10.0, 25.0] {
        let refusing = percent / 100.0;
        for (said, hint) in HINTS {
            let name = |service: &str| format!("{percent} % refused, {service}, {said}");
            let free = randomly(
                name("no limit"),
                refusing,
                Box::new(move || {
                    let service = no_limit(LONG);
                    Box::new(RefusingAtRandom {
                        service,
                        refusing,
                        hint,
                    })
                }),
            );
            cases.push(Case {
                minutes: 10,
                quick: 2,
                ..free
            });
            cases.push(randomly(
                name("bucket of 50, 40/s"),
                refusing,
                Box::new(move || {
                    let service = bucket(&[(0.0, 40.0)], 50.0, hint);
                    Box::new(RefusingAtRandom {
                        service,
                        refusing,
                        hint,
                    })
                }),
            ));
        }
    }
    let near = randomly(
        "6 % refused, no limit, 20 ms, Retry-After 1".to_owned(),
        0.06,
        Box::new(|| {
            Box::new(RefusingAtRandom {
                service: no_limit(0.02),
                refusing: 0.06,
                hint: Hint::Always(1),
            })
        }),
    );
    cases.push(Case {
        minutes: 3,
        quick: 0,
        ..near
    });
    for (said, hint) in [HINTS[0], HINTS[2]] {
        let name = |service: &str| format!("1 %, after 5 min 10 % refused, {service}, {said}");
        let free = randomly(
            name("no limit"),
            0.1,
            Box::new(move || {
                let service = |refusing| RefusingAtRandom {
                    service: no_limit(LONG),
                    refusing,
                    hint,
                };
                Box::new(more_refused(service))
            }),
        );
        cases.push(Case { quick: 0, ..free });
        let limited = randomly(
            name("bucket of 50, 40/s"),
            0.1,
            Box::new(move || {
                let service = |refusing| RefusingAtRandom {
                    service: bucket(&[(0.0, 40.0)], 50.0, hint),
                    refusing,
                    hint,
                };
                Box::new(more_refused(service))
            }),
        );
        cases.push(Case {
            quick: 15,
            ..limited
        });
    }
    // So many ask for fewer calls, even if that does not help. A thousand calls show it.
    for (percent, refused) in [(50, 4_000), (55, 15_000)] {
        for (said, hint) in HINTS {
            cases.push(Case {
                minutes: 10,
                quick: 10,
                share: 0.0,
                refused,
                ..case(
                    format!("{percent} % refused, no limit, 20 ms, {said}"),
                    move || {
                        Box::new(RefusingAtRandom {
                            service: no_limit(0.02),
                            refusing: f64::from(percent) / 100.0,
                            hint,
                        })
                    },
                )
            });
        }
    }
    cases
}

/// Ten times as many calls are refused at random from the fifth minute on.
fn more_refused<M>(service: impl Fn(f64) -> M) -> Changed<M> {
    Changed {
        before: service(0.01),
        after: service(0.1),
        at: 300.0,
    }
}

/// From some number in flight on, calls wait for each other and none is refused.
fn knees() -> Vec<Case> {
    [(20, 30), (100, 10), (400, 5)]
        .map(|(workers, minutes)| Case {
            minutes,
            quick: 2,
            search: 60,
            share: 0.9,
            refused: 0,
            latency: 2.0,
            ..case(format!("{workers} workers, 80 ms"), move || {
                Box::new(Queue::new(workers, USUAL))
            })
        })
        .to_vec()
}

fn others() -> Vec<Case> {
    let far = |service| Far {
        service,
        wire: 0.15,
    };
    vec![
        Case {
            search: 60,
            share: 0.75,
            refused: 200,
            ..case("40, 60, 30, 80, 20, 50/s, 5 min each", || {
                let rates = [
                    (0.0, 40.0),
                    (300.0, 60.0),
                    (600.0, 30.0),
                    (900.0, 80.0),
                    (1200.0, 20.0),
                    (1500.0, 50.0),
                ];
                Box::new(bucket(&rates, 50.0, Hint::None))
            })
        },
        case("bucket of 50, 40/s, no hint, 150 ms away", move || {
            Box::new(far(bucket(&[(0.0, 40.0)], 50.0, Hint::None)))
        }),
        case("bucket of 50, 40/s, Retry-After, 150 ms away", move || {
            Box::new(far(bucket(&[(0.0, 40.0)], 50.0, Hint::RetryAfter)))
        }),
        Case {
            share: 0.8,
            ..case("20 in flight, 80 ms, 150 ms away", || {
                calls_in_flight(20, 0.08, 0.3, 0.15)
            })
        },
        case("bucket of 1, 0.25/s, no hint", || {
            Box::new(bucket(&[(0.0, 0.25)], 1.0, Hint::None))
        }),
        case("bucket of 2, 0.7/s, no hint", || {
            Box::new(bucket(&[(0.0, 0.7)], 2.0, Hint::None))
        }),
        Case {
            refused: 10,
            at_first: 0.94,
            ..case("bucket of 5, 60/s, no hint", || {
                Box::new(bucket(&[(0.0, 60.0)], 5.0, Hint::None))
            })
        },
    ]
}

/// The program stalls for up to half a second now and then.
fn noisy() -> Vec<Case> {
    vec![
        Case {
            noisy: true,
            share: 0.8,
            ..case("noisy host, bucket of 50, 40/s, no hint", || {
                Box::new(bucket(&[(0.0, 40.0)], 50.0, Hint::None))
            })
        },
        Case {
            noisy: true,
            share: 0.3,
            ..strictly("noisy host, no two closer than 1/200 s".to_owned(), || {
                Box::new(LimitReq::new(200.0, Burst::None, work(0.02)))
            })
        },
    ]
}
