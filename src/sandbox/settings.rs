//! How the stand-in behaves.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use hyper::header::HeaderName;

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

/// A header by which the stand-in recognises a request that it has billed before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecognisedHeader(pub(super) HeaderName);

impl FromStr for RecognisedHeader {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let name = HeaderName::try_from(name);
        name.map(Self)
            .map_err(|_| "expected the name of a header, such as `Idempotency-Key`")
    }
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
    /// The header by which it recognises repeated requests, and bills them once; `None` if it does not.
    pub recognises_by: Option<RecognisedHeader>,
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
            recognises_by: None,
            seed: 0,
        }
    }
}
