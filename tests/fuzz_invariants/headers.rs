//! Headers that ask for a pace: never a panic, and never a value that the pace cannot use.
//!
//! The first line is the status, then come headers, each on a line.

use std::num::NonZeroUsize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rescore::internals::{
    Allowance, ApiKeys, Classified, FoundLimit, Gate, PaceLimits, Quota, Rate, Reply, Secret,
    SentRequest, classify,
};
use tokio::time::Instant;

use super::{headers, line};

/// The longest window that is accepted.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub(crate) fn holds(input: &[u8]) {
    let mut rest = input;
    let status = line(&mut rest).and_then(|line| std::str::from_utf8(line).ok()?.parse().ok());
    let headers = headers(&mut rest);
    for now in [UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(1_800_000_000)] {
        let quota = Quota::of(&headers, || now);
        assert!(quota.reset.is_none_or(|reset| reset <= LONGEST));
        if let (Some(calls), Some(lasts)) = (quota.remaining, quota.reset) {
            allow(Allowance { calls, lasts });
        }
    }
    // Some services have other names for it, such as `X-RateLimit-Retry-After`.
    let said = headers
        .keys()
        .any(|name| name.as_str().contains("retry-after"));
    let reply = Reply {
        status: status.unwrap_or(429),
        headers: headers.clone(),
        body: Bytes::new(),
        cut: false,
        sent: SentRequest {
            api_keys: ApiKeys::new(Secret::new("sk-live-0123456789")),
            body: Bytes::new(),
        },
    };
    let Classified::Throttled { wait, .. } = classify(Ok(reply), &[]) else {
        return;
    };
    let quota = Quota::of(&headers, SystemTime::now);
    // A time has a source: a header that names a wait, or a quota that is used up.
    assert!(wait.is_none() || said || quota.is_used_up());
    if !said {
        assert!(wait.is_none_or(|wait| wait <= LONGEST));
    }
}

/// A pace accepts any allowance and stays valid.
fn allow(allowance: Allowance) {
    let bounds = PaceLimits {
        rate: Rate::Auto,
        in_flight: NonZeroUsize::MIN,
        remembered: FoundLimit {
            rate: None,
            in_flight: None,
        },
        max_wait: Duration::from_secs(60),
    };
    let gate = Gate::new(bounds, fastrand::Rng::with_seed(1));
    gate.allowed(allowance);
    let pace = gate.new_pace(Instant::now());
    let rate = pace.and_then(|change| change.pace.rate);
    assert!(
        rate.is_none_or(|rate| rate.is_finite() && rate > 0.0),
        "{rate:?}"
    );
}
