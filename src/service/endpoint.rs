//! Who is asked by whom: the service's address, the plan, and the calling application (interface, sections 1 and 5).
//!
//! It must not know what is sent there.

use std::fmt;

use url::{Host, Url};

use crate::base::error::{Error, Result, quoted};

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

/// Where requests go, below the base address.
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
        let url: Url = base.trim().parse().map_err(|e| {
            Error::usage("the base address is not a URL")
                .because(e)
                .hint("give it in full, such as `https://api.example.com`")
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                Error::usage("the base address contains a user name or password")
                    .hint("give the API key in `RESCORE_API_KEY` or with `--api-key-file`"),
            );
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(
                Error::usage("the base address contains a query or a fragment")
                    .hint("leave out `?` or `#` and what follows"),
            );
        }
        match url.scheme() {
            "https" => {}
            "http" if allow_http || is_loopback(&url) => {}
            "http" => {
                return Err(Error::usage(format!(
                    "the base address {} is not HTTPS",
                    quoted(url.as_str())
                ))
                .hint(
                    "`--allow-http` allows it, and sends the API key and personal data unencrypted",
                ));
            }
            _ => {
                return Err(
                    Error::usage("the base address does not start with `https://`")
                        .hint("give it in full, such as `https://api.example.com`"),
                );
            }
        }
        let mut url = url;
        let base = url.path().trim_end_matches('/').to_owned();
        if let Some(above) = base.strip_suffix(PATH) {
            url.set_path(above);
            let base = url.as_str().trim_end_matches('/');
            return Err(Error::usage(format!(
                "the base address ends in the path `{PATH}`, which is added to it"
            ))
            .hint(format!("give {} alone", quoted(base))));
        }
        url.set_path(&format!("{base}{PATH}"));
        Ok(Self(url))
    }

    /// The URL.
    #[must_use]
    pub(crate) const fn url(&self) -> &Url {
        &self.0
    }

    /// The host without a port.
    #[must_use]
    pub(crate) fn domain(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// The host, and the port unless it is the usual one.
    #[must_use]
    pub(crate) fn host(&self) -> &str {
        // Neither a user name nor a password is in it.
        self.0.authority()
    }

    /// Whether requests stay on this machine.
    #[must_use]
    pub(crate) fn is_loopback(&self) -> bool {
        is_loopback(&self.0)
    }

    /// Whether the connection is plain HTTP.
    #[must_use]
    pub(crate) fn is_plain(&self) -> bool {
        self.0.scheme() == "http"
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The only name for this machine. The client does not ask a resolver for it.
pub(super) const LOCALHOST: &str = "localhost";

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        // Names below it are resolved as usual (not everybody follows RFC 6761, section 6.3).
        Some(Host::Domain(name)) => name == LOCALHOST,
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
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
        let text = text.trim_matches(' ');
        if text.is_empty() {
            return Err(Error::usage("no service id")
                .hint("give it with `--service-id` or the variable `RESCORE_SERVICE_ID`"));
        }
        // It is not shown: somebody may have pasted a key.
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
    #[must_use]
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
    #[must_use]
    pub(crate) fn of_service(endpoint: &Endpoint, service_id: &ServiceId) -> Self {
        Self {
            endpoint: endpoint.to_string(),
            service_id: service_id.as_str().to_owned(),
            sandbox: false,
        }
    }

    /// That of the built-in stand-in.
    #[must_use]
    pub(crate) fn of_sandbox() -> Self {
        Self {
            // Its port is different each time.
            endpoint: "the sandbox".to_owned(),
            service_id: SANDBOX_ID.to_owned(),
            sandbox: true,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_appended_to_the_base() {
        for base in [
            "https://api.example.com",
            "https://api.example.com/",
            " https://api.example.com ",
        ] {
            assert_eq!(
                Endpoint::new(base, false).unwrap().to_string(),
                "https://api.example.com/v1/validate/user"
            );
        }
        let below = Endpoint::new("https://example.com/risk/", false).unwrap();
        assert_eq!(
            below.to_string(),
            "https://example.com/risk/v1/validate/user"
        );
    }

    #[test]
    fn addresses_that_would_leak_or_make_no_sense_are_refused() {
        for bad in [
            "http://api.example.com",
            "file:///etc/passwd",
            "https://user:pw@example.com",
            "https://example.com?key=1",
            "https://example.com#x",
            "ftp://user:pw@example.com",
            "pw:x",
            "http://example.com?key=pw",
            "http://example.localhost",
            "http://localhost.",
            "http://[::ffff:127.0.0.1]",
            "http://127.0.0.1.example.com",
            "example.com",
            "",
        ] {
            let error = Endpoint::new(bad, false).unwrap_err();
            assert_eq!(error.exit().code(), 2, "{bad}");
            assert!(!error.report().contains("pw"), "{}", error.report());
        }
        for good in [
            "http://127.0.0.1:8787",
            "http://[::1]:1",
            "http://localhost",
            "http://LOCALHOST:1",
        ] {
            assert!(Endpoint::new(good, false).is_ok(), "{good}");
        }
        assert!(Endpoint::new("http://api.example.com", true).is_ok());
    }

    #[test]
    fn spaces_around_an_id_are_not_part_of_it() {
        for text in ["my app", " my app", "my app  "] {
            assert_eq!(ServiceId::new(text).unwrap().as_str(), "my app");
        }
    }

    #[test]
    fn an_id_that_is_unsafe_in_a_header_is_refused_and_not_shown() {
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
            assert!(error.report().contains("service id"));
            assert!(!error.report().contains("st\n") && !error.report().contains("tést"));
        }
    }
}
