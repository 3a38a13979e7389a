//! How the stand-in behaves.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use super::faults::Faults;
use crate::base::secret::Secret;

/// What its transaction ids start with, so that nobody takes them for the service's.
pub(crate) const ID_PREFIX: &str = "sandbox-";

/// The plan that the stand-in simulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxPlan {
    /// `vpn_check` and `advanced` are allowed.
    #[default]
    Paid,
    /// They are rejected.
    Free,
}

/// A rate limit, as services have it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// Requests per second; finite and above 0.
    pub per_second: f64,
    /// How many requests may come at the same moment.
    pub burst: NonZeroU32,
    /// The seconds in `Retry-After`; `None` sends no such header.
    pub retry_after: Option<u64>,
}

/// How the stand-in behaves.
#[derive(Debug, Clone)]
pub struct SandboxSettings {
    /// The address to listen on; loopback only.
    pub listen: SocketAddr,
    /// The plan that it simulates.
    pub plan: SandboxPlan,
    /// The keys that it accepts; if empty, any key.
    pub accepted_keys: Vec<Secret>,
    /// How long it takes to answer …
    pub latency: Duration,
    /// … and a random additional time of up to this.
    pub jitter: Duration,
    /// What goes wrong, and how often.
    pub faults: Faults,
    /// The rate limit.
    pub rate_limit: Option<RateLimit>,
    /// The seed of its random numbers: with one call at a time, a run repeats exactly.
    pub seed: u64,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            plan: SandboxPlan::Paid,
            accepted_keys: Vec::new(),
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            faults: Faults::default(),
            rate_limit: None,
            seed: 0,
        }
    }
}
