//! Headers that services really send, headers that none should send, and arbitrary bytes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use http::header::{HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;

use super::read::{LONGEST, Quota, wait};

const ALL: [&str; 15] = [
    "ratelimit-policy",
    "ratelimit",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "ratelimit-reset-after",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "x-rate-limit-limit",
    "x-rate-limit-remaining",
    "x-rate-limit-reset",
    "x-rate-limit-reset-after",
    "date",
];

/// Our clock in these tests: long after all dates in them, so that its use shows.
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// The quota from headers, written as in an answer.
fn quota(answer: &str) -> Quota {
    let headers = answer.lines().map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (
            name.trim().parse::<HeaderName>().unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        )
    });
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name, value);
    }
    Quota::of(&map, || UNIX_EPOCH + NOW)
}

fn expect(answer: &str, remaining: Option<u64>, reset: Option<f64>) {
    let expected = Quota {
        remaining,
        reset: reset.map(Duration::from_secs_f64),
    };
    let mut quota = quota(answer);
    // A date with a fraction is only as exact as a floating-point number: half a microsecond.
    quota.reset = quota.reset.map(|reset| {
        let milliseconds = (reset + Duration::from_micros(500)).as_millis();
        Duration::from_millis(milliseconds.try_into().unwrap())
    });
    assert_eq!(quota, expected, "{answer}");
}

#[test]
fn the_current_draft() {
    expect(
        "RateLimit-Policy: \"burst\";q=100;w=60,\"daily\";q=1000;w=86400\n\
         RateLimit: \"default\";r=50;t=30",
        Some(50),
        Some(30.0),
    );
    expect(
        "RateLimit-Policy: \"peruser\";q=100;w=60;pk=:cHsdsRa894==:\n\
         RateLimit: \"peruser\";r=999;pk=:dHJpYWw=:",
        Some(999),
        None,
    );
    // UniFi Protect sends blanks.
    expect(
        "ratelimit-policy: \"10-in-1sec\"; q=10; w=1; pk=:...:\n\
         ratelimit:        \"10-in-1sec\"; r=9; t=1",
        Some(9),
        Some(1.0),
    );
    // The fewest remaining with their own reset; among equal numbers, the later reset.
    expect(
        "RateLimit: \"a\";r=7;t=1, \"b\";r=3;t=20\nRateLimit: \"c\";r=3;t=40, \"d\";t=90",
        Some(3),
        Some(40.0),
    );
    // Separators in quotes, tokens instead of strings, and keys in any case.
    expect(
        "RateLimit-Policy: \"a, b;q=1;w=9 \\\" ,\";q=5;w=1\nRateLimit: default;R=4;T=2",
        Some(4),
        Some(2.0),
    );
}

#[test]
fn only_calls_count() {
    expect(
        "RateLimit-Policy: \"minute\";q=100;w=60;qu=\"requests\", \"concurrency\";q=40;qu=\"concurrent-requests\", \
         \"bytes\";q=65535;qu=\"content-bytes\";w=1000000\n\
         RateLimit: \"minute\";r=80;t=12, \"concurrency\";r=0, \"bytes\";r=0;t=900000",
        Some(80),
        Some(12.0),
    );
    expect("RateLimit: \"bytes\";r=5;t=9;qu=content-bytes", None, None);
}

#[test]
fn older_drafts() {
    // express-rate-limit: drafts 7 and 6.
    expect(
        "RateLimit-Policy: 100;w=60\nRateLimit: limit=100, remaining=50, reset=5",
        Some(50),
        Some(5.0),
    );
    expect(
        "RateLimit-Policy: 100;w=900\nRateLimit-Limit: 100\nRateLimit-Remaining: 99\n\
         RateLimit-Reset: 58",
        Some(99),
        Some(58.0),
    );
    expect("RateLimit-Limit: 100, 100;w=60", None, None);
    expect(
        "RateLimit-Limit: 12, 12;window=1, 1000;window=1000;comment=\"a, b\"",
        None,
        None,
    );
    expect(
        "RateLimit-Policy: 30;w=60;name=\"ip\", 100;w=3600;name=\"user\"\n\
         RateLimit: \"user\";r=0;t=10",
        Some(0),
        Some(10.0),
    );
}

#[test]
fn what_services_send() {
    // GitHub.
    expect(
        "Date: Sun, 11 Nov 2012 18:43:28 GMT\nX-RateLimit-Limit: 60\nX-RateLimit-Remaining: 57\n\
         X-RateLimit-Reset: 1352660008",
        Some(57),
        Some(600.0),
    );
    // Twitter, by our clock.
    expect(
        "x-rate-limit-limit: 900\nx-rate-limit-remaining: 847\nx-rate-limit-reset: 1800000900",
        Some(847),
        Some(900.0),
    );
    // Gravitee: milliseconds.
    expect(
        "date: Thu, 23 Mar 2023 15:59:57 GMT\nx-rate-limit-limit: 100\n\
         x-rate-limit-remaining: 98\nx-rate-limit-reset: 1679587256800",
        Some(98),
        Some(59.8),
    );
    // Discord, whose span needs no clock; and without it.
    expect(
        "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1470173023.123\n\
         X-RateLimit-Reset-After: 64.57",
        Some(0),
        Some(64.57),
    );
    expect(
        "Date: Tue, 02 Aug 2016 21:22:43 GMT\nX-RateLimit-Remaining: 0\n\
         X-RateLimit-Reset: 1470173023.123",
        Some(0),
        Some(60.123),
    );
    // Pinterest, by Envoy.
    expect(
        "x-ratelimit-limit: 100, 100;w=1;name=\"safety_net\", 1000;w=60;name=\"org|read^all\"\n\
         x-ratelimit-remaining: 2\nx-ratelimit-reset: 1",
        Some(2),
        Some(1.0),
    );
    // GitLab: a date, where the draft has a span.
    expect(
        "Date: Tue, 05 Jan 2021 10:59:30 GMT\nRateLimit-Limit: 60\nRateLimit-Remaining: 0\n\
         RateLimit-Reset: 1609844400",
        Some(0),
        Some(30.0),
    );
    // ShipStation: a span, where others have a date.
    expect(
        "X-Rate-Limit-Limit: 40\nX-Rate-Limit-Remaining: 3\nX-Rate-Limit-Reset: 27",
        Some(3),
        Some(27.0),
    );
    // A gateway and the service behind it: each reset belongs to its own remainder.
    expect(
        "x-ratelimit-remaining: 50\nx-ratelimit-reset: 3600\nx-ratelimit-remaining: 4\n\
         x-ratelimit-reset: 2",
        Some(4),
        Some(2.0),
    );
}

#[test]
fn nonsense_is_ignored_part_by_part() {
    let huge = "9".repeat(300);
    for number in [
        "-1", "NaN", "inf", "-inf", "1e300", &huge, "", " ", "soon", "ü", "0x10", "1m",
    ] {
        expect(
            &format!("RateLimit: \"a\";r={number};t=7, \"b\";r=8;t={number}"),
            Some(8),
            None,
        );
        expect(
            &format!("X-RateLimit-Remaining: {number}\nX-RateLimit-Reset: 5"),
            None,
            Some(5.0),
        );
        expect(
            &format!(
                "X-RateLimit-Remaining: 5\nX-RateLimit-Reset-After: {number}\nX-RateLimit-Reset: 6"
            ),
            Some(5),
            Some(6.0),
        );
        expect(
            &format!("X-RateLimit-Remaining: 5\nX-RateLimit-Reset: {number}\nDate: {number}"),
            Some(5),
            None,
        );
    }
    for answer in [
        // In the past, and more than a year away.
        "X-RateLimit-Reset: 1799999999",
        "X-RateLimit-Reset: 1831536001",
        "X-RateLimit-Reset: 31536001",
        "X-RateLimit-Reset: Wed, 21 Oct 2037 07:28:00 GMT",
    ] {
        expect(answer, None, None);
    }
}

#[test]
fn a_line_of_megabytes_is_not_read() {
    let line = "\"a\";r=1;t=1, ".repeat(300_000);
    expect(
        &format!("RateLimit: {line}\nRateLimit: \"b\";r=5;t=2"),
        Some(5),
        Some(2.0),
    );
}

#[test]
fn used_up_is_only_what_says_so() {
    assert!(quota("X-Rate-Limit-Remaining: 0").is_used_up());
    assert!(quota("RateLimit: \"a\";r=9, \"b\";r=0;t=30").is_used_up());
    assert!(quota("RateLimit: limit=100, remaining=0, reset=5").is_used_up());
    assert!(!quota("RateLimit: \"a\";r=9").is_used_up());
    assert!(!quota("X-RateLimit-Limit: 0\nX-RateLimit-Reset: 0").is_used_up());
}

/// Arbitrary bytes, and bytes that are nearly right.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let near = "([a-z\"\\\\]{0,2}|r|t|q|w|qu|limit|remaining|reset|[-+]?[0-9]{1,14}([.e][0-9]{1,4})?|[;=, \"]){0,24}";
    prop_oneof![vec(any::<u8>(), 0..200), near.prop_map(String::into_bytes)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_give_a_sane_quota_or_none(
        values in vec((0..ALL.len(), any_value()), 0..8),
        now in any::<u32>(),
    ) {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(ALL[name], value);
            }
        }
        let quota = Quota::of(&headers, || UNIX_EPOCH + Duration::from_secs(now.into()));
        prop_assert!(quota.reset.is_none_or(|reset| reset <= LONGEST));
    }

    #[test]
    fn another_policy_never_relaxes_the_quota(
        policies in vec((1_u32.., 1_u32..=31_536_000, any::<u64>()), 1..8),
    ) {
        let mut before = Quota::default();
        let mut answer = String::new();
        for (calls, window, remaining) in policies {
            answer += &format!("RateLimit-Policy: \"a\";q={calls};w={window}\n\
                RateLimit: \"a\";r={remaining};t={window}\n");
            let after = quota(&answer);
            prop_assert!(after.remaining.is_some());
            prop_assert!(before.remaining.is_none_or(|remaining| after.remaining <= Some(remaining)));
            before = after;
        }
    }
}

fn wait_of(lines: &[(&str, &str)]) -> Option<u64> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    wait(&headers).map(|wait| wait.as_secs())
}

#[test]
fn without_retry_after_a_used_up_quota_says_when() {
    let used_up = ("x-ratelimit-remaining", "0");
    let reset = ("x-ratelimit-reset", "90");
    assert_eq!(wait_of(&[used_up, reset]), Some(90));
    assert_eq!(wait_of(&[used_up, reset, ("retry-after", "7")]), Some(7));
    assert_eq!(
        wait_of(&[used_up, reset, ("retry-after", "soon")]),
        Some(90)
    );
    assert_eq!(wait_of(&[("x-ratelimit-remaining", "5"), reset]), None);
    assert_eq!(wait_of(&[used_up]), None);
    assert_eq!(
        wait_of(&[("ratelimit", r#""day";r=0;t=3600"#)]),
        Some(3_600)
    );
}
