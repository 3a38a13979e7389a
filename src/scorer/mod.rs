//! How one row gets its verdict: permit, call, classification, back-off, and again.
//!
//! This is the only place where calls are made. It knows nothing of files, order or the window. It emits events and
//! leaves decisions to its parts: `pace` says when a call may start, `service` says what its outcome means.
//!
//! The [`Scorer`] has three parts: the [`Caller`] makes calls, the [`Policies`] say what follows a failure, and the
//! [`RowRecorder`] makes answers durable and emits events. What changes in them is plain data behind a `RefCell`, which is
//! never borrowed across an `await`.
//!
//! A row goes round in `score`: `attempt` makes one call, `settle` decides without waiting what follows it.

mod abort;
mod api_key;
mod attempt;
mod caller;
mod claims;
#[cfg(test)]
mod fixture;
mod missing_fields;
mod outage;
mod outcome;
mod paid_answer;
mod parts;
mod policies;
mod queries;
mod recorder;
mod row_call;
mod score;
mod settle;
mod stop_reasons;
#[cfg(test)]
mod tests;
mod transactions;

pub(crate) use caller::Caller;
#[cfg(test)]
pub(crate) use fixture::Fixture;
pub(crate) use outage::Outage;
pub(crate) use outcome::{RowOutcome, Stop};
pub(crate) use parts::Scorer;
pub(crate) use policies::{Patience, Policies};
pub(crate) use recorder::RowRecorder;
pub(crate) use row_call::{Claim, RowCall};
