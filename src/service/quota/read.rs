//! What an answer's headers say of the service's rate limit.
//!
//! They are read as hints: what makes no sense is passed over piece by piece and is never an error. It knows the
//! IETF's drafts, old and new, and the `X-` headers that came before them; it must not know what anybody does with it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::DATE;
use http::header::HeaderName;

use super::structured_fields::{MOST_MEMBERS, find, head, is_one_of, lines, members, split};

/// What an answer's headers say of the quota. Hints only: they may slow us down, never speed us up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quota {
    /// Calls that are left in the current window, of the policy that has fewest.
    pub remaining: Option<u64>,
    /// Time until that policy's window begins anew.
    pub reset: Option<Duration>,
}

/// The header that says what each policy counts, where that is something other than calls.
const POLICY: &str = "ratelimit-policy";

/// The header in which the drafts since the 7th say everything of the current window.
const CURRENT: &str = "ratelimit";

/// Headers that say of the current window one thing each.
struct Family {
    remaining: &'static str,
    reset: &'static str,
    /// The same as a span: better than a point in time, as it needs no clock.
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

/// Quota units that count calls. Bytes and calls at once are no rate of calls.
const CALLS: [&str; 2] = ["requests", "request"];

/// Windows and resets beyond this are nonsense; as a plain number of seconds, what is beyond it is a date.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// From here on a date is in milliseconds: in seconds it would be in the year 5138, in milliseconds it was in 1973.
const MILLISECONDS: Duration = Duration::from_secs(100_000_000_000);

impl Quota {
    /// Reads the headers of one answer. `now` is asked where the answer does not say its own time.
    #[must_use]
    pub fn of(headers: &HeaderMap, now: impl FnOnce() -> SystemTime) -> Self {
        // Most services send none of them, and every answer comes through here.
        let speaks = |name: &HeaderName| {
            let name = name.as_str();
            name.starts_with(CURRENT) || name.starts_with("x-rate")
        };
        if !headers.keys().any(speaks) {
            return Self::default();
        }
        // Against the answer's own clock: ours may be wrong, and the difference of two of theirs is not.
        let now = date(headers).unwrap_or_else(now);
        let mut quota = Self::default();
        let foreign: Vec<_> = members(headers, POLICY)
            .filter(|policy| !counts_calls(policy))
            .map(head)
            .collect();
        for line in lines(headers, CURRENT) {
            // In the 7th draft a line is one policy, since the 8th it is a list; then the unit stands in another header.
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

    /// Whether nothing is left. That a limit is mentioned says nothing: many services do so in every answer.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.remaining == Some(0)
    }

    fn family(&mut self, headers: &HeaderMap, family: &Family, now: SystemTime) {
        let mut all_remaining = members(headers, family.remaining);
        let mut resets = members(headers, family.reset);
        let mut resets_after = members(headers, family.reset_after);
        // A gateway and what is behind it may each have sent theirs: then the first goes with the first.
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

    /// Takes in what the parts of a text say of the current window.
    fn current(&mut self, text: &[u8], separator: u8, now: SystemTime) {
        self.consider(
            find(text, separator, &["r", "remaining"]).and_then(count),
            find(text, separator, &["t", "reset"]).and_then(|value| until(value, now)),
        );
    }

    /// The fewest that remain count, with their own reset; of as many, the later reset.
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

/// When the answer was sent, by the service's clock.
fn date(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

/// Whether a policy is about calls, as it is unless it says otherwise.
fn counts_calls(policy: &[u8]) -> bool {
    find(policy, b';', &["qu"]).is_none_or(|unit| is_one_of(unit, &CALLS))
}

fn count(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(head(value)).ok()?.parse().ok()
}

/// How long until this time: a span in seconds or, where it is too large for that, a date in seconds or milliseconds.
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

/// A number, which may still be negative, infinite or none.
fn number(value: &[u8]) -> Option<f64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
