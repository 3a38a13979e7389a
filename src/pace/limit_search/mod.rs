//! The search for how much of one thing the service can take: calls a second, or calls in flight.
//!
//! The value doubles until the service refuses (slow start). Then the gap between what it accepted and what it refused is
//! halved, and the value is held just below the limit, with a look past it from time to time. The search reads no clock
//! and knows no service: the time and the outcomes are passed in.

mod chance;
mod progress;
mod refusal;
mod search;
#[cfg(test)]
mod tests;

pub(super) use chance::BEYOND_CHANCE;
pub(super) use progress::{FEWEST_OF_A_STEP, QuietInterval};
pub(super) use refusal::{CUT, RefusalKind};
pub(super) use search::{LimitSearch, Quantity, WHILE_QUEUEING};
