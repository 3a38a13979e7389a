//! The engine: takes rows from the reader, gets each one its verdict, and hands them to the writer in their order.
//!
//! It runs on the one thread that makes calls, and knows neither formats nor HTTP. A row waits in the window of [`rows`], where
//! equal requests wait for each other; its request is claimed in the ledger; a [`call`] is made once the pace has a permit for
//! it; what follows is decided in [`after_call`]; and an answer is durable before the row counts as done. The [`dispatcher`]
//! is the loop that waits for what happens next.

mod after_call;
mod call;
mod checks;
mod deadline;
mod dispatcher;
#[cfg(test)]
mod fixture;
mod rows;
mod state;
mod stop;
#[cfg(test)]
mod tests;

pub(crate) use deadline::{Deadline, TimeOfDay};
pub(crate) use dispatcher::{Read, Write, run};
#[cfg(test)]
pub(crate) use fixture::{Fixture, directory, ledger};
pub(crate) use rows::WindowSize;
pub(crate) use state::{AnswerRules, Engine, StopRules};
pub(crate) use stop::{Stop, input_reason};
