//! When a call may be made.
//!
//! [`Gate`] gives permits, one an attempt, when the controller says so: at the pace that the service is found to bear,
//! never during a pause, one at a time while the service is down, none once the run is stopping. [`RetryPolicy`] says whether and when a row is tried again, [`GiveUpPolicy`] when the run must stop. Nothing here knows
//! HTTP or rows; everything is arithmetic over time and outcomes and runs on tokio's clock, so tests can pause it.

mod breaker;
mod budget;
mod controller;
mod gate;
mod give_up;
mod latency;
mod levels;
mod limit_search;
mod limiter;
mod pause;
mod quota_hint;
mod random_refusals;
mod retry;
mod row_refusals;
#[cfg(test)]
mod simulator;
mod throughput;
mod types;
mod window;

pub use budget::FailureBudget;
pub(crate) use budget::{CallBudget, FailureLimit};
pub use gate::Gate;
pub(crate) use gate::{Closed, FreshRows, Permit, Undurable};
pub use give_up::GiveUpAfter;
pub(crate) use give_up::{GiveUpPolicy, Reaction, Speaker, Trouble};
pub use limiter::Rate;
pub(crate) use retry::{Attempts, FailedAttempt, Resends, RetryPolicy};
pub(crate) use row_refusals::RowRefusals;
pub use types::{Allowance, PaceLimits};
pub(crate) use types::{CallOutcome, PaceEvent};
