//! What a service is to the simulation, and services with a limit of calls in flight or without any.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::rows::Row;
use crate::pace::types::{Allowance, CallSignal};

/// A service. Times are seconds since the simulation started.
pub(super) trait Model {
    /// How long a call takes to arrive.
    fn way(&mut self, _random: &mut fastrand::Rng) -> f64 {
        0.0
    }

    /// What becomes of a call for this row that arrives at `now`, and how long the answer takes.
    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallSignal, f64);

    /// Calls a second that a caller who knew everything would get at `now`.
    fn allows(&self, now: f64) -> f64;

    /// What the headers of an answer say is left.
    fn says(&self, _now: f64) -> Option<Allowance> {
        None
    }
}

/// How long an answer takes: around `typical` seconds, with the long tail that services have.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) typical: f64,
    pub(super) spread: f64,
}

/// What an ordinary service takes.
pub(super) const USUAL: Work = Work::of(0.08);

impl Work {
    pub(super) const fn of(typical: f64) -> Self {
        Self {
            typical,
            spread: 0.3,
        }
    }

    /// The 99th percentile of services with a database or a cache behind them is eight times the median (0.9).
    pub(super) const fn spread(self, spread: f64) -> Self {
        Self { spread, ..self }
    }

    pub(super) fn time(self, random: &mut fastrand::Rng) -> f64 {
        // The sum of twelve is nearly normal.
        let bell: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        self.typical * (bell * self.spread).exp()
    }

    /// The mean of a log-normal distribution is above its median.
    pub(super) fn mean(self) -> f64 {
        self.typical * (self.spread.powi(2) / 2.0).exp()
    }

    /// A refusal takes half as long.
    pub(super) fn refusal(self, random: &mut fastrand::Rng) -> f64 {
        self.time(random) * 0.5
    }
}

/// What a refusal says about when to come back.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Hint {
    None,
    /// Whole seconds, rounded up.
    RetryAfter,
}

pub(super) fn refused(hint: Hint, back: f64) -> CallSignal {
    CallSignal::Throttled(match hint {
        Hint::None => None,
        Hint::RetryAfter => Some(Duration::from_secs_f64(back.ceil().max(1.0))),
    })
}

/// Takes every call.
pub(super) struct NoLimit {
    /// The most calls in flight that the program has.
    pub(super) ceiling: usize,
    pub(super) work: Work,
}

impl Model for NoLimit {
    fn call(&mut self, _: f64, _: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        (CallSignal::Answered, self.work.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        self.ceiling as f64 / self.work.mean()
    }
}

/// A service with a cache, which answers half of the calls from it, and takes whatever this many calls in flight can ask for.
pub(super) struct Cache {
    pub(super) calls: usize,
    pub(super) hit: Work,
    pub(super) miss: Work,
}

impl Model for Cache {
    fn call(&mut self, _: f64, _: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        let work = if random.bool() { self.hit } else { self.miss };
        (CallSignal::Answered, work.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        self.calls as f64 / f64::midpoint(self.hit.mean(), self.miss.mean())
    }
}

/// This many calls at the same time: a place is taken when a call arrives and free when its answer leaves, half a round
/// trip from the caller.
pub(super) struct Concurrency {
    calls: usize,
    work: Work,
    /// Seconds of a round trip on the wire.
    wire: f64,
    /// When each call that is worked on will leave.
    busy: Vec<f64>,
}

impl Concurrency {
    pub(super) const fn new(calls: usize, work: Work, wire: f64) -> Self {
        Self {
            calls,
            work,
            wire,
            busy: Vec::new(),
        }
    }
}

impl Model for Concurrency {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        let arrives = now + self.wire / 2.0;
        // The caller's clock counts nanoseconds.
        self.busy.retain(|leaves| *leaves > arrives + 1e-8);
        if self.busy.len() >= self.calls {
            return (
                CallSignal::Throttled(None),
                self.wire + self.work.refusal(random),
            );
        }
        let time = self.work.time(random);
        self.busy.push(arrives + time);
        (CallSignal::Answered, self.wire + time)
    }

    /// What all the calls in flight that it allows can do.
    fn allows(&self, _: f64) -> f64 {
        self.calls as f64 / (self.wire + self.work.mean())
    }
}

/// Calls wait in a queue, and the caller gives up those that wait too long.
pub(super) struct Queue {
    /// When each worker is free, in nanoseconds.
    workers: BinaryHeap<Reverse<u64>>,
    work: Work,
    /// Where the next call would wait longer than this, it gets a bare 503.
    longest: f64,
}

impl Queue {
    pub(super) fn new(workers: usize, work: Work) -> Self {
        Self {
            workers: vec![Reverse(0); workers].into(),
            work,
            longest: f64::INFINITY,
        }
    }

    pub(super) const fn holding(mut self, seconds: f64) -> Self {
        self.longest = seconds;
        self
    }
}

/// After this number of seconds a caller gives a call up.
pub(super) const TIMEOUT: f64 = 30.0;

impl Model for Queue {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        let time = self.work.time(random);
        let mut first = self.workers.peek_mut().unwrap();
        let begins = (first.0 as f64 / 1e9).max(now);
        if begins > now + self.longest {
            return (CallSignal::BusyOrAway, 0.001);
        }
        let free = begins + time;
        *first = Reverse((free * 1e9) as u64);
        let latency = free - now;
        if latency > TIMEOUT {
            return (CallSignal::TimedOut, TIMEOUT);
        }
        (CallSignal::Answered, latency)
    }

    fn allows(&self, _: f64) -> f64 {
        self.workers.len() as f64 / self.work.mean()
    }
}
