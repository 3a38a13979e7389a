//! Services that count in uncommon ways: in a log, each server for itself, or by their load.

use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::time::Duration;

use super::case::{Case, case};
use super::cases::USUAL;
use super::models::{Hint, Model, Work, refused};
use super::rows::Row;
use crate::pace::types::CallOutcome;

pub(super) fn uncommon() -> Vec<Case> {
    vec![
        Case {
            quick: 10,
            ..case("600 in any 20 s, then shut out for 15 s", || {
                Box::new(Log::default())
            })
        },
        // It refuses now and then below its limit, as those that count strictly do.
        Case {
            quick: 10,
            share: 0.6,
            refused: u32::MAX,
            refused_share: 0.02,
            ..case("four servers, 15/s each, any of them", || {
                Box::new(Replicas::default())
            })
        },
        // Its limit moves by itself.
        Case {
            quick: 10,
            share: 0.75,
            refused: 200,
            ..case("sheds load that others share, 45 to 90/s", || {
                Box::new(Shedding::default())
            })
        },
    ]
}

/// A number of calls in any 20 s; a caller who exceeds it is shut out for a while.
#[derive(Default)]
struct Log {
    accepted: VecDeque<f64>,
    shut_out_until: f64,
}

const LOG_CALLS: usize = 600;
const LOG_SECONDS: f64 = 20.0;
const SHUT_OUT: f64 = 15.0;

impl Model for Log {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        while self
            .accepted
            .front()
            .is_some_and(|at| *at <= now - LOG_SECONDS)
        {
            self.accepted.pop_front();
        }
        if now >= self.shut_out_until && self.accepted.len() >= LOG_CALLS {
            self.shut_out_until = now + SHUT_OUT;
        }
        if now < self.shut_out_until {
            let answer = refused(Hint::RetryAfter, self.shut_out_until - now);
            return (answer, 0.02);
        }
        self.accepted.push_back(now);
        (CallOutcome::Answered, USUAL.time(random))
    }

    /// A caller who keeps to it is never shut out.
    fn allows(&self, _: f64) -> f64 {
        LOG_CALLS as f64 / LOG_SECONDS
    }
}

/// Four servers behind a load balancer that picks any of them; each counts for itself.
struct Replicas {
    tokens: [f64; 4],
    at: [f64; 4],
}

impl Default for Replicas {
    fn default() -> Self {
        Self {
            tokens: [REPLICA_BURST; 4],
            at: [0.0; 4],
        }
    }
}

const REPLICA_RATE: f64 = 15.0;
const REPLICA_BURST: f64 = 8.0;
/// What regular intervals get with at most one refusal in fifty; found by trying 200,000 calls.
const REPLICAS_BEST: f64 = 54.0;

impl Model for Replicas {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let which = random.usize(..4);
        let grown = (now - self.at[which]) * REPLICA_RATE;
        self.tokens[which] = (self.tokens[which] + grown).min(REPLICA_BURST);
        self.at[which] = now;
        if self.tokens[which] < 1.0 {
            return (refused(Hint::None, 0.0), 0.01);
        }
        self.tokens[which] -= 1.0;
        (CallOutcome::Answered, USUAL.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        REPLICAS_BEST
    }
}

/// Others use it as well, now more and now less. The busier it is, the longer it takes, and above some load it refuses more
/// and more calls, after some work.
#[derive(Default)]
struct Shedding {
    /// Its work for us a second, over about the last two seconds.
    own: f64,
    at: f64,
}

const CAPACITY: f64 = 150.0;
/// From this load on it refuses some …
const BUSY: f64 = 0.8;
/// … and from this on all.
const FULL: f64 = 1.2;
/// Seconds over which it measures its load.
const LOOKS: f64 = 2.0;
/// The cost of a refusal, as a share of a call.
const COST: f64 = 0.1;

impl Shedding {
    /// The load of the others.
    fn others(now: f64) -> f64 {
        0.35 + 0.15 * (now / 600.0 * TAU).sin()
    }

    fn works(&mut self, work: f64) {
        self.own += work / LOOKS;
    }
}

impl Model for Shedding {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        self.own *= (-(now - self.at) / LOOKS).exp();
        self.at = now;
        let load = Self::others(now) + self.own / CAPACITY;
        let slower = 1.0 / (1.0 - load.min(0.9));
        let work = Work {
            typical: 0.02 * slower,
            spread: 0.3,
        };
        if random.f64() < (load - BUSY) / (FULL - BUSY) {
            self.works(COST);
            return (
                CallOutcome::Throttled(Some(Duration::from_secs(2))),
                work.time(random),
            );
        }
        self.works(1.0);
        (CallOutcome::Answered, work.time(random))
    }

    /// As much as it takes without refusing any.
    fn allows(&self, now: f64) -> f64 {
        (BUSY - Self::others(now)) * CAPACITY
    }
}
