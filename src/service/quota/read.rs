//! What an answer's headers say about the service's rate limit, and when it asks to be called again.
//!
//! They are hints: a part that makes no sense is ignored and never an error. It knows the IETF's
//! drafts, old and new, and the `X-` headers that came before them. It must not know what the quota
//! is used for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{DATE, HeaderName, RETRY_AFTER};

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

/// How long to wait: as `Retry-After` says, or else until a used-up quota resets; `None` if the
/// answer says neither in a way that makes sense.
pub(in super::super) fn wait(headers: &HeaderMap) -> Option<Duration> {
    retry_after(headers).or_else(|| {
        let quota = Quota::of(headers, SystemTime::now);
        quota.reset.filter(|_| quota.is_used_up())
    })
}

/// How long `Retry-After` asks to wait; `None` if it is absent or makes no sense.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit mean the same as the largest number: forever.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    // Measured by the server's clock: ours may be wrong, but the difference between two of its
    // times is right.
    let now = date(headers).unwrap_or_else(SystemTime::now);
    Some(until.duration_since(now).unwrap_or_default())
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

// The part of RFC 9651 (structured fields) that these headers use. It accepts more than the RFC does, as much of what
// services send is almost a structured field.

/// Real lines have one or two hundred bytes. A longer line is ignored as a whole: if it were cut,
/// its last number would be wrong.
const LONGEST_LINE: usize = 4096;
/// Lines of one header that are read …
const MOST_LINES: usize = 16;
/// … and policies of one line.
const MOST_MEMBERS: usize = 32;

/// The lines of a header.
fn lines<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a [u8]> {
    headers
        .get_all(name)
        .into_iter()
        .take(MOST_LINES)
        .map(http::HeaderValue::as_bytes)
        .filter(|line| line.len() <= LONGEST_LINE)
}

/// The members of a header that is a list.
fn members<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a [u8]> {
    lines(headers, name).flat_map(|line| split(line, b',').take(MOST_MEMBERS))
}

/// A member's name or value, before its parameters.
fn head(member: &[u8]) -> &[u8] {
    split(member, b';').next().map_or(&[], unquoted)
}

/// The value of the first `key=value` with one of these keys.
fn find<'a>(text: &'a [u8], separator: u8, keys: &[&str]) -> Option<&'a [u8]> {
    split(text, separator).find_map(|part| {
        let (key, value) = part.split_at_checked(part.iter().position(|byte| *byte == b'=')?)?;
        is_one_of(key.trim_ascii(), keys).then(|| unquoted(value.get(1..).unwrap_or_default()))
    })
}

/// Splits at separators outside of quotes.
fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut after_backslash) = (false, false);
    text.split(move |byte| {
        if *byte == b'"' && !after_backslash {
            quoted = !quoted;
        }
        after_backslash = quoted && *byte == b'\\' && !after_backslash;
        !quoted && *byte == separator
    })
}

/// Without surrounding quotes and blanks.
fn unquoted(value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""))
        .unwrap_or(value)
}

fn is_one_of(text: &[u8], words: &[&str]) -> bool {
    words
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}
