//! Services whose parameters are drawn at random, of the families that gateways have: nothing is tuned for one of them.

use super::contract::Case;
use super::elastic::{Adaptive, Instances};
use super::limits::{Burst, Clock, FixedWindow, LimitReq, TokenBucket};
use super::models::{Concurrency, Hint, Model, NoLimit, Queue, Work};
use super::wrapped::{Penalty, Wrapped, Wrapper};

/// Draws numbers whose logarithms are equally likely.
struct Draw(fastrand::Rng);

impl Draw {
    fn within(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.0.f64())
    }

    /// From answers that take nearly the same time to those of which one in a hundred takes sixteen times the usual one.
    fn spread(&mut self) -> f64 {
        if let Ok(spread) = std::env::var("SIM_SPREAD") {
            return spread.parse().unwrap();
        }
        0.2 + self.0.f64()
    }

    fn workers(&mut self) -> usize {
        self.within(1.0, 16.0).round() as usize
    }

    fn is_one_in(&mut self, many: f64) -> bool {
        self.0.f64() * many < 1.0
    }
}

/// What is drawn for each service; each family uses a part of it.
#[derive(Clone, Copy)]
struct Drawn {
    rate: f64,
    burst: f64,
    work: Work,
    /// Seconds of a round trip on the wire.
    wire: f64,
    hint: Hint,
    window: f64,
    /// The share of calls refused at random.
    random: f64,
    in_flight: usize,
    is_bare_503: bool,
}

/// A hundred services of this seed.
pub(super) fn hundred(seed: u64) -> Vec<Case> {
    let mut draw = Draw(fastrand::Rng::with_seed(seed));
    (0..100)
        .map(|number| case(number, drawn(&mut draw)))
        .collect()
}

/// Forty buckets that refuse 1 to 3 % of calls at random as well, with answers of 0.2 to 0.6 s.
pub(super) fn slow_and_noisy(seed: u64) -> Vec<Case> {
    let mut draw = Draw(fastrand::Rng::with_seed(seed));
    (0..40)
        .map(|number| {
            let (typical, random) = (draw.within(0.2, 0.6), draw.within(0.01, 0.03));
            let mut drawn = drawn(&mut draw);
            (drawn.work.typical, drawn.random) = (typical, random);
            // A family of buckets.
            case(number * 5, drawn)
        })
        .collect()
}

fn drawn(draw: &mut Draw) -> Drawn {
    let rate = draw.within(0.7, 300.0);
    Drawn {
        rate,
        burst: (rate * draw.within(0.05, 5.0)).max(1.0).round(),
        work: Work::of(draw.within(0.02, 0.6)).spread(draw.spread()),
        wire: draw.within(0.002, 0.1),
        hint: if draw.is_one_in(2.0) {
            Hint::None
        } else {
            Hint::RetryAfter
        },
        window: [1.0, 1.0, 10.0, 60.0][draw.0.usize(..4)],
        random: if draw.is_one_in(2.0) {
            0.0
        } else {
            draw.within(0.001, 0.04)
        },
        in_flight: draw.within(2.0, 60.0).round() as usize,
        is_bare_503: draw.is_one_in(4.0),
    }
}

fn case(number: usize, drawn: Drawn) -> Case {
    let Drawn {
        rate,
        burst,
        work,
        wire,
        ..
    } = drawn;
    let (hint, window, random) = (drawn.hint, drawn.window, drawn.random);
    let calls = (rate * window).max(3.0) as u32;
    let said = match hint {
        Hint::None => "no hint",
        Hint::RetryAfter => "Retry-After",
    };
    let takes = takes(work, wire);
    let percent = random * 100.0;
    let name = match number % 5 {
        0 | 1 => format!(
            "bucket of {burst}, {rate:.1}/s, {said}, {takes}, {percent:.2} % at random{}",
            if drawn.is_bare_503 { ", bare 503" } else { "" }
        ),
        2 => format!("window, {calls} in {window} s, {said}, {takes}"),
        3 => format!("{} in flight, {takes}", drawn.in_flight),
        _ => format!("no limit, {takes}, {percent:.2} % at random, {said}"),
    };
    let model = move || -> Box<dyn Model> {
        let at_random = Wrapper::AtRandom(random, hint);
        let far = |service| Box::new(wrapped(service, Wrapper::Far(wire)));
        match number % 5 {
            0 | 1 => {
                let bucket = TokenBucket::new(rate, burst, hint, work);
                let far = far(Box::new(wrapped(Box::new(bucket), at_random)));
                if drawn.is_bare_503 {
                    Box::new(wrapped(far, Wrapper::Bare503))
                } else {
                    far
                }
            }
            2 => far(Box::new(FixedWindow::new(calls, window, hint, work))),
            3 => Box::new(Concurrency::new(drawn.in_flight, work, 0.0)),
            _ => {
                let ceiling = 200;
                Box::new(wrapped(Box::new(NoLimit { ceiling, work }), at_random))
            }
        }
    };
    let (minutes, search, ceiling) = if number % 5 == 4 {
        (6, 120, 200)
    } else {
        (25, 240, 512)
    };
    Case {
        minutes,
        search,
        ceiling,
        learnt: 240,
        ..Case::new(format!("{number}: {name}"), model)
    }
}

fn takes(work: Work, wire: f64) -> String {
    let (typical, wire) = (work.typical * 1e3, wire * 1e3);
    format!("{typical:.0} + {wire:.0} ms, spread {:.1}", work.spread)
}

fn wrapped(service: Box<dyn Model>, by: Wrapper) -> Wrapped<Box<dyn Model>> {
    Wrapped::new(service, by)
}

/// What is drawn for a service of another kind.
type Kind = fn(Drawn, &mut Draw) -> Box<dyn Model>;

/// Kinds of services that the hundred are not of.
const KINDS: [(&str, Kind); 10] = [
    ("queue", |drawn, draw| {
        Box::new(Queue::new(draw.workers(), drawn.work))
    }),
    ("queue that is full, bare 503", |drawn, draw| {
        let longest = drawn.work.typical * draw.within(2.0, 20.0);
        Box::new(Queue::new(draw.workers(), drawn.work).holding(longest))
    }),
    ("block, no hint", |drawn, draw| {
        let calls = draw.within(5.0, 50.0) as u32;
        let window = FixedWindow::new(calls, 1.0, Hint::None, drawn.work);
        let by = Wrapper::Blocks(draw.within(10.0, 60.0), Penalty::Never, Hint::None);
        Box::new(wrapped(Box::new(window), by))
    }),
    ("penalty box, Retry-After", |drawn, draw| {
        let penalty = [Penalty::Doubles, Penalty::Restarts][draw.0.usize(..2)];
        let bucket = TokenBucket::new(drawn.rate, drawn.burst, Hint::RetryAfter, drawn.work);
        let by = Wrapper::Blocks(draw.within(5.0, 300.0), penalty, Hint::RetryAfter);
        Box::new(wrapped(Box::new(bucket), by))
    }),
    ("headers with times of day", |drawn, draw| {
        let seconds = [15.0, 60.0, 60.0, 120.0][draw.0.usize(..4)];
        let calls = (draw.within(2.0, 50.0) * seconds) as u32;
        let clock = Clock::Epoch(draw.0.f64());
        let window = FixedWindow::new(calls, seconds, Hint::RetryAfter, drawn.work);
        Box::new(window.with_headers(clock))
    }),
    ("brown-outs", |drawn, draw| {
        let (every, lasts) = (draw.within(300.0, 700.0), draw.within(20.0, 120.0));
        let mut bucket = TokenBucket::new(drawn.rate, drawn.burst, drawn.hint, drawn.work);
        let left = draw.within(0.15, 0.5);
        for nth in 1..5 {
            let ends = every * f64::from(nth);
            bucket = bucket
                .then(ends - lasts, drawn.rate * left)
                .then(ends, drawn.rate);
        }
        Box::new(wrapped(Box::new(bucket), Wrapper::BrownOut(every, lasts)))
    }),
    ("others take 20 to 70 %", |drawn, draw| {
        let others = drawn.rate * draw.within(0.2, 0.7);
        let bucket = TokenBucket::new(drawn.rate, drawn.burst, drawn.hint, drawn.work);
        Box::new(wrapped(Box::new(bucket), Wrapper::Others(others)))
    }),
    ("cold starts", |drawn, draw| {
        let most = draw.within(8.0, 100.0) as usize;
        Box::new(Instances::new(most, draw.within(1.0, 8.0), drawn.work))
    }),
    ("Envoy's adaptive concurrency", |drawn, draw| {
        Box::new(Adaptive::new(draw.workers() * 4, drawn.work))
    }),
    ("nginx without burst, bare 503", |drawn, draw| {
        let nginx = LimitReq::new(draw.within(0.7, 20.0), Burst::None, drawn.work);
        Box::new(wrapped(Box::new(nginx), Wrapper::Bare503))
    }),
];

/// The names of these kinds, with so many services of each.
pub(super) fn other_kinds(seed: u64, each: u64) -> Vec<(&'static str, Vec<Case>)> {
    let of = |kind: usize, number: u64| {
        let (name, make) = KINDS[kind];
        let new = move || {
            Draw(fastrand::Rng::with_seed(
                (seed * 100 + kind as u64) * 100 + number,
            ))
        };
        let model = move || {
            let mut draw = new();
            make(drawn(&mut draw), &mut draw)
        };
        Case {
            learnt: 240,
            minutes: 40,
            ..Case::new(format!("{number}: {name}"), model)
        }
    };
    let all = |kind| (0..each).map(|number| of(kind, number)).collect();
    KINDS
        .iter()
        .enumerate()
        .map(|(kind, (name, _))| (*name, all(kind)))
        .collect()
}
