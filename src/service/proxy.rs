//! The proxy for requests, as named by the usual environment variables.
//!
//! They are read here because the HTTP library ignores a proxy that it cannot use: key and personal
//! data would be sent without the proxy. Values are never shown, as they may contain a password.

use std::ffi::{OsStr, OsString};
use std::fmt;

use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

use super::endpoint::Endpoint;
use crate::base::error::{Error, Result, quoted};
use crate::base::secret::Secret;

/// A proxy from an environment variable.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    url: Secret,
    name: ProxyName,
}

/// How messages name a proxy: by its host and the variable that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyName {
    host: String,
    /// `None` if it comes from the system's own settings.
    variable: Option<&'static str>,
}

impl Proxy {
    /// The proxy for an endpoint, if a variable names one. A loopback endpoint has none. As in the
    /// HTTP library, the variable for the scheme takes precedence over `ALL_PROXY`, and upper case
    /// over lower case; `NO_PROXY` makes exceptions, and an empty variable counts as unset.
    ///
    /// # Errors
    /// Exit code 2: the variable that applies does not name a usable proxy.
    pub(crate) fn of(
        endpoint: &Endpoint,
        variable: impl Fn(&'static str) -> Option<OsString>,
    ) -> Result<Option<Self>> {
        if endpoint.is_loopback() {
            return Ok(None);
        }
        let of_scheme = if endpoint.is_plain() {
            ["HTTP_PROXY", "http_proxy"]
        } else {
            ["HTTPS_PROXY", "https_proxy"]
        };
        let names = of_scheme.into_iter().chain(["ALL_PROXY", "all_proxy"]);
        let found = names
            .filter_map(|name| Some((name, variable(name)?)))
            .find(|(_, value)| !value.is_empty());
        let Some((name, value)) = found else {
            return Ok(None);
        };
        let exceptions = ["NO_PROXY", "no_proxy"]
            .into_iter()
            .find_map(|name| variable(name)?.into_string().ok());
        if exceptions.is_some_and(|exceptions| excepts(&exceptions, endpoint)) {
            return Ok(None);
        }
        let url = address(&value).ok_or_else(|| {
            Error::usage(format!("`{name}` is not a proxy address")).hint(format!(
                "give an address such as `http://proxy.example.com:3128`, or unset `{name}`"
            ))
        })?;
        match url.scheme() {
            "http" | "https" => {}
            "socks4" | "socks4a" | "socks5" | "socks5h" => {
                return Err(wrong_kind(name, "a SOCKS proxy"));
            }
            _ => return Err(wrong_kind(name, "a proxy of an unknown kind")),
        }
        Ok(Some(Self {
            name: ProxyName {
                host: url.host_str().unwrap_or_default().to_owned(),
                variable: Some(name),
            },
            url: Secret::new(url.as_str()),
        }))
    }

    /// Its address, including the login.
    pub(super) fn url(&self) -> &str {
        self.url.expose()
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> &ProxyName {
        &self.name
    }
}

fn wrong_kind(variable: &str, kind: &str) -> Error {
    Error::usage(format!(
        "`{variable}` names {kind}, and only HTTP proxies are supported"
    ))
    .hint(format!(
        "give an address such as `http://proxy.example.com:3128`, or unset `{variable}`"
    ))
}

/// The address in a variable; without a scheme it is HTTP. A password with `/`, `?` or `#` that is
/// not percent-encoded cuts the address short, and its start may look like a host. So only a login,
/// a host and a port are accepted.
fn address(value: &OsStr) -> Option<Url> {
    let value = value.to_str()?;
    // The URL parser would remove these silently.
    if value.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return None;
    }
    let url: Url = if value.contains("://") {
        value.parse().ok()?
    } else {
        format!("http://{value}").parse().ok()?
    };
    let bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
    let host = url.host_str().is_some_and(|host| !host.is_empty());
    (bare && host).then_some(url)
}

/// Whether `NO_PROXY` with this content excludes the endpoint, by the HTTP library's own rules.
fn excepts(exceptions: &str, endpoint: &Endpoint) -> bool {
    let any = Matcher::builder()
        .all("http://proxy.invalid")
        .no(exceptions);
    let uri = endpoint.url().as_str().parse();
    uri.is_ok_and(|uri| any.build().intercept(&uri).is_none())
}

impl ProxyName {
    /// The proxy in the system's own settings, which the HTTP library uses if no variable names
    /// one.
    pub(super) fn of_system(endpoint: &Endpoint) -> Option<Self> {
        if endpoint.is_loopback() {
            return None;
        }
        let uri = endpoint.url().as_str().parse().ok()?;
        let proxy = Matcher::from_system().intercept(&uri)?;
        Some(Self {
            host: proxy.uri().host()?.to_owned(),
            variable: None,
        })
    }

    /// The variable to change; the usual one if the proxy comes from the system's settings.
    pub(super) fn variable(&self) -> &'static str {
        self.variable.unwrap_or("HTTPS_PROXY")
    }

    /// Some name, for tests.
    #[cfg(test)]
    pub(crate) fn any() -> Self {
        Self {
            host: "proxy.test".to_owned(),
            variable: Some("HTTPS_PROXY"),
        }
    }
}

impl fmt::Display for ProxyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy {}", quoted(&self.host))?;
        match self.variable {
            Some(variable) => write!(f, " of `{variable}`"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn of(base: &str, variables: &[(&str, &str)]) -> Result<Option<String>> {
        let endpoint = Endpoint::new(base, true).unwrap();
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
        let proxy = Proxy::of(&endpoint, |name| value(name).map(|(_, value)| value.into()))?;
        Ok(proxy.map(|proxy| format!("{} {}", proxy.name().variable(), proxy.url())))
    }

    #[test]
    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    fn the_variable_that_the_http_library_would_use_is_used() {
        let all: Vec<_> = [
            "NO_PROXY",
            "http_proxy",
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
        ]
        .into_iter()
        .map(|name| {
            (
                name,
                if name == "NO_PROXY" {
                    "b.example, 192.0.2.0/24"
                } else {
                    name
                },
            )
        })
        .collect();
        for (base, variables, proxy) in [
            (
                "https://a.example",
                &all[..],
                Some("HTTPS_PROXY http://https_proxy/"),
            ),
            (
                "https://a.example",
                &all[3..],
                Some("https_proxy http://https_proxy/"),
            ),
            (
                "https://a.example",
                &all[4..],
                Some("ALL_PROXY http://all_proxy/"),
            ),
            (
                "http://a.example",
                &all[..],
                Some("http_proxy http://http_proxy/"),
            ),
            ("https://b.example", &all[..], None),
            ("https://x.b.example", &all[..], None),
            ("https://192.0.2.7", &all[..], None),
            ("https://localhost", &all[..], None),
            ("http://127.0.0.1", &all[..], None),
            ("https://a.example", &[], None),
            (
                "https://a.example",
                &[("HTTPS_PROXY", ""), ("ALL_PROXY", "x:1")],
                Some("ALL_PROXY http://x:1/"),
            ),
            (
                "https://a.example",
                &[("HTTPS_PROXY", "https://me:p%40ss@x")],
                Some("HTTPS_PROXY https://me:p%40ss@x/"),
            ),
        ] {
            assert_eq!(
                of(base, variables).unwrap().as_deref(),
                proxy,
                "{base} {variables:?}"
            );
        }
    }

    #[test]
    fn a_value_that_is_not_a_proxy_is_refused_and_not_shown() {
        for bad in [
            "not a url",
            " http://proxy:3128",
            "http://proxy:3128\n",
            "ftp://proxy",
            "socks5://me:pass@proxy",
            "socks5h://proxy",
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
                let error = of("https://a.example", &[(name, bad)]).unwrap_err();
                assert_eq!(error.exit().code(), 2);
                let report = error.report();
                assert!(report.contains(&format!("`{name}`")), "{report}");
                assert!(
                    !report.contains("pass") && !report.contains("ss@"),
                    "{report}"
                );
            }
            // A variable that does not apply does no harm.
            assert!(
                of("https://a.example", &[("HTTP_PROXY", bad)]).is_ok(),
                "{bad}"
            );
            assert!(
                of(
                    "https://a.example",
                    &[("HTTPS_PROXY", "x"), ("ALL_PROXY", bad)]
                )
                .is_ok()
            );
            assert!(
                of(
                    "https://a.example",
                    &[("HTTPS_PROXY", bad), ("NO_PROXY", "*")]
                )
                .is_ok()
            );
        }
    }
}
