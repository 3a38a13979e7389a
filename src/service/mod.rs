//! The service's interface: request, answer, and what every outcome of a call means.
//!
//! A request's body comes in, an [`Outcome`] goes out. Only `http` names the HTTP library; everything that decides is
//! plain data and is tested as such. Nothing here knows of rows, files or pacing.

mod answer;
mod blot;
mod classify;
mod endpoint;
mod http;
mod key;
mod page;
mod pinned;
mod proxy;
mod quota;
mod request;
#[cfg(test)]
pub(crate) mod scripted;
mod service_id;
mod traces;
mod trust;
mod wait;
mod words;

use std::future::Future;
use std::time::Duration;

use ::http::HeaderMap;
use bytes::Bytes;

pub use blot::{Keys, Sent};
pub(crate) use classify::{Class, Fault, Health};
pub use classify::{Outcome, classify};
pub use endpoint::{Endpoint, Plan};
pub(crate) use http::Client;
pub use http::ClientSettings;
pub(crate) use key::{KeyFile, check_key, unusable_key};
pub(crate) use proxy::{Proxy, ProxyName};
pub use quota::Quota;
pub use request::write_body;
pub use service_id::ServiceId;
pub(crate) use trust::Distrust;

/// Whoever answers: the HTTP client, or a script in tests.
pub(crate) trait Service {
    /// Sends one request and waits for the whole answer.
    fn ask(&self, body: Bytes) -> impl Future<Output = Exchange>;

    /// Looks where the key came from for a new one, for all requests that begin from now on.
    fn renew_key(&self) -> Renewal;

    /// How long a call can take: then it has ended, one way or the other.
    fn longest_call(&self) -> Duration;
}

/// What came of looking for a new key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Requests go out with another key from now on.
    Renewed,
    /// The key stays; why, in one sentence.
    Kept(String),
    /// The key stays: where it came from, nothing can have changed.
    Fixed,
}

/// What came of sending a request.
pub(crate) type Exchange = Result<Reply, TransportFault>;

/// An answer as it came, not yet judged.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, at most [`Reply::MAX_BODY`] bytes of it.
    pub body: Bytes,
    /// The body was longer and was cut.
    pub cut: bool,
    /// What it answers, so that no message repeats it.
    pub sent: Sent,
}

impl Reply {
    /// A hundred times the largest answer seen; more is an attack or a wrong address, and memory must stay flat.
    pub(crate) const MAX_BODY: usize = 1024 * 1024;

    /// A success with this body, for tests.
    #[cfg(test)]
    pub(crate) fn ok(body: &str) -> Self {
        Self {
            status: 200,
            headers: HeaderMap::new(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            cut: false,
            sent: Sent::nothing(),
        }
    }
}

/// Why no answer came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportFault {
    /// The name of the service's host has no address.
    HostNotFound(String),
    /// The name of the proxy's host has no address.
    ProxyNotFound(ProxyName),
    /// No connection: refused, no route, timed out; the words are the system's.
    Unreachable(String),
    /// The other side does not speak TLS.
    NotTls,
    /// The TLS handshake failed, but for the certificate.
    Handshake(String),
    /// The certificate is not trusted.
    Certificate(Distrust),
    /// The proxy cannot be reached or did not connect, so that nothing went out.
    Proxy(ProxyName, String),
    /// The proxy connects nobody without a login.
    ProxyLogin(ProxyName),
    /// The request went out, and the server says that it has not processed it.
    Unprocessed(String),
    /// The request went out and the whole answer did not come in time.
    TimedOut,
    /// The connection broke after the request went out: reset, end of file, a short body, garbage.
    Broken(String),
}
