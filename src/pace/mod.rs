//! When a call may be made, whether a failed one is made again, and when the run must stop.
//!
//! - [`Gate`] gives a permit for each attempt: at the pace that the service can take, never during a pause, one at a time
//!   while the service is down, and none once the run is stopping. `docs/pacing.md` describes how the pace is found.
//! - [`RetryPolicy`] says whether and when a row is tried again.
//! - [`GiveUpPolicy`] and [`FailureBudget`] say when the run must stop.
//!
//! Nothing here knows HTTP or the content of rows. It is arithmetic over time and outcomes on tokio's clock, which tests can
//! pause.

mod controller;
mod failure_budget;
mod gate;
mod give_up;
mod limiter;
mod noise;
mod pause;
mod retry;
mod search;
mod shared;
#[cfg(test)]
pub(crate) mod simulator;
mod tally;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub(crate) use failure_budget::FailureBudget;
pub use gate::Gate;
pub(crate) use gate::{Closed, FreshRows, PacePlace, Permit, Undurable};
pub(crate) use give_up::{AnsweredBy, GiveUpPolicy, Reaction, Trouble};
pub(crate) use retry::RowRefusals;
pub(crate) use retry::{Attempts, FailedAttempt, RetryPolicy};
pub(crate) use shared::{PaceAsk, PaceReply};
pub use types::Rate;
pub use types::{Allowance, PaceLimits};
pub(crate) use types::{CallSignal, PaceEvent};
