//! When a service that throttles asks to be called again.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use super::quota::Quota;

/// How long to wait: as `Retry-After` says, or else until a used-up quota resets; `None` if the
/// answer says neither in a way that makes sense.
pub(super) fn wait(headers: &HeaderMap) -> Option<Duration> {
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
    let now = headers
        .get(DATE)
        .and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    Some(
        until
            .duration_since(now.unwrap_or_else(SystemTime::now))
            .unwrap_or(Duration::ZERO),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::header::{HeaderName, HeaderValue};

    use super::*;

    fn of(lines: &[(&str, &str)]) -> Option<u64> {
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
        assert_eq!(of(&[used_up, reset]), Some(90));
        assert_eq!(of(&[used_up, reset, ("retry-after", "7")]), Some(7));
        assert_eq!(of(&[used_up, reset, ("retry-after", "soon")]), Some(90));
        assert_eq!(of(&[("x-ratelimit-remaining", "5"), reset]), None);
        assert_eq!(of(&[used_up]), None);
        assert_eq!(of(&[("ratelimit", r#""day";r=0;t=3600"#)]), Some(3_600));
    }
}
