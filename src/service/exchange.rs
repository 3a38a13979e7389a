//! One exchange with the service: a request is sent (interface, section 2.1), and an answer comes back, or the reason why there
//! is none.

use std::future::Future;
use std::io::Read as _;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use flate2::read::MultiGzDecoder;
use reqwest::header::HeaderMap;

use super::api_key::ApiKeys;
use super::endpoint::Plan;
use crate::fields::UserRequest;
use crate::raw_json;

/// The service: the HTTP client, or a script in tests.
pub(crate) trait Service {
    /// Sends one request and waits for the complete answer.
    fn ask(&self, body: Bytes) -> impl Future<Output = Exchange>;

    /// Reads the API key again from where it came from. A new key is used for all requests that
    /// start afterwards.
    fn renew_key(&self) -> KeyRenewal;

    /// The time limit for a call: after this it has ended, one way or the other.
    fn longest_call(&self) -> Duration;

    /// Calls that start from now on get new connections: one may be an answer ahead of its requests.
    fn renew_connections(&self);
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

/// An answer as it was received, not yet classified.
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

    /// The body as text, and whether it is cut: some services send gzip that nobody has asked for. A damaged one is left.
    pub(super) fn unpacked(body: Bytes, cut: bool) -> (Bytes, bool) {
        if !body.starts_with(GZIP) {
            return (body, cut);
        }
        let mut text = Vec::new();
        let most = Self::MAX_BODY as u64;
        let mut packed = MultiGzDecoder::new(&*body).take(most + 1);
        match packed.read_to_end(&mut text) {
            Ok(length) => (text.into(), cut || length > Self::MAX_BODY),
            Err(_) => (body, cut),
        }
    }

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

/// The first bytes of data in gzip, with which no text starts.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// What a request contained.
#[derive(Debug, Clone)]
pub struct SentRequest {
    /// Its key, and all other keys that the run had used when the answer came.
    pub api_keys: ApiKeys,
    /// Its body: personal data.
    pub body: Bytes,
}

impl SentRequest {
    /// A request without content, for tests.
    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        Self {
            api_keys: ApiKeys::new(crate::base::secret::Secret::new("test-key-0123")),
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
    /// Nothing listens at the service's address, or the resolver does not answer, such as before the service is up.
    NotConnected(String),
    /// Nothing was sent, and no further call would get through: why, and a hint for the user.
    Refused(String, &'static str),
    /// The request was still queued when its connection ended.
    Unprocessed(String),
    /// The request was sent, and its HTTP/2 connection ended in order before the server took it.
    ConnectionEnded(String),
    /// The server refused the request's HTTP/2 stream, as there are too many.
    StreamRefused,
    /// The server refused HTTP/2 itself, so that further calls are made by HTTP/1.1.
    WantsHttp1,
    /// The request was sent, and the complete answer did not come in time.
    TimedOut,
    /// The connection broke as the request was sent, probably because it had been used before.
    Stale(String),
    /// The connection broke after the request was sent: reset, end of file, or a short body.
    Broken(String),
    /// What came back is not HTTP, or has headers that HTTP does not allow.
    NotHttp(String),
}

/// Appends the body of a request to `to`. The same user and plan always give the same bytes: a
/// ledger identifies requests by them.
pub fn write_body(request: &UserRequest<'_>, plan: Plan, to: &mut BytesMut) {
    write_member(br#"{"name":"#, &request.name, to);
    if let Some(email) = &request.email {
        write_member(br#","email":"#, email, to);
    }
    if let Some(phone) = &request.phone {
        write_member(br#","phone":"#, phone, to);
    }
    write_member(br#","ip":"#, &request.ip, to);
    write_member(br#","user_agent":"#, &request.user_agent, to);
    // The default of `vpn_check` is documented inconsistently, so both flags are always sent on the
    // paid plan.
    if let Plan::Paid {
        vpn_check,
        advanced,
    } = plan
    {
        to.put_slice(match (vpn_check, advanced) {
            (false, false) => br#","vpn_check":false,"advanced":false"#,
            (false, true) => br#","vpn_check":false,"advanced":true"#,
            (true, false) => br#","vpn_check":true,"advanced":false"#,
            (true, true) => br#","vpn_check":true,"advanced":true"#,
        });
    }
    to.put_u8(b'}');
}

fn write_member(key: &[u8], value: &str, to: &mut BytesMut) {
    to.put_slice(key);
    raw_json::put_string(value, to);
}
