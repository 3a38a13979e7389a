//! Services whose parameters are drawn at random, of the families that gateways have: nothing is tuned for one of them.

use super::contract::Case;
use super::limits::{FixedWindow, TokenBucket};
use super::models::{Concurrency, Hint, Model, NoLimit, Work};
use super::wrapped::{Wrapped, Wrapper};

/// Draws numbers whose logarithms are equally likely.
struct Draw(fastrand::Rng);

impl Draw {
    fn within(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.0.f64())
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
            (drawn.work, drawn.random) = (Work::of(typical), random);
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
        work: Work::of(draw.within(0.02, 0.6)),
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
    let takes = format!("{:.0} + {:.0} ms", work.typical * 1e3, wire * 1e3);
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

fn wrapped(service: Box<dyn Model>, by: Wrapper) -> Wrapped<Box<dyn Model>> {
    Wrapped { service, by }
}
