//! Whether an answer comes from the service at all: the service answers in JSON; a proxy, a login
//! page or another program on a wrong port does not.
//!
//! It must not know what the caller does with the result.

use serde::de::IgnoredAny;

use super::words::without_mark;

/// Whether a body is something other than JSON. An empty body does not count, and a body that
/// starts as JSON and is incomplete may be an answer that was cut off.
pub(super) fn is_page(body: &[u8]) -> bool {
    let body = without_mark(body).trim_ascii();
    if body.is_empty() || body.starts_with(b"{") || body.starts_with(b"[") {
        return false;
    }
    serde_json::from_slice::<IgnoredAny>(body).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_distinguished_from_a_page() {
        for json in [
            &b""[..],
            b" \r\n",
            b"{}",
            b"\xef\xbb\xbf{\"a\":1}",
            b"{\"cut\":",
            b"[1]",
            b"\"no\"",
            b"null",
        ] {
            assert!(!is_page(json), "{}", String::from_utf8_lossy(json));
        }
        for page in [
            &b"<html><body>Log in"[..],
            b"Bad Request",
            b"\xff\xfe{\0}\0",
            b"\x1f\x8b\x08",
        ] {
            assert!(is_page(page), "{}", String::from_utf8_lossy(page));
        }
    }
}
