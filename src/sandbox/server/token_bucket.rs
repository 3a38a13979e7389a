//! A token bucket, which limits the rate of requests.

use tokio::time::Instant;

use super::super::settings::RateLimit;

/// A token bucket.
pub(super) struct TokenBucket {
    tokens: f64,
    filled: Instant,
}

impl TokenBucket {
    /// A full bucket; without a limit it is never used.
    pub(super) fn new(limit: Option<&RateLimit>) -> Self {
        Self {
            tokens: limit.map_or(0.0, |limit| f64::from(limit.burst.get())),
            filled: Instant::now(),
        }
    }

    /// Takes a token, if there is one.
    pub(super) fn take(&mut self, limit: &RateLimit) -> bool {
        let now = Instant::now();
        let grown = (now - self.filled).as_secs_f64() * limit.per_second;
        self.tokens = (self.tokens + grown).min(f64::from(limit.burst.get()));
        self.filled = now;
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }
}
