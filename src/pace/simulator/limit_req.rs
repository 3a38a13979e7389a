//! nginx's `limit_req`: a rate that is enforced call by call, on a clock of milliseconds.

use super::models::{Hint, Model, Work, refused};
use super::rows::Row;
use crate::pace::types::CallOutcome;

/// What nginx does with calls within the burst.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Burst {
    /// There is none: any two calls closer together than 1/rate are too many.
    None,
    /// This many pass immediately (`nodelay`).
    Passes(f64),
    /// This many wait for their turn.
    Waits(f64),
}

/// Accepts a call when the ones before it have leaked out far enough.
pub(super) struct LimitReq {
    pub(super) rate: f64,
    pub(super) burst: Burst,
    pub(super) work: Work,
    /// Each call is under way for up to this many times 1/rate.
    pub(super) jitter: f64,
    /// The share of the rate that regular intervals get with at most one refusal in fifty.
    pub(super) best: f64,
    /// Calls above the rate when it was last computed.
    excess: f64,
    last: u64,
}

/// Seconds of a refusal, which nginx sends by itself.
const REFUSAL: f64 = 0.001;

impl LimitReq {
    pub(super) fn new(rate: f64, burst: Burst, work: Work) -> Self {
        Self {
            rate,
            burst,
            work,
            jitter: 0.0,
            best: 1.0,
            excess: 0.0,
            last: 0,
        }
    }

    /// Calls come with jitter, in spacings; `best` was found by trying regular intervals over many calls.
    pub(super) const fn jittered(mut self, jitter: f64, best: f64) -> Self {
        self.jitter = jitter;
        self.best = best;
        self
    }
}

impl Model for LimitReq {
    fn way(&mut self, random: &mut fastrand::Rng) -> f64 {
        if self.jitter == 0.0 {
            return 0.0;
        }
        self.jitter / self.rate * random.f64()
    }

    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallOutcome, f64) {
        let milliseconds = (now * 1e3) as u64;
        let leaked = (milliseconds - self.last) as f64 * self.rate / 1e3;
        let excess = (self.excess - leaked + 1.0).max(0.0);
        let most = match self.burst {
            Burst::None => 0.0,
            Burst::Passes(burst) | Burst::Waits(burst) => burst,
        };
        // Allows for rounding.
        if excess > most + 1e-6 {
            return (refused(Hint::None, 0.0), REFUSAL);
        }
        self.excess = excess;
        self.last = milliseconds;
        let waits = if matches!(self.burst, Burst::Waits(_)) {
            excess / self.rate
        } else {
            0.0
        };
        (CallOutcome::Answered, waits + self.work.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        self.rate * self.best
    }
}
