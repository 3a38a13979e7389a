//! When a service that refuses asks to be called again.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use super::quota::Quota;

/// How long to wait: what `Retry-After` says, else until a quota that is used up begins anew; `None` where nothing is said
/// that makes sense.
pub(super) fn wait(headers: &HeaderMap) -> Option<Duration> {
    retry_after(headers).or_else(|| {
        let quota = Quota::of(headers, SystemTime::now);
        quota.reset.filter(|_| quota.is_used_up())
    })
}

/// How long `Retry-After` asks to wait; `None` where it is absent or makes no sense.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit mean the same as the largest number: for ever.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    // Against the answer's own clock: ours may be wrong, and the difference of two of theirs is not.
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
    fn a_quota_that_is_used_up_says_when_where_nothing_else_does() {
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
