//! Who calls whom: the service's address, the proxy on the way to it, the plan, and the calling application (interface,
//! sections 1 and 5).
//!
//! It must not know the requests that are sent there.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::IpAddr;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

use super::api_key::unquoted;
use crate::base::error::{Error, Result};
use crate::base::text::quoted;

/// The plan of an account, with the flags that only the paid plan has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// The paid plan.
    Paid {
        /// Ask for VPN and proxy detection.
        vpn_check: bool,
        /// Ask for advanced processing.
        advanced: bool,
    },
    /// The free plan.
    Free,
}

impl Plan {
    /// Every plan with every combination of flags: all forms in which a user can have been sent.
    pub(crate) const EVERY: [Self; 5] = [
        Self::Free,
        Self::paid(false, false),
        Self::paid(false, true),
        Self::paid(true, false),
        Self::paid(true, true),
    ];

    const fn paid(vpn_check: bool, advanced: bool) -> Self {
        Self::Paid {
            vpn_check,
            advanced,
        }
    }
}

/// The path of requests below the base address.
const PATH: &str = "/v1/validate/user";

/// The full address that requests are sent to: HTTPS, or plain HTTP on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint(Url);

impl Endpoint {
    /// The endpoint below a base address.
    ///
    /// # Errors
    /// Exit code 2: no address, a scheme that would expose keys and personal data to the
    /// network, or parts that do not belong there.
    pub(crate) fn new(base: &str, allow_http: bool) -> Result<Self> {
        // People paste keys and passwords into addresses, so at most scheme, host and path are ever
        // shown.
        let mut url: Url = unquoted(base.trim()).trim().parse().map_err(|e| {
            Error::usage("the base address is not a URL")
                .because(e)
                .hint("give it in full, such as `https://api.example.com`")
        })?;
        let wrong = |what: &str, hint: &str| {
            Err(Error::usage(format!("the base address {what}")).hint(hint))
        };
        if !url.username().is_empty() || url.password().is_some() {
            return wrong(
                "contains a user name or password",
                "give the API key in `RESCORE_API_KEY` or with `--api-key-file`",
            );
        }
        if url.query().is_some() || url.fragment().is_some() {
            return wrong(
                "contains a query or a fragment",
                "leave out `?` or `#` and what follows",
            );
        }
        match url.scheme() {
            "https" => {}
            "http" if allow_http || is_loopback(&url) => {}
            "http" => {
                return wrong(
                    &format!("{} is not HTTPS", quoted(url.as_str())),
                    "`--allow-http` allows it, and sends the API key and personal data unencrypted",
                );
            }
            _ => {
                return wrong(
                    "does not start with `https://`",
                    "give it in full, such as `https://api.example.com`",
                );
            }
        }
        // The full address is understood as well, and a part of it.
        let base = url.path().trim_end_matches('/');
        let mut parts = [PATH, "/v1/validate", "/v1"].iter();
        let above = parts.find_map(|part| base.strip_suffix(part));
        let path = format!("{}{PATH}", above.unwrap_or(base));
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The URL.
    pub(crate) const fn url(&self) -> &Url {
        &self.0
    }

    /// The host without a port.
    pub(crate) fn domain(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The host, and the port unless it is the usual one.
    pub(crate) fn host(&self) -> &str {
        // Neither a user name nor a password is in it.
        self.0.authority()
    }

    /// Whether requests stay on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }

    /// Whether the connection is plain HTTP.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.scheme() == "http"
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The only name for this machine. The client does not resolve it.
pub(super) const LOCALHOST: &str = "localhost";

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    // Names below it are resolved as usual (not everybody follows RFC 6761, section 6.3).
    let address = host.trim_matches(['[', ']']).parse();
    host == LOCALHOST || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

/// An identifier that is valid as a header in any HTTP version: not empty, visible ASCII, with
/// spaces only inside.
///
/// Over HTTP/2, some servers close the connection on any other value, and such a call may have been
/// billed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceId(Box<str>);

impl ServiceId {
    /// Checks an identifier, and removes the spaces around it.
    ///
    /// # Errors
    /// Exit code 2: it is empty or has other characters.
    pub(crate) fn new(text: &str) -> Result<Self> {
        let text = unquoted(text.trim_matches(' ')).trim_matches(' ');
        if text.is_empty() {
            return Err(Error::usage("no service id")
                .hint("give it with `--service-id` or the variable `RESCORE_SERVICE_ID`"));
        }
        // It is not shown: it may be a key that was pasted.
        if !text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() || byte == b' ')
        {
            return Err(Error::usage(
                "the service id contains a line break, another control character, or a character that is not ASCII",
            )
            .hint("check `--service-id` or the variable `RESCORE_SERVICE_ID`"));
        }
        Ok(Self(text.into()))
    }

    /// The identifier.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The service's address and the calling application, as a ledger tells them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    /// The address.
    pub(crate) endpoint: String,
    /// The calling application's identifier.
    pub(crate) service_id: String,
    /// The stand-in answers, which costs nothing.
    pub(crate) sandbox: bool,
}

/// What identifies the calling application to the built-in stand-in.
pub(crate) const SANDBOX_ID: &str = "sandbox";

impl Account {
    /// An account of the service.
    pub(crate) fn of_service(endpoint: &Endpoint, service_id: &ServiceId) -> Self {
        Self {
            endpoint: endpoint.to_string(),
            service_id: service_id.as_str().to_owned(),
            sandbox: false,
        }
    }

    /// That of the built-in stand-in.
    pub(crate) fn of_sandbox() -> Self {
        Self {
            // Its port is different each time.
            endpoint: "the sandbox".to_owned(),
            service_id: SANDBOX_ID.to_owned(),
            sandbox: true,
        }
    }
}

// The HTTP library reads the usual environment variables for proxies by itself. It ignores a value that it cannot use, and key
// and personal data would then be sent without the proxy. So such values are refused here. Values are never shown, as they may
// contain a password.

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
    let mut is_proxied = false;
    for name in of_scheme.into_iter().chain(["ALL_PROXY", "all_proxy"]) {
        let value = variable(name).unwrap_or_default();
        if !value.is_empty() && !is_http_proxy(&value) {
            let error = Error::usage(format!("`{name}` is not the address of an HTTP proxy"));
            return Err(error.hint(format!(
                "give an address such as `http://proxy.example.com:3128`, or unset `{name}`"
            )));
        }
        is_proxied |= !value.is_empty();
    }
    for name in ["NO_PROXY", "no_proxy"].into_iter().filter(|_| is_proxied) {
        let list = variable(name).unwrap_or_default();
        let list = list.to_string_lossy();
        if let Some(entry) = list.split(',').find(|entry| !is_exception(entry.trim())) {
            let entry = quoted(entry.trim());
            return Err(Error::usage(format!("`{name}` has {entry}, which is not understood"))
                .hint("it is a list, with commas, of names, addresses and networks such as `10.0.0.0/8`; `.example.com` is all names below it, and `*` alone is everything"));
        }
    }
    Ok(())
}

/// Whether an entry of `NO_PROXY` is understood as it is meant. The HTTP library would take any other one for a name that no host
/// has, and send calls through the proxy.
fn is_exception(entry: &str) -> bool {
    let (address, bits) = entry.split_once('/').unwrap_or((entry, "0"));
    let is_name = |c: char| c.is_alphanumeric() || "-._".contains(c);
    let is_address = address.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    entry == "*" || entry.chars().all(is_name) || is_address && bits.parse::<u8>().is_ok()
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
    let scheme = if value.contains("://") { "" } else { "http://" };
    Url::parse(&format!("{scheme}{value}")).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

/// The host and port of the proxy that calls to the endpoint go through, if there is one.
pub(crate) fn proxy_for(endpoint: &Endpoint) -> Option<String> {
    if endpoint.is_loopback() {
        return None;
    }
    let uri = endpoint.url().as_str().parse().ok()?;
    let proxy = Matcher::from_system().intercept(&uri)?;
    let host = proxy.uri().host()?;
    Some(match proxy.uri().port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_appended_to_the_base() {
        let path = |base: &str| Endpoint::new(base, false).unwrap().to_string();
        let expected = "https://api.example.com/v1/validate/user";
        assert_eq!(path("https://api.example.com"), expected);
        assert_eq!(path(" https://api.example.com/ "), expected);
        for part in ["/v1", "/v1/", "/v1/validate", "/v1/validate/user/"] {
            assert_eq!(path(&format!("https://api.example.com{part}")), expected);
        }
        let other = path("https://example.com/risk-v1");
        assert_eq!(other, "https://example.com/risk-v1/v1/validate/user");
        let below = path("https://example.com/risk/");
        assert_eq!(below, "https://example.com/risk/v1/validate/user");
    }

    #[test]
    fn addresses_that_would_leak_or_make_no_sense_are_refused() {
        let bad = "http://api.example.com file:///etc/passwd https://user:pw@example.com \
            https://example.com?key=1 https://example.com#x ftp://user:pw@example.com pw:x \
            http://example.com?key=pw http://example.localhost http://localhost. \
            http://[::ffff:127.0.0.1] http://127.0.0.1.example.com example.com";
        for bad in bad.split(' ').chain([""]) {
            let error = Endpoint::new(bad, false).unwrap_err();
            assert_eq!(error.exit().code(), 2, "{bad}");
            assert!(!error.report().contains("pw"), "{}", error.report());
        }
        let good = "http://127.0.0.1:8787 http://[::1]:1 http://localhost http://LOCALHOST:1";
        for good in good.split(' ') {
            assert!(Endpoint::new(good, false).is_ok(), "{good}");
        }
        assert!(Endpoint::new("http://api.example.com", true).is_ok());
    }

    #[test]
    fn an_id_that_is_unsafe_in_a_header_is_refused_and_not_shown() {
        assert_eq!(ServiceId::new(" my app  ").unwrap().as_str(), "my app");
        for bad in [
            "",
            "  ",
            "te\nst",
            "test\n",
            "\ttest",
            "t\u{7f}",
            "tést",
            "te\u{200b}st",
        ] {
            let error = ServiceId::new(bad).unwrap_err();
            assert_eq!(error.exit().code(), 2);
            let report = error.report();
            assert!(report.contains("service id"), "{report}");
            assert!(
                !report.contains("st\n") && !report.contains("tést"),
                "{report}"
            );
        }
    }

    fn check_proxy(base: &str, variable: &str, value: &str) -> Result<()> {
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
                let error = check_proxy("https://a.example", name, bad).unwrap_err();
                let report = error.report();
                assert_eq!(error.exit().code(), 2);
                assert!(report.contains(&format!("`{name}`")), "{report}");
                let shows = report.contains("pass") || report.contains("ss@");
                assert!(!shows, "{report}");
            }
            // A variable that does not apply does no harm.
            assert!(check_proxy("https://a.example", "HTTP_PROXY", bad).is_ok());
            assert!(check_proxy("https://localhost", "HTTPS_PROXY", bad).is_ok());
        }
        for good in ["", "proxy", "proxy:3128", "https://me:p%40ss@proxy/"] {
            let checked = check_proxy("https://a.example", "HTTPS_PROXY", good);
            assert!(checked.is_ok(), "{good}");
        }
    }

    #[test]
    fn an_exception_that_is_not_understood_is_refused_where_there_is_a_proxy() {
        let check = |exceptions: &str, proxy: &str| {
            let endpoint = Endpoint::new("https://a.example", false).unwrap();
            check_proxies(&endpoint, |name| match name {
                "HTTPS_PROXY" => Some(proxy.into()),
                "no_proxy" => Some(exceptions.into()),
                _ => None,
            })
        };
        for bad in [
            "*.example",
            "a.example:443",
            "http://a.example",
            "<local>",
            "b c",
            "::1, 10.0.0.0/x",
        ] {
            assert!(check(bad, "proxy:3128").is_err(), "{bad}");
            assert!(check(bad, "").is_ok(), "{bad}");
        }
        for good in [
            "",
            "*",
            "localhost, .example,10.0.0.0/8,::1,[::1],a_b.example",
        ] {
            assert!(check(good, "proxy:3128").is_ok(), "{good}");
        }
    }
}
