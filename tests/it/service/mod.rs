//! The service: its address, its network, its answers.

mod addresses;
mod answers;
mod connecting;
mod echoes;
pub(crate) mod hostile;
mod http2;
mod key;
mod network;
mod retry_after;
mod statuses;
mod tls;
