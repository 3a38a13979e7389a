//! One worker of a shared pace: when it may start a call, and what it asks the row and tells it.
//!
//! Pure arithmetic over time and outcomes, as the controller is. Times are since the run started; the row's clock is
//! another one.

mod admission;
mod asking;
mod outcome;
mod state;

pub(in crate::pace) use state::Member;
