//! The service: its address, its network, its answers.

mod answers;
mod connecting;
mod hostile;
mod http2;
mod key;
mod network;
mod proxies;
mod retry_after;
