//! For whom calls are made: answers of one account are never used for another.

use super::endpoint::Endpoint;
use super::service_id::ServiceId;

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
