//! What an answer's headers say about the service's rate limit, and when it asks to be called again.
//!
//! They are hints: a part that makes no sense is ignored and never an error. The IETF's drafts are known, old and new, and the
//! `X-` headers that came before them. Nothing here may know what the quota is used for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::{SignedDuration, Timestamp};
use reqwest::header::{DATE, HeaderMap, HeaderName};

/// What an answer's headers say about the quota. They are only hints: they may slow us down, but never speed us up.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Quota {
    /// The calls left in the current window, of the policy with the fewest.
    pub remaining: Option<u64>,
    /// The time until that policy's window resets.
    pub reset: Option<Duration>,
}

/// The header with everything about the current window, in the drafts since the 7th.
const CURRENT_WINDOW: &str = "ratelimit";

/// Headers that each say one thing about the current window: the calls that remain, and the reset, as a span or else as a point
/// in time.
const FAMILIES: [[&str; 3]; 3] = [
    [
        "ratelimit-remaining",
        "ratelimit-reset-after",
        "ratelimit-reset",
    ],
    [
        "x-ratelimit-remaining",
        "x-ratelimit-reset-after",
        "x-ratelimit-reset",
    ],
    [
        "x-rate-limit-remaining",
        "x-rate-limit-reset-after",
        "x-rate-limit-reset",
    ],
];

/// The headers that name a wait, in the order in which they are believed; those that end in `ms` count milliseconds.
const WAITS: [&str; 7] = [
    "retry-after",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "x-retry-after",
    "x-ratelimit-retry-after",
    "x-rate-limit-retry-after",
    "ratelimit-retry-after",
];

/// A longer wait is not believed: it is a number in another unit, or a mistake. Quotas of a month are not waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The wait if an answer names one that is not understood or not believed: most quotas are per minute.
const UNCLEAR_WAIT: Duration = Duration::from_secs(60);

/// Longer windows and resets make no sense. A larger plain number of seconds is a date.
const LONGEST_RESET: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A date from this number on is in milliseconds: in seconds it would be in the year 5138.
const FIRST_MILLISECONDS: Duration = Duration::from_secs(100_000_000_000);

/// Real lines have one or two hundred bytes. A longer one is ignored.
const LONGEST_LINE: usize = 4096;

impl Quota {
    /// Reads the headers of one answer. `now` is called if the answer does not have its own time.
    pub fn of(headers: &HeaderMap, now: impl FnOnce() -> SystemTime) -> Self {
        // Most services send none of these headers, and every answer comes through here.
        let speaks = |name: &HeaderName| {
            let name = name.as_str();
            name.starts_with(CURRENT_WINDOW) || name.starts_with("x-rate")
        };
        if !headers.keys().any(speaks) {
            return Self::default();
        }
        // Measured by the server's clock: ours may be wrong, but the difference between two of its times is right.
        let now = date(headers).unwrap_or_else(now);
        let mut quota = Self::default();
        for line in lines(headers, CURRENT_WINDOW) {
            // In the 7th draft a line is one policy, since the 8th it is a list.
            quota.current(&line.split(','), now);
            for policy in line.split(',') {
                quota.current(&policy.split(';'), now);
            }
        }
        for names in FAMILIES {
            // A gateway and the service behind it may both send these headers: then the first values belong together.
            let mut values = names.map(|name| lines(headers, name));
            loop {
                let [remaining, after, reset] = values.each_mut().map(Iterator::next);
                if remaining.or(after).or(reset).is_none() {
                    break;
                }
                let until = |value: Option<&str>| until(value?, now);
                let reset = until(after).or_else(|| until(reset));
                quota.consider(remaining.and_then(count), reset);
            }
        }
        quota
    }

    /// Whether no call is left. A mere mention of a limit does not count: many services send one with every answer.
    pub fn is_used_up(&self) -> bool {
        self.remaining == Some(0)
    }

    /// Adds what the parts of a text say about the current window.
    fn current<'a>(&mut self, parts: &(impl Iterator<Item = &'a str> + Clone), now: SystemTime) {
        let find = |keys: [&str; 2]| {
            let is_it = |key: &str| keys.iter().any(|it| key.trim().eq_ignore_ascii_case(it));
            let mut parts = parts.clone().filter_map(|part| part.split_once('='));
            parts.find(|(key, _)| is_it(key)).map(|(_, value)| value)
        };
        self.consider(
            find(["r", "remaining"]).and_then(count),
            find(["t", "reset"]).and_then(|value| until(value, now)),
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

/// Whether a header names a wait.
pub(super) fn names_wait(headers: &HeaderMap) -> bool {
    WAITS.iter().any(|name| headers.contains_key(*name))
}

/// The wait that a header names, if it is understood and believed. Of several values of a header the longest counts.
pub(super) fn named_wait(headers: &HeaderMap) -> Option<Duration> {
    let now = || date(headers).unwrap_or_else(SystemTime::now);
    let of_header = |name: &&str| {
        // A date has a comma itself.
        let values = lines(headers, name)
            .flat_map(|line| [line].into_iter().chain(line.split(',')))
            .filter_map(|value| span(value.trim(), name.ends_with("ms"), now()));
        values.filter(|wait| *wait <= LONGEST_WAIT).max()
    };
    WAITS.iter().find_map(of_header)
}

/// How long to wait: as a header such as `Retry-After` says, or else until a used-up quota resets; `None` if the answer says
/// neither.
pub(super) fn wait(headers: &HeaderMap) -> Option<Duration> {
    if let Some(wait) = named_wait(headers) {
        return Some(wait);
    }
    let quota = Quota::of(headers, SystemTime::now);
    let reset = quota.reset.filter(|_| quota.is_used_up());
    match reset {
        Some(wait) if wait <= LONGEST_WAIT => Some(wait),
        Some(_) => Some(UNCLEAR_WAIT),
        None => names_wait(headers).then_some(UNCLEAR_WAIT),
    }
}

/// The wait that a value names: seconds or milliseconds, a span with units such as `1m30s` or `PT90S`, or a point in time.
fn span(value: &str, is_milliseconds: bool, now: SystemTime) -> Option<Duration> {
    if is_milliseconds {
        return Duration::try_from_secs_f64(value.parse::<f64>().ok()? / 1e3).ok();
    }
    if let Some(span) = until(value, now) {
        return Some(span);
    }
    if let Ok(span) = value.to_ascii_lowercase().parse::<SignedDuration>() {
        return span.try_into().ok();
    }
    let at = match httpdate::parse_http_date(value) {
        Ok(at) => at,
        Err(_) => value.parse::<Timestamp>().ok()?.into(),
    };
    Some(at.duration_since(now).unwrap_or_default())
}

/// When the answer was sent, by the server's clock.
fn date(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

/// The lines of a header.
fn lines<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter();
    let lines = lines.filter(|line| line.len() <= LONGEST_LINE);
    lines.filter_map(|line| line.to_str().ok())
}

fn count(value: &str) -> Option<u64> {
    value.trim().parse().ok()
}

/// The time until a reset: a span in seconds or, if the number is too large for that, a date in seconds.
fn until(value: &str, now: SystemTime) -> Option<Duration> {
    let span = Duration::try_from_secs_f64(value.trim().parse().ok()?).ok()?;
    if span <= LONGEST_RESET {
        return Some(span);
    }
    // A date in milliseconds is one in the far future, taken for seconds.
    let at = if span > FIRST_MILLISECONDS {
        span / 1000
    } else {
        span
    };
    let left = UNIX_EPOCH.checked_add(at)?.duration_since(now).ok()?;
    (left <= LONGEST_RESET).then_some(left)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use reqwest::header::HeaderValue;

    use super::*;

    /// Our clock in these tests: long after all dates in them, so that its use shows.
    const NOW: Duration = Duration::from_secs(1_800_000_000);

    /// Headers, written as in an answer.
    fn headers(answer: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in answer.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            let name: HeaderName = name.trim().parse().unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn quota(answer: &str) -> Quota {
        Quota::of(&headers(answer), || UNIX_EPOCH + NOW)
    }

    fn expect(answer: &str, remaining: Option<u64>, reset: Option<f64>) {
        let quota = quota(answer);
        // A date with a fraction is only as exact as a floating-point number.
        let milliseconds = |seconds: f64| format!("{seconds:.3}");
        let found = quota.reset.map(|reset| reset.as_secs_f64());
        let found = (quota.remaining, found.map(milliseconds));
        assert_eq!(found, (remaining, reset.map(milliseconds)), "{answer}");
    }

    /// Headers as services and the IETF's drafts write them; before them, how many calls are left, and for how many seconds.
    const ANSWERS: &str = r#"
# The current draft, in lists and lines, with blanks, tokens and keys in any case
50 30
RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
RateLimit: "default";r=50;t=30

9 1
ratelimit:   "10-in-1sec"; r=9; t=1

999 -
RateLimit: peruser;R=999;pk=:dHJpYWw=:

# The fewest remaining with their own reset; among equal numbers, the later reset
3 40
RateLimit: "a";r=7;t=1, "b";r=3;t=20
RateLimit: "c";r=3;t=40, "d";t=90

# Drafts 7 and 6, and a header that says nothing of the current window
50 5
RateLimit: limit=100, remaining=50, reset=5

99 58
RateLimit-Remaining: 99
RateLimit-Reset: 58

- -
RateLimit-Limit: 12, 12;window=1, 1000;window=1000;comment="a, b"

# GitHub: a date by the server's clock; Twitter, by ours
57 600
Date: Sun, 11 Nov 2012 18:43:28 GMT
X-RateLimit-Remaining: 57
X-RateLimit-Reset: 1352660008

847 900
x-rate-limit-remaining: 847
x-rate-limit-reset: 1800000900

# GitLab, where the draft has a span; ShipStation: a span, where others have a date
0 30
Date: Tue, 05 Jan 2021 10:59:30 GMT
RateLimit-Remaining: 0
RateLimit-Reset: 1609844400

3 27
X-Rate-Limit-Remaining: 3
X-Rate-Limit-Reset: 27

# Discord, whose span needs no clock; and without it
0 64.57
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1470173023.123
X-RateLimit-Reset-After: 64.57

0 60.123
Date: Tue, 02 Aug 2016 21:22:43 GMT
X-RateLimit-Remaining: 0
X-RateLimit-Reset: 1470173023.123

# A gateway and the service behind it: each reset belongs to its own remainder
4 2
x-ratelimit-remaining: 50
x-ratelimit-reset: 3600
x-ratelimit-remaining: 4
x-ratelimit-reset: 2

# In the past, and more than a year away
- -
X-RateLimit-Reset: 1799999999

- -
X-RateLimit-Reset: 1831536001
"#;

    #[test]
    fn quotas_are_read_as_the_drafts_and_services_write_them() {
        for block in ANSWERS.trim().split("\n\n") {
            let lines: Vec<_> = block
                .lines()
                .filter(|line| !line.starts_with('#'))
                .collect();
            let (expected, answer) = lines.split_first().unwrap();
            let (remaining, reset) = expected.split_once(' ').unwrap();
            expect(
                &answer.join("\n"),
                remaining.parse().ok(),
                reset.parse().ok(),
            );
        }
    }

    #[test]
    fn nonsense_is_ignored_part_by_part() {
        let huge = "9".repeat(300);
        for number in [
            "-1", "NaN", "inf", "1e300", &huge, "", " ", "soon", "0x10", "1m",
        ] {
            for (answer, remaining, reset) in [
                ("RateLimit: \"a\";r=?;t=7, \"b\";r=8;t=?", Some(8), None),
                (
                    "X-RateLimit-Remaining: ?\nX-RateLimit-Reset: 5",
                    None,
                    Some(5.0),
                ),
                (
                    "X-RateLimit-Remaining: 5\nX-RateLimit-Reset-After: ?\nX-RateLimit-Reset: 6",
                    Some(5),
                    Some(6.0),
                ),
                (
                    "X-RateLimit-Remaining: 5\nX-RateLimit-Reset: ?\nDate: ?",
                    Some(5),
                    None,
                ),
            ] {
                expect(&answer.replace('?', number), remaining, reset);
            }
        }
        // A line of megabytes is not read.
        let line = "\"a\";r=1;t=1, ".repeat(300_000);
        let answer = format!("RateLimit: {line}\nRateLimit: \"b\";r=5;t=2");
        expect(&answer, Some(5), Some(2.0));
    }

    #[test]
    fn a_wait_is_understood_in_every_notation_and_never_taken_for_none() {
        const SENT: &str = "date: Sun, 06 Nov 1994 08:49:37 GMT\n";
        for (value, seconds) in [
            ("30", 30),
            ("0", 0),
            ("2.5", 2),
            ("30s", 30),
            ("90 seconds", 90),
            ("2m", 120),
            ("1m30s", 90),
            ("1 hour", 3_600),
            ("PT90S", 90),
            ("1500ms", 1),
            ("30, 60", 60),
            ("3\nretry-after: 9", 9),
            ("Sun, 06 Nov 1994 08:50:07 GMT", 30),
            ("Sun, 06 Nov 1994 08:40:00 GMT", 0),
            ("1994-11-06T08:50:07Z", 30),
            ("784111807", 30),
            ("784111807000", 30),
            // Not understood, or not believed.
            ("soon", 60),
            ("-5", 60),
            ("86401", 60),
            ("99999999999999999999999", 60),
            ("", 60),
        ] {
            let answer = format!("{SENT}retry-after: {value}");
            let found = wait(&headers(&answer)).map(|wait| wait.as_secs());
            assert_eq!(found, Some(seconds), "{value}");
        }
        let used_up = "x-ratelimit-remaining: 0\nx-ratelimit-reset: 90\n";
        for (answer, seconds) in [
            ("retry-after-ms: 1500", Some(1)),
            ("x-ms-retry-after-ms: 20000", Some(20)),
            ("x-retry-after: 7", Some(7)),
            ("x-ratelimit-retry-after: 8s", Some(8)),
            (used_up, Some(90)),
            (&format!("{used_up}retry-after: 7"), Some(7)),
            (&format!("{used_up}retry-after: soon"), Some(90)),
            ("ratelimit: \"a\";r=9, \"day\";r=0;t=3600", Some(3_600)),
            // A month is not waited for.
            (
                "x-ratelimit-remaining: 0\nx-ratelimit-reset: 2592000",
                Some(60),
            ),
            ("x-ratelimit-remaining: 0", None),
            ("x-ratelimit-remaining: 5\nx-ratelimit-reset: 90", None),
            ("x-ratelimit-limit: 0\nx-ratelimit-reset: 0", None),
        ] {
            let found = wait(&headers(answer)).map(|wait| wait.as_secs());
            assert_eq!(found, seconds, "{answer}");
        }
    }

    /// Arbitrary bytes, and bytes that are nearly right.
    fn any_value() -> impl Strategy<Value = Vec<u8>> {
        let near = "([a-z\"\\\\]{0,2}|r|t|remaining|reset|[-+]?[0-9]{1,14}([.e][0-9]{1,4})?|[;=, \"]){0,24}";
        prop_oneof![vec(any::<u8>(), 0..200), near.prop_map(String::into_bytes)]
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_sane_quota_or_none(
            values in vec((prop::sample::select(FAMILIES.concat()), any_value()), 0..8),
            current in any_value(),
            now in any::<u32>(),
        ) {
            let mut headers = HeaderMap::new();
            for (name, value) in values.into_iter().chain([(CURRENT_WINDOW, current)]) {
                if let Ok(value) = HeaderValue::from_bytes(&value) {
                    headers.append(name, value);
                }
            }
            let quota = Quota::of(&headers, || UNIX_EPOCH + Duration::from_secs(now.into()));
            prop_assert!(quota.reset.is_none_or(|reset| reset <= LONGEST_RESET));
        }

        #[test]
        fn another_policy_never_relaxes_the_quota(policies in vec((1_u32..=31_536_000, any::<u64>()), 1..8)) {
            let mut before = Quota::default();
            let mut answer = String::new();
            for (window, remaining) in policies {
                answer += &format!("RateLimit: \"a\";r={remaining};t={window}\n");
                let after = quota(&answer);
                prop_assert!(after.remaining.is_some());
                prop_assert!(before.remaining.is_none_or(|remaining| after.remaining <= Some(remaining)));
                before = after;
            }
        }
    }
}
