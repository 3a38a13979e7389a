//! The service's interface: the request, the answer, and what every outcome of a call means.
//!
//! A request's body comes in, a [`Classified`] outcome comes out. Only `http` names the HTTP library. Everything that makes
//! decisions works on plain data and is tested with it. Nothing here knows about rows, files or pacing.

mod answer;
mod api_key_file;
mod classify;
mod endpoint;
mod exchange;
mod http;
mod proxy;
mod quota;
mod request;
#[cfg(test)]
pub(crate) mod scripted;
mod words;

pub(crate) use answer::read_kept;
pub(crate) use api_key_file::{KeyFile, check_key, unusable_key};
pub(crate) use classify::{Class, Fault, Health};
pub use classify::{Classified, classify};
pub use endpoint::Plan;
pub(crate) use endpoint::{Account, Endpoint, SANDBOX_ID, ServiceId};
pub use exchange::{ApiKeys, Reply, SentRequest};
pub(crate) use exchange::{Exchange, KeyRenewal, Service};
pub(crate) use http::{Client, ClientSettings};
pub(crate) use proxy::{check_proxies, proxy_for};
pub use quota::Quota;
pub use request::write_body;
