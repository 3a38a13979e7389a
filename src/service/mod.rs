//! The service's interface: the request, the answer, and what every outcome of a call means.
//!
//! A request's body comes in, a [`Classified`] outcome comes out. Only `http` names the HTTP library. Everything that makes
//! decisions works on plain data and is tested with it. Nothing here knows about rows, files or pacing.

mod account;
mod answer;
mod api_key_file;
mod classify;
mod endpoint;
mod exchange;
mod http;
mod outcome;
mod page;
mod proxy;
mod quota;
mod redact;
mod request;
mod retry_after;
#[cfg(test)]
pub(crate) mod scripted;
mod service_id;
mod traces;
mod words;

pub(crate) use account::{Account, SANDBOX_ID};
pub(crate) use answer::read_kept;
pub(crate) use api_key_file::{KeyFile, check_key, unusable_key};
pub use classify::classify;
pub(crate) use endpoint::Endpoint;
pub use endpoint::Plan;
pub use exchange::Reply;
pub(crate) use exchange::{Exchange, KeyRenewal, Service};
pub(crate) use http::{Client, ClientSettings};
pub use outcome::Classified;
pub(crate) use outcome::{Class, Fault, Health};
pub(crate) use proxy::{check_proxies, proxy_for};
pub use quota::Quota;
pub use redact::{ApiKeys, SentRequest};
pub use request::write_body;
pub(crate) use service_id::ServiceId;
