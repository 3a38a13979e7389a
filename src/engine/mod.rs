//! The engine: takes rows from the reader, gets each one its verdict, and hands them to the writer in their order.
//!
//! It runs on the one thread that makes calls, and knows neither formats nor HTTP. A row waits in the [`window`], where equal
//! requests wait for each other; its request is claimed in the ledger ([`claims`]); a [`call`] is made once the pace has a permit
//! for it; what follows is decided in [`settle`]; and an answer is durable before the row counts as done. The [`dispatcher`]
//! is state whose handlers never wait, and the loop in [`run`](mod@run) waits for what happens next.

mod api_key;
mod call;
mod checks;
mod claims;
mod dispatcher;
#[cfg(test)]
mod fixture;
mod messages;
mod outage;
mod parts;
mod row_call;
mod rows;
mod run;
mod settle;
mod stop;
#[cfg(test)]
mod tests;
mod window;

#[cfg(test)]
pub(crate) use fixture::Fixture;
pub(crate) use messages::{Channels, Read, Write};
pub(crate) use parts::{Engine, Limits};
pub(crate) use run::run;
pub(crate) use stop::Stop;
pub(crate) use window::{PendingRow, Request, WindowSize};
