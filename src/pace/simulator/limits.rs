//! Services with a limit of calls in a time, as gateways count them.

use std::time::Duration;

use super::models::{Hint, Model, USUAL, Work, refused};
use super::rows::Row;
use crate::pace::types::{Allowance, CallSignal};

/// A bucket that fills at a rate; each call takes one token.
pub(super) struct TokenBucket {
    /// Each rate with the second from which it is allowed.
    rates: Vec<(f64, f64)>,
    burst: f64,
    hint: Hint,
    work: Work,
    tokens: f64,
    at: f64,
}

impl TokenBucket {
    pub(super) fn new(rate: f64, burst: f64, hint: Hint, work: Work) -> Self {
        Self {
            rates: vec![(0.0, rate)],
            burst,
            hint,
            work,
            tokens: burst,
            at: 0.0,
        }
    }

    /// From this second on the rate is another one.
    pub(super) fn then(mut self, from: f64, rate: f64) -> Self {
        self.rates.push((from, rate));
        self
    }
}

impl Model for TokenBucket {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        let rate = self.allows(now);
        self.tokens = (self.tokens + (now - self.at) * rate).min(self.burst);
        self.at = now;
        if self.tokens < 1.0 {
            return (refused(self.hint, 1.0 / rate), self.work.refusal(random));
        }
        self.tokens -= 1.0;
        (CallSignal::Answered, self.work.time(random))
    }

    fn allows(&self, now: f64) -> f64 {
        let at_present = self.rates.iter().rev().find(|(from, _)| *from <= now);
        at_present.map_or(0.0, |(_, rate)| *rate)
    }
}

/// How headers name the end of a window.
#[derive(Clone, Copy)]
pub(super) enum Clock {
    /// As the seconds until then.
    Seconds,
    /// As a time of day, with the date beside it; the start of the simulation is this part of a second.
    Epoch(f64),
}

/// This many calls in each stretch of time.
pub(super) struct FixedWindow {
    calls: u32,
    seconds: f64,
    hint: Hint,
    work: Work,
    headers: Option<Clock>,
    window: u64,
    used: u32,
}

impl FixedWindow {
    pub(super) const fn new(calls: u32, seconds: f64, hint: Hint, work: Work) -> Self {
        Self {
            calls,
            seconds,
            hint,
            work,
            headers: None,
            window: 0,
            used: 0,
        }
    }

    /// Headers say what is left.
    pub(super) const fn with_headers(mut self, clock: Clock) -> Self {
        self.headers = Some(clock);
        self
    }
}

impl Model for FixedWindow {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
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
        (CallSignal::Answered, self.work.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        f64::from(self.calls) / self.seconds
    }

    fn says(&self, now: f64) -> Option<Allowance> {
        let window = (now / self.seconds) as u64;
        let used = if window > self.window { 0 } else { self.used };
        let end = (window + 1) as f64 * self.seconds;
        let lasts = match self.headers? {
            Clock::Seconds => (end - now).ceil(),
            Clock::Epoch(part) => (end + part).ceil() - (now + part).floor(),
        };
        Some(Allowance {
            calls: u64::from(self.calls.saturating_sub(used)),
            lasts: Duration::from_secs(lasts as u64),
        })
    }
}

/// The count of Cloudflare, Kong's advanced plugin and Upstash: this window's, and the part of the last one that still counts.
pub(super) struct SlidingCounter {
    calls: f64,
    seconds: f64,
    window: u64,
    now: f64,
    before: f64,
}

impl SlidingCounter {
    pub(super) const fn new(calls: f64, seconds: f64) -> Self {
        Self {
            calls,
            seconds,
            window: 0,
            now: 0.0,
            before: 0.0,
        }
    }
}

impl Model for SlidingCounter {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        let window = (now / self.seconds) as u64;
        if window > self.window {
            let is_next = window == self.window + 1;
            self.before = if is_next { self.now } else { 0.0 };
            self.now = 0.0;
            self.window = window;
        }
        let part = 1.0 - (now / self.seconds - window as f64);
        if self.before * part + self.now + 1.0 > self.calls {
            return (CallSignal::Throttled(None), USUAL.refusal(random));
        }
        self.now += 1.0;
        (CallSignal::Answered, USUAL.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        self.calls / self.seconds
    }
}

/// Four servers behind a load balancer that picks any of them; each counts for itself (Envoy, Kong, APISIX).
pub(super) struct Replicas {
    tokens: [f64; 4],
    at: [f64; 4],
}

const REPLICA_RATE: f64 = 15.0;
const REPLICA_BURST: f64 = 8.0;
/// What regular intervals get with at most one refusal in fifty; found by trying 200,000 calls.
const REPLICAS_BEST: f64 = 54.0;

impl Default for Replicas {
    fn default() -> Self {
        Self {
            tokens: [REPLICA_BURST; 4],
            at: [0.0; 4],
        }
    }
}

impl Model for Replicas {
    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        let which = random.usize(..4);
        let grown = (now - self.at[which]) * REPLICA_RATE;
        self.tokens[which] = (self.tokens[which] + grown).min(REPLICA_BURST);
        self.at[which] = now;
        if self.tokens[which] < 1.0 {
            return (CallSignal::Throttled(None), 0.01);
        }
        self.tokens[which] -= 1.0;
        (CallSignal::Answered, USUAL.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        REPLICAS_BEST
    }
}

/// What nginx's `limit_req` does with calls within the burst.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Burst {
    /// There is none: any two calls closer together than 1/rate are too many.
    None,
    /// This many pass immediately (`nodelay`).
    Passes(f64),
    /// This many wait for their turn.
    Waits(f64),
}

/// nginx's `limit_req`: accepts a call when the ones before it have leaked out far enough, on a clock of milliseconds.
pub(super) struct LimitReq {
    rate: f64,
    burst: Burst,
    work: Work,
    /// Each call is under way for up to this many times 1/rate.
    jitter: f64,
    /// The share of the rate that regular intervals get with at most one refusal in fifty.
    best: f64,
    /// Calls above the rate when it was last computed.
    excess: f64,
    last: u64,
}

/// Seconds of a refusal, which nginx sends by itself.
const REFUSAL: f64 = 0.001;

impl LimitReq {
    pub(super) const fn new(rate: f64, burst: Burst, work: Work) -> Self {
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

    fn call(&mut self, now: f64, _: Row, random: &mut fastrand::Rng) -> (CallSignal, f64) {
        let milliseconds = (now * 1e3) as u64;
        let leaked = (milliseconds - self.last) as f64 * self.rate / 1e3;
        let excess = (self.excess - leaked + 1.0).max(0.0);
        let most = match self.burst {
            Burst::None => 0.0,
            Burst::Passes(burst) | Burst::Waits(burst) => burst,
        };
        // Allows for rounding.
        if excess > most + 1e-6 {
            return (CallSignal::Throttled(None), REFUSAL);
        }
        self.excess = excess;
        self.last = milliseconds;
        let waits = if matches!(self.burst, Burst::Waits(_)) {
            excess / self.rate
        } else {
            0.0
        };
        (CallSignal::Answered, waits + self.work.time(random))
    }

    fn allows(&self, _: f64) -> f64 {
        self.rate * self.best
    }
}
