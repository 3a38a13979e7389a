//! The proxy on the way to the service. The HTTP library reads the usual environment variables by itself.
//!
//! It ignores a value that it cannot use, and key and personal data would then be sent without the proxy. So such values
//! are refused here. Values are never shown, as they may contain a password.

use std::ffi::{OsStr, OsString};

use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

use super::endpoint::Endpoint;
use crate::base::error::{Error, Result};

/// Checks the variables that may name a proxy for the endpoint.
///
/// # Errors
/// Exit code 2: one of them is neither empty nor the address of an HTTP proxy.
pub(crate) fn check_proxies(
    endpoint: &Endpoint,
    variable: impl Fn(&'static str) -> Option<OsString>,
) -> Result<()> {
    if endpoint.is_loopback() {
        return Ok(());
    }
    let of_scheme = if endpoint.is_plain() {
        ["HTTP_PROXY", "http_proxy"]
    } else {
        ["HTTPS_PROXY", "https_proxy"]
    };
    for name in of_scheme.into_iter().chain(["ALL_PROXY", "all_proxy"]) {
        let value = variable(name).unwrap_or_default();
        if !value.is_empty() && !is_http_proxy(&value) {
            return Err(
                Error::usage(format!("`{name}` is not the address of an HTTP proxy")).hint(
                    format!(
                        "give an address such as `http://proxy.example.com:3128`, or unset `{name}`"
                    ),
                ),
            );
        }
    }
    Ok(())
}

/// Whether a value is the address of an HTTP proxy; without a scheme it is one. A password with `/`, `?` or `#` that is
/// not percent-encoded cuts the address short, and its start may look like a host. So only a login, a host and a port are
/// accepted.
fn is_http_proxy(value: &OsStr) -> bool {
    // The URL parser would remove white space silently.
    let unclean = |c: char| c.is_whitespace() || c.is_control();
    let Some(value) = value.to_str().filter(|value| !value.contains(unclean)) else {
        return false;
    };
    let url = if value.contains("://") {
        Url::parse(value)
    } else {
        Url::parse(&format!("http://{value}"))
    };
    url.is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

/// The host and port of the proxy that calls to the endpoint go through, if there is one.
#[must_use]
pub(crate) fn proxy_for(endpoint: &Endpoint) -> Option<String> {
    if endpoint.is_loopback() {
        return None;
    }
    let uri = endpoint.url().as_str().parse().ok()?;
    let proxy = Matcher::from_system().intercept(&uri)?;
    let port = { proxy.uri().port() }.map(|port| format!(":{port}"));
    Some(format!(
        "{}{}",
        proxy.uri().host()?,
        port.unwrap_or_default()
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn check(base: &str, variable: &str, value: &str) -> Result<()> {
        let endpoint = Endpoint::new(base, true).unwrap();
        check_proxies(&endpoint, |name| (name == variable).then(|| value.into()))
    }

    #[test]
    fn a_value_that_is_not_a_proxy_is_refused_and_not_shown() {
        for bad in [
            "not a url",
            " http://proxy:3128",
            "http://proxy:3128\n",
            "ftp://proxy",
            "socks5://me:pass@proxy",
            "http://",
            "http://:3128",
            "proxy:port",
            "http://me:pa/ss@proxy:3128",
            "http://me:1#ss@proxy:3128",
            "http://me:1?ss@proxy:3128",
            "http://proxy:3128/pass",
            "mailto:pass",
        ] {
            for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
                let error = check("https://a.example", name, bad).unwrap_err();
                let report = error.report();
                assert_eq!(error.exit().code(), 2);
                assert!(report.contains(&format!("`{name}`")), "{report}");
                assert!(!report.contains("pass"), "{report}");
                assert!(!report.contains("ss@"), "{report}");
            }
            // A variable that does not apply does no harm.
            assert!(check("https://a.example", "HTTP_PROXY", bad).is_ok());
            assert!(check("https://localhost", "HTTPS_PROXY", bad).is_ok());
        }
        for good in ["", "proxy", "proxy:3128", "https://me:p%40ss@proxy/"] {
            assert!(
                check("https://a.example", "HTTPS_PROXY", good).is_ok(),
                "{good}"
            );
        }
    }
}
