//! When a call may be made.
//!
//! [`Gate`] gives permits, one an attempt, when the controller says so: at the pace that the service is found to bear,
//! never during a pause, one at a time while the service is down, none once the run is stopping. [`RetryPolicy`] says whether and when a row is tried again, [`Fuse`] when the run must stop. Nothing here knows
//! HTTP or rows; everything is arithmetic over time and outcomes and runs on tokio's clock, so tests can pause it.

mod breaker;
mod budget;
mod calls;
mod controller;
mod fuse;
mod gate;
mod in_order;
mod latency;
mod levels;
mod limit_search;
mod limiter;
mod own_share;
mod pause;
mod quota_hint;
mod random_refusals;
mod retry;
mod row_refusals;
#[cfg(test)]
mod simulator;
mod throughput;
mod window;

pub use budget::{CallBudget, FailureBudget, FailureLimit};
pub use calls::{Allowance, Bounds, Change, Ended};
pub use fuse::{AT_START, Fuse, GiveUpAfter, Reaction, Speaker, Trouble, USELESS_LATER};
pub use gate::{Closed, Gate, Newcomers, Permit, Unsettled};
pub use limiter::Rate;
pub use retry::{Attempts, Failed, Resends, RetryPolicy};
pub use row_refusals::RowRefusals;
