//! How one row gets its verdict: permit, call, classification, back-off, and again.
//!
//! This is the only place where calls are made. It knows nothing of files, order or the window. It emits events and
//! leaves decisions to its parts: `pace` says when a call may start, `service` says what its outcome means.
//!
//! [`Scorer`] has three parts: the [`Caller`] makes the calls, the [`Policies`] say what follows a failure, and the
//! [`Recorder`] makes answers durable and reports. Each part is plain data with `&mut` methods behind one `RefCell` at
//! most; no borrow is held across an `await`.

mod abort;
mod api_key;
mod attempt;
mod caller;
#[cfg(test)]
mod fixture;
mod missing_fields;
mod outage;
mod outcome;
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
pub use policies::Patience;
pub(crate) use policies::Policies;
pub(crate) use recorder::Recorder;
pub(crate) use row_call::RowCall;
