//! What an answer's headers say about the service's rate limit.
//!
//! They are hints: a part that makes no sense is ignored and never an error. It knows the IETF's
//! drafts, old and new, and the `X-` headers that came before them. It must not know what the quota
//! is used for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::DATE;
use http::header::HeaderName;

use super::structured_fields::{MOST_MEMBERS, find, head, is_one_of, lines, members, split};

/// What an answer's headers say about the quota. They are only hints: they may slow us down, but
/// never speed us up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quota {
    /// The calls left in the current window, of the policy with the fewest.
    pub remaining: Option<u64>,
    /// The time until that policy's window resets.
    pub reset: Option<Duration>,
}

/// The header that says what each policy counts, where that is something other than calls.
const POLICY: &str = "ratelimit-policy";

/// The header with everything about the current window, in the drafts since the 7th.
const CURRENT: &str = "ratelimit";

/// Headers that each say one thing about the current window.
struct Family {
    remaining: &'static str,
    reset: &'static str,
    /// The reset as a span: better than a point in time, as it needs no clock.
    reset_after: &'static str,
}

const FAMILIES: [Family; 3] = [
    Family {
        remaining: "ratelimit-remaining",
        reset: "ratelimit-reset",
        reset_after: "ratelimit-reset-after",
    },
    Family {
        remaining: "x-ratelimit-remaining",
        reset: "x-ratelimit-reset",
        reset_after: "x-ratelimit-reset-after",
    },
    Family {
        remaining: "x-rate-limit-remaining",
        reset: "x-rate-limit-reset",
        reset_after: "x-rate-limit-reset-after",
    },
];

/// Quota units that count calls. A number of bytes or of concurrent calls is not a call rate.
const CALLS: [&str; 2] = ["requests", "request"];

/// Longer windows and resets make no sense. A larger plain number of seconds is a date.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// From this number on, a date is in milliseconds: in seconds it would be in the year 5138, in
/// milliseconds it was in 1973.
const MILLISECONDS: Duration = Duration::from_secs(100_000_000_000);

impl Quota {
    /// Reads the headers of one answer. `now` is called if the answer does not have its own time.
    #[must_use]
    pub fn of(headers: &HeaderMap, now: impl FnOnce() -> SystemTime) -> Self {
        // Most services send none of these headers, and every answer comes through here.
        let speaks = |name: &HeaderName| {
            let name = name.as_str();
            name.starts_with(CURRENT) || name.starts_with("x-rate")
        };
        if !headers.keys().any(speaks) {
            return Self::default();
        }
        // Measured by the server's clock: ours may be wrong, but the difference between two of its
        // times is right.
        let now = date(headers).unwrap_or_else(now);
        let mut quota = Self::default();
        let foreign: Vec<_> = members(headers, POLICY)
            .filter(|policy| !counts_calls(policy))
            .map(head)
            .collect();
        for line in lines(headers, CURRENT) {
            // In the 7th draft a line is one policy, since the 8th it is a list; then the unit is
            // in another header.
            quota.current(line, b',', now);
            for policy in split(line, b',').take(MOST_MEMBERS) {
                if counts_calls(policy) && !foreign.contains(&head(policy)) {
                    quota.current(policy, b';', now);
                }
            }
        }
        for family in &FAMILIES {
            quota.family(headers, family, now);
        }
        quota
    }

    /// Whether nothing is left. Mentioning a limit does not count: many services do so in every
    /// answer.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.remaining == Some(0)
    }

    fn family(&mut self, headers: &HeaderMap, family: &Family, now: SystemTime) {
        let mut all_remaining = members(headers, family.remaining);
        let mut resets = members(headers, family.reset);
        let mut resets_after = members(headers, family.reset_after);
        // A gateway and the service behind it may both send these headers: then the first values
        // belong together.
        loop {
            let (remaining, reset, after) =
                (all_remaining.next(), resets.next(), resets_after.next());
            if remaining.or(reset).or(after).is_none() {
                return;
            }
            let until = |value: Option<&[u8]>| value.and_then(|value| until(value, now));
            self.consider(
                remaining.and_then(count),
                until(after).or_else(|| until(reset)),
            );
        }
    }

    /// Adds what the parts of a text say about the current window.
    fn current(&mut self, text: &[u8], separator: u8, now: SystemTime) {
        self.consider(
            find(text, separator, &["r", "remaining"]).and_then(count),
            find(text, separator, &["t", "reset"]).and_then(|value| until(value, now)),
        );
    }

    /// Keeps the fewest remaining calls with their own reset; among equal numbers, the later reset.
    fn consider(&mut self, remaining: Option<u64>, reset: Option<Duration>) {
        let stricter = match (self.remaining, remaining) {
            (Some(old), Some(new)) if old != new => new < old,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            _ => reset > self.reset,
        };
        if stricter {
            (self.remaining, self.reset) = (remaining, reset);
        }
    }
}

/// When the answer was sent, by the server's clock.
fn date(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

/// Whether a policy is about calls. It is, unless it says otherwise.
fn counts_calls(policy: &[u8]) -> bool {
    find(policy, b';', &["qu"]).is_none_or(|unit| is_one_of(unit, &CALLS))
}

fn count(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(head(value)).ok()?.parse().ok()
}

/// The time until a reset: a span in seconds or, if the number is too large for that, a date in
/// seconds or milliseconds.
fn until(value: &[u8], now: SystemTime) -> Option<Duration> {
    let span = Duration::try_from_secs_f64(number(head(value))?).ok()?;
    if span <= LONGEST {
        return Some(span);
    }
    let date = if span < MILLISECONDS {
        span
    } else {
        span / 1000
    };
    let span = UNIX_EPOCH.checked_add(date)?.duration_since(now).ok()?;
    (span <= LONGEST).then_some(span)
}

/// A number, which may still be negative, infinite or NaN.
fn number(value: &[u8]) -> Option<f64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
