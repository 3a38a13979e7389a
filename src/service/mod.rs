//! The service's interface: the request, the answer, and what every result of a call means.
//!
//! A request's body comes in, a [`Classified`] result comes out. Only `client` and `network_fault` name the HTTP client. All
//! decisions are made on plain data, and tested with it. Nothing here knows about rows, files or pacing.

mod answer;
mod api_key;
mod classify;
mod client;
mod endpoint;
mod network_fault;
mod quota;
#[cfg(test)]
pub(crate) mod scripted;
mod words;

pub(crate) use answer::read_kept;
pub use api_key::ApiKeys;
pub(crate) use api_key::{KeyFile, KeySource, check_key, unusable_key};
pub use classify::{Classified, classify};
pub(crate) use classify::{Fault, Health};
pub(crate) use client::{Client, ClientSettings, Exchange, Service};
pub use client::{Reply, SentRequest, write_body};
pub use endpoint::Plan;
pub(crate) use endpoint::{Account, Endpoint, SANDBOX_ID, ServiceId, check_proxies, proxy_for};
pub use quota::Quota;
