//! One exchange with the service: a request is sent, and an answer comes back, or the reason why
//! there is none.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

use crate::base::secret::Secret;

/// The service: the HTTP client, or a script in tests.
pub(crate) trait Service {
    /// Sends one request and waits for the complete answer.
    fn ask(&self, body: Bytes) -> impl Future<Output = Exchange>;

    /// Reads the API key again from where it came from. A new key is used for all requests that
    /// start afterwards.
    fn renew_key(&self) -> KeyRenewal;

    /// The time limit for a call: after this it has ended, one way or the other.
    fn longest_call(&self) -> Duration;
}

/// The result of looking for a new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyRenewal {
    /// From now on, requests are sent with another key.
    Renewed,
    /// The key stays the same; why, in one sentence.
    Kept(String),
    /// The key stays the same: it comes from a source that cannot change, such as a variable.
    Fixed,
}

/// The result of sending a request.
pub(crate) type Exchange = Result<Reply, TransportFault>;

/// An answer as received, not yet classified.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, cut at [`Reply::MAX_BODY`] bytes.
    pub body: Bytes,
    /// Whether the body was longer and was cut.
    pub cut: bool,
    /// The request that it answers, so that no message repeats its content.
    pub sent: SentRequest,
}

impl Reply {
    /// A hundred times the largest answer seen. A longer one is an attack or comes from a wrong
    /// address, and memory use must stay flat.
    pub(crate) const MAX_BODY: usize = 1024 * 1024;

    /// A success with this body, for tests.
    #[cfg(test)]
    pub(crate) fn ok(body: &str) -> Self {
        Self {
            status: 200,
            headers: HeaderMap::new(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            cut: false,
            sent: SentRequest::nothing(),
        }
    }
}

/// Every API key that a run has used. After a rotation, any answer may repeat the old or the new
/// key. Clones share the keys.
#[derive(Debug, Clone, Default)]
pub struct ApiKeys(pub(super) Arc<[Secret]>);

/// What a request contained.
#[derive(Debug, Clone)]
pub struct SentRequest {
    /// Its key, and all other keys that the run had used when the answer came.
    pub api_keys: ApiKeys,
    /// Its body: personal data.
    pub body: Bytes,
}

impl ApiKeys {
    /// The key that a run starts with.
    #[must_use]
    pub fn new(key: Secret) -> Self {
        Self(Arc::new([key]))
    }

    /// These keys and one more.
    #[must_use]
    pub(crate) fn and(&self, key: &Secret) -> Self {
        let others = self.0.iter().filter(|known| known.expose() != key.expose());
        Self(others.chain([key]).cloned().collect())
    }
}

impl SentRequest {
    /// A request without content, for tests.
    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        Self {
            api_keys: ApiKeys::new(Secret::new("test-key-0123")),
            body: Bytes::new(),
        }
    }
}

/// Why no answer came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportFault {
    /// The service's host name, or that "of the proxy …", cannot be resolved.
    HostNotFound(String),
    /// No connection, or no TLS handshake, for this reason: nothing was sent.
    Unreachable(String),
    /// Nobody answers at the service's address, or the resolver does not: a service that is not up yet is one.
    NotConnected(String),
    /// Nothing was sent, and no further call would be: why, and what the user can do.
    Refused(String, &'static str),
    /// The request was sent, and the server says that it did not process it.
    Unprocessed(String),
    /// The request was sent, and the complete answer did not come in time.
    TimedOut,
    /// The connection broke as the request was sent, probably because it had been used before.
    Stale(String),
    /// The connection broke after the request was sent: reset, end of file, a short body, or
    /// garbage.
    Broken(String),
}
