//! Kinds of services: each decides in virtual time what becomes of a call.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::rows::Row;
use crate::pace::types::CallOutcome;

/// A service. Times are since the simulation started.
pub(super) trait Model {
    /// How long a call takes to arrive.
    fn way(&mut self, _random: &mut fastrand::Rng) -> f64 {
        0.0
    }

    /// What becomes of a call for this row that arrives at `now`, and how long the answer takes.
    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64);

    /// Calls a second that a caller who knew everything would get at `now`.
    fn allows(&self, now: f64) -> f64;

    /// The mean time of a call that waits for no other, if calls wait for each other.
    fn unloaded(&self) -> Option<f64> {
        None
    }
}

/// How long an answer takes: around `typical` seconds, with the long tail that services have.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) typical: f64,
    pub(super) spread: f64,
}

impl Work {
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
    /// Always the same.
    Always(u32),
}

pub(super) fn refused(hint: Hint, back: f64) -> CallOutcome {
    CallOutcome::Throttled(match hint {
        Hint::None => None,
        Hint::RetryAfter => Some(Duration::from_secs_f64(back.ceil().max(1.0))),
        Hint::Always(seconds) => Some(Duration::from_secs(seconds.into())),
    })
}

/// A bucket that fills at a rate; each call takes one token.
pub(super) struct TokenBucket {
    /// Each rate with the second from which it is allowed.
    pub(super) rates: Vec<(f64, f64)>,
    pub(super) burst: f64,
    pub(super) hint: Hint,
    pub(super) work: Work,
    pub(super) tokens: f64,
    pub(super) at: f64,
}

impl TokenBucket {
    pub(super) fn new(rates: &[(f64, f64)], burst: f64, hint: Hint, work: Work) -> Self {
        Self {
            rates: rates.to_vec(),
            burst,
            hint,
            work,
            tokens: burst,
            at: 0.0,
        }
    }
}

impl Model for TokenBucket {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let rate = self.allows(now);
        self.tokens = (self.tokens + (now - self.at) * rate).min(self.burst);
        self.at = now;
        if self.tokens < 1.0 {
            return (refused(self.hint, 1.0 / rate), self.work.refusal(random));
        }
        self.tokens -= 1.0;
        (CallOutcome::Answered, self.work.time(random))
    }

    fn allows(&self, now: f64) -> f64 {
        self.rates
            .iter()
            .rev()
            .find(|(from, _)| *from <= now)
            .map_or(0.0, |(_, rate)| *rate)
    }
}

/// A service with a cache, which takes whatever this many calls in flight can ask for.
pub(super) struct Cache {
    pub(super) calls: usize,
    pub(super) hits: f64,
    pub(super) hit: Work,
    pub(super) miss: Work,
}

impl Model for Cache {
    fn call(&mut self, _: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let hit = random.f64() < self.hits;
        let work = if hit { self.hit } else { self.miss };
        (CallOutcome::Answered, work.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        let mean = self.hits * self.hit.mean() + (1.0 - self.hits) * self.miss.mean();
        self.calls as f64 / mean
    }
}

/// This many calls in each stretch of time.
pub(super) struct FixedWindow {
    pub(super) calls: u32,
    pub(super) seconds: f64,
    pub(super) hint: Hint,
    pub(super) work: Work,
    pub(super) window: u64,
    pub(super) used: u32,
}

impl FixedWindow {
    pub(super) const fn new(calls: u32, seconds: f64, hint: Hint, work: Work) -> Self {
        Self {
            calls,
            seconds,
            hint,
            work,
            window: 0,
            used: 0,
        }
    }
}

impl Model for FixedWindow {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let window = (now / self.seconds) as u64;
        if window > self.window {
            self.window = window;
            self.used = 0;
        }
        if self.used >= self.calls {
            let back = (window + 1) as f64 * self.seconds - now;
            return (refused(self.hint, back), self.work.refusal(random));
        }
        self.used += 1;
        (CallOutcome::Answered, self.work.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        f64::from(self.calls) / self.seconds
    }
}

/// This many calls at the same time: a place is taken when a call arrives and free when its answer leaves, half a round
/// trip from the caller.
pub(super) struct Concurrency {
    pub(super) calls: usize,
    pub(super) work: Work,
    /// Seconds of a round trip on the wire.
    pub(super) wire: f64,
    /// When each call being worked on will leave.
    pub(super) busy: Vec<f64>,
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
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let arrives = now + self.wire / 2.0;
        // The caller's clock counts nanoseconds.
        self.busy.retain(|leaves| *leaves > arrives + 1e-8);
        if self.busy.len() >= self.calls {
            return (
                CallOutcome::Throttled(None),
                self.wire + self.work.refusal(random),
            );
        }
        let time = self.work.time(random);
        self.busy.push(arrives + time);
        (CallOutcome::Answered, self.wire + time)
    }

    /// What as many calls in flight as it allows can do.
    #[allow(clippy::cast_precision_loss)]
    fn allows(&self, _: f64) -> f64 {
        self.calls as f64 / (self.wire + self.work.mean())
    }
}

/// Refuses nothing: calls wait in a queue, and the caller gives up those that wait too long.
pub(super) struct Queue {
    /// When each worker is free, in nanoseconds.
    workers: BinaryHeap<Reverse<u64>>,
    work: Work,
}

impl Queue {
    pub(super) fn new(workers: usize, work: Work) -> Self {
        Self {
            workers: vec![Reverse(0); workers].into(),
            work,
        }
    }
}

pub(super) const TIMEOUT: f64 = 30.0;

impl Model for Queue {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let time = self.work.time(random);
        let mut first = self.workers.peek_mut().unwrap();
        let free = (first.0 as f64 / 1e9).max(now) + time;
        *first = Reverse((free * 1e9) as u64);
        let latency = free - now;
        if latency > TIMEOUT {
            return (CallOutcome::TimedOut, TIMEOUT);
        }
        (CallOutcome::Answered, latency)
    }

    fn allows(&self, _: f64) -> f64 {
        self.workers.len() as f64 / self.work.mean()
    }

    fn unloaded(&self) -> Option<f64> {
        Some(self.work.mean())
    }
}

/// Another service, of whose calls some fail and some hang, at any pace.
pub(super) struct Faults<M> {
    pub(super) service: M,
    pub(super) failing: f64,
    pub(super) hanging: f64,
}

impl<M: Model> Model for Faults<M> {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        self.service.way(random)
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let chance = random.f64();
        if chance < self.hanging {
            return (CallOutcome::TimedOut, TIMEOUT);
        }
        if chance < self.hanging + self.failing {
            return (CallOutcome::Failed, 0.05);
        }
        self.service.call(now, row, random)
    }

    fn allows(&self, now: f64) -> f64 {
        self.service.allows(now) * (1.0 - self.failing - self.hanging)
    }
}

/// Another service, or a load balancer in front of it, that refuses this share of calls at any pace.
pub(super) struct RefusingAtRandom<M> {
    pub(super) service: M,
    pub(super) refusing: f64,
    pub(super) hint: Hint,
}

/// How long calls pause after a refusal at least: a second is named or guessed, and one call goes first.
const QUIET: f64 = 1.1;

impl<M: Model> Model for RefusingAtRandom<M> {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        self.service.way(random)
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        if random.f64() < self.refusing {
            return (refused(self.hint, 1.0), 0.05);
        }
        self.service.call(now, row, random)
    }

    /// What a caller gets who pauses after each refusal, as it asks.
    fn allows(&self, now: f64) -> f64 {
        if self.hint == Hint::Always(0) {
            return self.service.allows(now);
        }
        1.0 / (1.0 / self.service.allows(now) + self.refusing * QUIET)
    }
}

/// Another service, whose window was used up before by another caller.
pub(super) struct UsedUp<M> {
    pub(super) service: M,
    pub(super) until: f64,
}

impl<M: Model> Model for UsedUp<M> {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        self.service.way(random)
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        if now < self.until {
            return (refused(Hint::RetryAfter, self.until - now), 0.05);
        }
        self.service.call(now, row, random)
    }

    fn allows(&self, now: f64) -> f64 {
        if now < self.until {
            return 0.0;
        }
        self.service.allows(now)
    }
}

/// How a service is down: it fails immediately, or never answers.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Away {
    Failing,
    Hanging,
    /// Refusing every call, without a hint.
    Refusing,
}

/// Another service that is down for a while.
pub(super) struct Outage<M> {
    pub(super) service: M,
    pub(super) away: Away,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl<M: Model> Model for Outage<M> {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        self.service.way(random)
    }

    fn call(&mut self, now: f64, row: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        if (self.from..self.to).contains(&now) {
            return match self.away {
                Away::Failing => (CallOutcome::Failed, 0.05),
                Away::Hanging => (CallOutcome::TimedOut, TIMEOUT),
                Away::Refusing => (CallOutcome::Throttled(None), 0.05),
            };
        }
        self.service.call(now, row, random)
    }

    fn allows(&self, now: f64) -> f64 {
        if (self.from..self.to).contains(&now) {
            return 0.0;
        }
        self.service.allows(now)
    }
}
