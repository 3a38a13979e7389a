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

pub use budget::FailureBudget;
pub(crate) use budget::{CallBudget, FailureLimit};
pub use calls::{Allowance, Bounds};
pub(crate) use calls::{Change, Ended};
pub use fuse::GiveUpAfter;
pub(crate) use fuse::{Fuse, Reaction, Speaker, Trouble};
pub use gate::Gate;
pub(crate) use gate::{Closed, Newcomers, Permit, Unsettled};
pub use limiter::Rate;
pub(crate) use retry::{Attempts, Failed, Resends, RetryPolicy};
pub(crate) use row_refusals::RowRefusals;
