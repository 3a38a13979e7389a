//! The header that carries the UUID of a request (`--idempotency-header`). The interface knows no such header, so its name is
//! the user's word that the service honours it.

use http::HeaderName;

use crate::base::error::{Error, Result, quoted};

/// Headers that have a meaning of their own: those that the program and its HTTP library send, and those with which HTTP
/// itself directs a message. A UUID in one of them would break every call.
const TAKEN: [&str; 19] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-service-id",
];

/// The name of a header that is free for the UUID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdempotencyHeader(HeaderName);

impl IdempotencyHeader {
    /// Checks a name. Upper and lower case are the same.
    ///
    /// # Errors
    /// Exit code 2: it is not a valid name, or that of a header with another meaning.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::usage(format!("`--idempotency-header`: {} {what}", quoted(name)))
                .hint("give the name that the service documents, such as `Idempotency-Key`")
        };
        let header = HeaderName::try_from(name)
            .map_err(|_| wrong("is not the name of a header: letters, digits and hyphens"))?;
        if TAKEN.contains(&header.as_str()) {
            return Err(wrong("is a header that every call already has"));
        }
        Ok(Self(header))
    }

    /// The name.
    #[must_use]
    pub(crate) const fn name(&self) -> &HeaderName {
        &self.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_token_that_has_no_other_meaning() {
        for good in ["Idempotency-Key", "X-Request-ID", "idempotency_key", "x"] {
            assert!(IdempotencyHeader::new(good).is_ok(), "{good}");
        }
        let taken = TAKEN
            .iter()
            .flat_map(|name| [(*name).to_owned(), name.to_uppercase()]);
        let invalid = ["", " ", "Idempotency Key", "Idempotency-Key:", "é", "a\nb"];
        for bad in taken.chain(invalid.map(str::to_owned)) {
            let error = IdempotencyHeader::new(&bad).unwrap_err();
            assert_eq!(error.exit().code(), 2, "{bad}");
            assert!(error.report().contains("--idempotency-header"), "{bad}");
        }
    }
}
