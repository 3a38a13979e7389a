//! What a service makes of a call: which rows it refuses whatever the pace, and what pace it allows.

use std::collections::HashSet;
use std::time::{Duration, Instant};

/// A service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behaviour {
    /// How long each answer takes, refusals as well. A timer may add a millisecond or two.
    pub(crate) latency: Duration,
    pub(crate) refuses: Refuses,
    pub(crate) limit: Option<Bucket>,
    pub(crate) refusal: Refusal,
}

/// Rows that are refused whatever the pace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Refuses {
    Nobody,
    /// This share of rows, chosen at random, once each.
    Share(f64),
    /// Every row whose number is a multiple of this one, once each.
    Every(u32),
    /// One row, as often as it is sent.
    Always(u32),
}

/// A bucket that fills at a rate. With room for one call, any two must be a whole interval apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    pub(crate) rate: f64,
    pub(crate) burst: f64,
}

/// How it says no.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// The seconds that `Retry-After` names.
    pub(crate) retry_after: Option<u32>,
}

impl Refusal {
    pub(crate) const NO_HINT: Self = Self {
        status: 429,
        retry_after: None,
    };
}

impl Behaviour {
    /// A service that accepts everything.
    pub(crate) const fn accepting(latency: Duration) -> Self {
        Self {
            latency,
            refuses: Refuses::Nobody,
            limit: None,
            refusal: Refusal::NO_HINT,
        }
    }
}

/// A service at work.
pub(crate) struct Judge {
    behaviour: Behaviour,
    /// Rows that were seen, or refused, once.
    known: HashSet<u32>,
    random: fastrand::Rng,
    tokens: f64,
    filled: Instant,
}

impl Judge {
    pub(crate) fn new(behaviour: Behaviour) -> Self {
        Self {
            behaviour,
            known: HashSet::new(),
            random: fastrand::Rng::with_seed(42),
            tokens: behaviour.limit.map_or(0.0, |bucket| bucket.burst),
            filled: Instant::now(),
        }
    }

    /// Whether a call for this row is accepted.
    pub(crate) fn accepts(&mut self, row: u32) -> bool {
        let refused = match self.behaviour.refuses {
            Refuses::Nobody => false,
            Refuses::Share(share) => self.known.insert(row) && self.random.f64() < share,
            Refuses::Every(nth) => row.is_multiple_of(nth) && self.known.insert(row),
            Refuses::Always(always) => row == always,
        };
        !refused && self.takes_token()
    }

    fn takes_token(&mut self) -> bool {
        let Some(Bucket { rate, burst }) = self.behaviour.limit else {
            return true;
        };
        let now = Instant::now();
        let gained = (now - self.filled).as_secs_f64() * rate;
        self.filled = now;
        self.tokens = (self.tokens + gained).min(burst);
        let accepted = self.tokens >= 1.0;
        if accepted {
            self.tokens -= 1.0;
        }
        accepted
    }
}
