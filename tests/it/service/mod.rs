//! The service: its address, its network, its answers.

mod addresses;
mod answers;
mod connecting;
mod echoes;
mod first_tries;
mod hostile;
mod http2;
mod key;
mod network;
mod proxies;
mod retry_after;
mod statuses;
mod tls;
mod tunnels;
