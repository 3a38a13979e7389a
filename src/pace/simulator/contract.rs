//! The services of the contract, which stand for what gateways do by default, and what the pace must reach with each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::limits::{Burst, Clock, FixedWindow, LimitReq, Replicas, SlidingCounter, TokenBucket};
use super::models::{Cache, Concurrency, Hint, Model, NoLimit, Queue, USUAL, Work};
use super::world::{Seen, simulate, simulate_sharing};
use super::wrapped::{Away, Penalty, Wrapped, Wrapper};
use crate::pace::controller::Controller;
use crate::pace::types::{PaceLimits, Rate};
use crate::telemetry::pace::FoundLimit;

/// A service to try.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) model: Arc<dyn Fn() -> Box<dyn Model> + Send + Sync>,
    pub(super) programs: usize,
    /// The most calls in flight of each program.
    pub(super) ceiling: usize,
    pub(super) minutes: usize,
    /// Seconds of the search, before the share counts.
    pub(super) search: usize,
    /// Seconds after which each minute counts.
    pub(super) learnt: usize,
    pub(super) aim: Aim,
}

/// What runs must reach in the mean: what was reached before, less a margin.
#[derive(Clone, Copy)]
pub(super) struct Aim {
    /// The share of the allowed calls, in percent.
    pub(super) share: f64,
    pub(super) refused: f64,
    /// Seconds until nine tenths of the final pace.
    pub(super) seconds_to_pace: f64,
    /// The share of the worst minute, in percent.
    pub(super) worst: f64,
}

impl Aim {
    /// Not worse by more than this than a share in percent, a number of refused calls, and the seconds to nine tenths.
    const fn beside(share: f64, refused: f64, seconds_to_pace: f64) -> Self {
        Self {
            share: share - 2.5,
            refused: refused * 2.0 + 30.0,
            seconds_to_pace: seconds_to_pace * 2.0 + 10.0,
            worst: 10.0,
        }
    }
}

/// What runs with several seeds reached in the mean.
pub(super) struct Reached {
    share: f64,
    worst: f64,
    refused: f64,
    seconds_to_pace: f64,
}

impl Case {
    pub(super) fn new<M: Model + 'static>(
        name: impl Into<String>,
        model: impl Fn() -> M + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            model: Arc::new(move || Box::new(model())),
            programs: 1,
            ceiling: 512,
            minutes: 30,
            search: 240,
            learnt: 60,
            aim: Aim::beside(97.0, 100.0, 100.0),
        }
    }

    fn aim(mut self, share: f64, refused: f64, seconds_to_pace: f64) -> Self {
        self.aim = Aim::beside(share, refused, seconds_to_pace);
        self
    }

    /// At most this number of minutes, of which the search takes these seconds, and calls in flight.
    fn within(self, minutes: usize, search: usize, ceiling: usize) -> Self {
        Self {
            ceiling,
            minutes,
            search,
            ..self
        }
    }

    /// Minutes with less are no fault of the pace.
    fn without_worst(mut self) -> Self {
        self.aim.worst = 0.0;
        self
    }

    /// A run for the everyday tests, if the service is slow enough for one. Outages end after 13 minutes.
    pub(super) fn shortened(self) -> Option<Self> {
        let is_slow = (self.model)().allows(0.5) < 100.0;
        let has_outage = self.aim.worst == 0.0;
        let minutes = self.minutes.min(if has_outage { 20 } else { 15 });
        let (search, ceiling, aim) = (self.search, self.ceiling, self.aim);
        is_slow.then(|| Self {
            // The search is a larger part of a short run.
            aim: Aim {
                share: aim.share - 1.0,
                ..aim
            },
            ..self.within(minutes, search, ceiling)
        })
    }

    pub(super) fn run(&self, seed: u64) -> Seen {
        let program = || controller(self.ceiling, Rate::Auto, FoundLimit::default());
        let mut programs: Vec<_> = (0..self.programs).map(|_| program()).collect();
        simulate(&mut programs, &mut *(self.model)(), self.minutes * 60, seed)
    }

    pub(super) fn reached(&self, seeds: impl Iterator<Item = u64>) -> Reached {
        let runs: Vec<_> = seeds.map(|seed| self.run(seed)).collect();
        let mean =
            |value: &dyn Fn(&Seen) -> f64| runs.iter().map(value).sum::<f64>() / runs.len() as f64;
        Reached {
            share: mean(&|seen| seen.share(self.search, self.minutes * 60)) * 100.0,
            worst: mean(&|seen| seen.worst_minute(self.learnt)) * 100.0,
            refused: mean(&|seen| f64::from(seen.refused)),
            seconds_to_pace: mean(&Seen::seconds_to_pace),
        }
    }
}

impl Reached {
    pub(super) const fn share(&self) -> f64 {
        self.share
    }

    pub(super) const fn refused(&self) -> f64 {
        self.refused
    }

    /// What was missed; empty if nothing was.
    pub(super) fn missed(&self, aim: Aim) -> String {
        let missed = [
            (self.share < aim.share, "share"),
            (self.refused > aim.refused, "refused"),
            (self.worst < aim.worst, "worst"),
            (
                self.seconds_to_pace > aim.seconds_to_pace,
                "seconds_to_pace",
            ),
        ];
        let missed: Vec<_> = missed.iter().filter(|one| one.0).map(|one| one.1).collect();
        missed.join(", ")
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} | {:.0} | {:.0} | {:.0}",
            self.share, self.worst, self.refused, self.seconds_to_pace
        )
    }
}

/// A run's pace with this maximum of calls in flight.
pub(super) fn controller(in_flight: usize, rate: Rate, remembered: FoundLimit) -> Controller {
    const QUARTER: Duration = Duration::from_secs(900);
    Controller::new(&PaceLimits {
        rate,
        in_flight: in_flight.try_into().unwrap(),
        remembered,
        max_wait: QUARTER,
    })
}

fn bucket(rate: f64, burst: f64, hint: Hint) -> TokenBucket {
    TokenBucket::new(rate, burst, hint, USUAL)
}

fn by<M: Model + 'static>(by: Wrapper, service: M) -> Box<dyn Model> {
    Box::new(Wrapped::new(service, by))
}

/// A bucket of 50 at 40/s with this before it.
fn usual_bucket_by(wrapper: Wrapper, hint: Hint) -> Box<dyn Model> {
    by(wrapper, bucket(40.0, 50.0, hint))
}

/// The numbers are what groups of eight seeds reached: share in percent, refused calls, seconds to nine tenths.
pub(super) fn contract() -> Vec<Case> {
    [buckets(), windows(), others(), changing(), random()].concat()
}

fn buckets() -> Vec<Case> {
    vec![
        Case::new("bucket of 50, 40/s, Retry-After", || {
            bucket(40.0, 50.0, Hint::RetryAfter)
        })
        .aim(99.0, 20.0, 0.0),
        Case::new("bucket of 5, 40/s, no hint", || {
            bucket(40.0, 5.0, Hint::None)
        })
        .aim(98.0, 10.0, 88.0),
        Case::new("bucket of 400, 400/s, no hint", || {
            bucket(400.0, 400.0, Hint::None)
        })
        .aim(99.0, 132.0, 0.0),
        Case::new("bucket of 10, 3/s, no hint", || {
            bucket(3.0, 10.0, Hint::None)
        })
        .aim(99.0, 19.0, 0.0),
        Case::new("bucket of 1, 0.7/s, no hint", || {
            bucket(0.7, 1.0, Hint::None)
        })
        .aim(97.0, 14.0, 55.0),
        Case::new("headers lie: bucket of 50, 40/s", || {
            usual_bucket_by(Wrapper::Lying, Hint::None)
        })
        .within(20, 240, 512)
        .aim(97.0, 26.0, 1.0),
        Case::new("bare 503: nginx, 50/s, 20 pass immediately", || {
            let nginx = LimitReq::new(50.0, Burst::Passes(20.0), Work::of(0.02));
            by(Wrapper::Bare503, nginx)
        })
        .aim(98.0, 6.0, 0.0),
        Case::new("no two closer than 1/200 s, jitter of a spacing", || {
            LimitReq::new(200.0, Burst::None, Work::of(0.02)).jittered(1.0, 0.57)
        })
        .aim(81.0, 12.0, 15.0),
        Case::new("nginx, 200/s, 20 wait", || {
            LimitReq::new(200.0, Burst::Waits(20.0), Work::of(0.02))
        })
        .aim(100.0, 10.0, 0.0),
        Case::new("four servers, 15/s each, any of them", Replicas::default).aim(75.0, 120.0, 0.0),
    ]
}

fn windows() -> Vec<Case> {
    let fixed = |calls, seconds, hint| FixedWindow::new(calls, seconds, hint, USUAL);
    vec![
        Case::new("fixed window, 40 in 1 s, no hint", move || {
            fixed(40, 1.0, Hint::None)
        })
        .within(20, 240, 512)
        .aim(95.0, 15.0, 33.0),
        Case::new("1,200 in 60 s, Retry-After", move || {
            fixed(1_200, 60.0, Hint::RetryAfter)
        })
        .aim(99.0, 304.0, 0.0),
        Case {
            learnt: 240,
            ..Case::new("fixed window, 600 in 60 s, no hint", move || {
                fixed(600, 60.0, Hint::None)
            })
        }
        .within(20, 240, 512)
        .aim(95.0, 155.0, 0.0),
        Case::new("sliding counter, 600 in 60 s, no hint", || {
            SlidingCounter::new(600.0, 60.0)
        })
        .within(20, 240, 512)
        .aim(96.0, 130.0, 0.0),
        // Cloudflare's mitigation timeout.
        Case::new("600 in any 20 s, then shut out for 15 s", || {
            let shut_out = Wrapper::Blocks(15.0, Penalty::Never, Hint::RetryAfter);
            by(shut_out, SlidingCounter::new(600.0, 20.0))
        })
        .aim(95.0, 102.0, 0.0),
        Case::new("headers true: 600 in 60 s, Retry-After", move || {
            fixed(600, 60.0, Hint::RetryAfter).with_headers(Clock::Seconds)
        })
        .within(20, 240, 512)
        .aim(99.0, 0.0, 0.0),
    ]
}

/// Limits of calls in flight, and services without a limit.
fn others() -> Vec<Case> {
    let work = |typical, spread| Work { typical, spread };
    vec![
        Case::new("20 in flight, 80 ms", || Concurrency::new(20, USUAL, 0.0)).aim(100.0, 16.0, 9.0),
        Case::new("20 in flight, 80 ms, 30 ms away", || {
            Concurrency::new(20, USUAL, 0.03)
        })
        .aim(90.0, 21.0, 4.0),
        Case::new("no limit, 100 ms", || NoLimit {
            ceiling: 512,
            work: Work::of(0.1),
        })
        .within(10, 15, 512)
        .aim(100.0, 0.0, 1.0),
        Case::new("queues what is above 40/s", move || {
            Queue::new(4, work(0.1, 0.2))
        })
        .aim(100.0, 0.0, 0.0),
        Case::new("slow: 64 in flight, 8 s", move || {
            Concurrency::new(64, work(8.0, 0.2), 0.0)
        })
        .within(30, 240, 64)
        .aim(100.0, 0.0, 40.0),
        Case::new("half of the answers in 20 ms, half in 200 ms", || Cache {
            calls: 64,
            hit: Work::of(0.02),
            miss: Work::of(0.2),
        })
        .within(10, 240, 64)
        .aim(100.0, 0.0, 0.0),
    ]
}

fn changing() -> Vec<Case> {
    let away = |away, to| Wrapper::Outage(away, 600.0, to);
    vec![
        Case::new("503 for 3 min, bucket of 50, 40/s", move || {
            usual_bucket_by(away(Away::Failing, 780.0), Hint::RetryAfter)
        })
        .aim(97.0, 21.0, 0.0)
        .without_worst(),
        Case::new("bare 503: away for 3 min, bucket of 50, 40/s", move || {
            let bucket = usual_bucket_by(away(Away::Refusing, 780.0), Hint::None);
            by(Wrapper::Bare503, bucket)
        })
        .aim(95.0, 38.0, 0.0)
        .without_worst(),
        Case::new(
            "everything hangs for 1 min, bucket of 50, 40/s",
            move || usual_bucket_by(away(Away::Hanging, 660.0), Hint::RetryAfter),
        )
        .aim(97.0, 21.0, 0.0)
        .without_worst(),
        Case::new("40/s falls to 20/s for 10 min", || {
            let bucket = bucket(40.0, 20.0, Hint::RetryAfter);
            bucket.then(600.0, 20.0).then(1_200.0, 40.0)
        })
        .within(60, 240, 512)
        .aim(89.0, 25.0, 2.0),
        Case {
            programs: 2,
            ..Case::new("two programs, bucket of 50, 40/s", || {
                bucket(40.0, 50.0, Hint::RetryAfter)
            })
        }
        .aim(99.0, 300.0, 0.0),
    ]
}

/// Refusals that are not about the pace.
fn random() -> Vec<Case> {
    vec![
        Case::new(
            "one row always refused, bucket of 50, 40/s, no hint",
            || usual_bucket_by(Wrapper::BadRow(100), Hint::None),
        )
        .aim(98.0, 28.0, 0.0),
        Case::new("1 % refused, no limit, Retry-After 1", || {
            let (ceiling, work) = (512, Work::of(0.25));
            let refusing = Wrapper::AtRandom(0.01, Hint::RetryAfter);
            by(refusing, NoLimit { ceiling, work })
        })
        .within(10, 60, 512)
        .aim(97.0, 10_462.0, 66.0),
        Case::new("1 % refused, bucket of 50, 40/s, no hint", || {
            usual_bucket_by(Wrapper::AtRandom(0.01, Hint::None), Hint::None)
        })
        .within(30, 60, 512)
        .aim(96.0, 853.0, 36.0),
    ]
}

/// The questions of four runs that share a pace for half a minute, with their times and the replies, as JSON.
pub(crate) fn exchanges() -> Vec<(f64, String, String)> {
    let mut programs: Vec<_> = (0..4)
        .map(|_| controller(64, Rate::Auto, FoundLimit::default()))
        .collect();
    let bucket = &mut TokenBucket::new(40.0, 5.0, Hint::RetryAfter, USUAL);
    let way = Duration::from_millis(5);
    simulate_sharing(way, &mut programs, bucket, 30, 1).exchanged
}
