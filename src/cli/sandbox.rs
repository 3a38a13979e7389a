//! The arguments of `rescore sandbox`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::base::error::{Error, Result};
use crate::base::secret::Secret;
use crate::config::values;
use crate::sandbox::{FaultKind, Faults, RateLimit, SandboxPlan, SandboxSettings, parse_fault};

/// The words of `--plan`.
const PLANS: &[(&str, SandboxPlan)] = &[("paid", SandboxPlan::Paid), ("free", SandboxPlan::Free)];

#[derive(Debug, Args)]
pub(super) struct SandboxArgs {
    /// Where to listen; loopback only
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8787", value_parser = values::listen)]
    listen: SocketAddr,
    /// The plan to simulate
    #[arg(long, value_parser = values::one_of(PLANS), default_value = "paid")]
    plan: SandboxPlan,
    /// Accept this made-up key, and answer every other key with a 401 (repeatable) [default: any key]
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    accept_key: Vec<String>,
    /// How long an answer takes
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::duration_or_zero)]
    latency: Duration,
    /// Up to how much longer it may take
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::duration_or_zero)]
    jitter: Duration,
    /// Let calls fail with this probability, as in `500=0.01`: 402, 403, 500, 503, reset, stall, bad-json or
    /// lost (repeatable)
    #[arg(long = "fault", value_name = "KIND=PROBABILITY", value_parser = parse_fault)]
    fault: Vec<(FaultKind, f64)>,
    /// Requests per second that are accepted; further ones get a 429
    #[arg(long, value_name = "N", value_parser = values::per_second)]
    rate_limit: Option<f64>,
    /// Requests that may arrive together under `--rate-limit`
    #[arg(long, value_name = "N", default_value = "1", requires = "rate_limit")]
    burst: NonZeroU32,
    /// What the header `Retry-After` of a 429 says [default: no such header]
    #[arg(long, value_name = "SECONDS", requires = "rate_limit")]
    retry_after: Option<u64>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
}

impl SandboxArgs {
    pub(super) fn into_settings(self) -> Result<SandboxSettings> {
        let mut faults = Faults::default();
        for (kind, probability) in self.fault {
            faults
                .add(kind, probability)
                .map_err(|wrong| Error::usage(format!("`--fault`: {wrong}")))?;
        }
        let limit = |per_second| RateLimit {
            per_second,
            burst: self.burst,
            retry_after: self.retry_after,
        };
        Ok(SandboxSettings {
            listen: self.listen,
            plan: self.plan,
            accepted_keys: self.accept_key.into_iter().map(Secret::new).collect(),
            latency: self.latency,
            jitter: self.jitter,
            faults,
            rate_limit: self.rate_limit.map(limit),
            seed: self.seed,
        })
    }
}
