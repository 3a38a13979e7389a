//! When a call may be made.
//!
//! [`Gate`] gives permits: one an attempt, at the allowed rate, never during a pause, none once the run is stopping.
//! [`RetryPolicy`] says whether and when a row is tried again, [`Fuse`] when the run must stop. Nothing here knows
//! HTTP or rows; everything is arithmetic over time and outcomes and runs on tokio's clock, so tests can pause it.

mod budget;
mod fuse;
mod gate;
mod limiter;
mod retry;

pub use budget::{CallBudget, FailureBudget, FailureLimit};
pub use fuse::{Fuse, Trouble};
pub use gate::{Closed, Gate, Permit, Unsettled};
pub use limiter::Rate;
pub use retry::{Attempts, Failed, Resends, RetryPolicy};
