//! The dispatcher: admits rows into a bounded window, has each one scored, and hands finished rows on in order.
//!
//! Rows come from the reader's thread in batches and go to the writer's thread in batches; this runs on the one thread
//! that makes calls. It knows neither formats nor HTTP.
//!
//! A row is a `ReadRow` when it comes from the input, a [`PendingRow`] in here, and a `DoneRow` on its way to the output.
//! The [`Dispatcher`](dispatcher::Dispatcher) is state whose handlers never wait. The loop in [`run()`] waits for what
//! happens next, a [`Wake`](wake::Wake), and has the dispatcher handle it.

mod claim_wake;
mod claiming;
mod claims;
mod dispatcher;
mod drain;
mod hand_over;
mod interests;
mod messages;
mod pending_row;
mod rows;
mod run;
#[cfg(test)]
mod tests;
mod wake;
mod window;

pub(crate) use crate::scorer::Stop;
pub(crate) use messages::{Channels, Read, Write};
pub(crate) use pending_row::{PendingRow, Request};
pub(crate) use run::run;
pub(crate) use window::WindowSize;
