//! When a call may be made, whether a failed one is made again, and when the run must stop.
//!
//! - [`Gate`] gives a permit for each call: at the pace that the service can take, never during a pause, one at a time
//!   while the service is down, and none once the run is stopping. `docs/pacing.md` describes how the pace is found.
//! - [`RetryPolicy`] says whether and when a row is tried again.
//! - [`GiveUpPolicy`] and [`failures_used_up`] say when the run must stop.
//!
//! Nothing here knows HTTP or the content of rows. It is arithmetic over time and signals on tokio's clock, which tests can
//! pause.

mod controller;
mod gate;
mod give_up;
mod noise;
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

pub use gate::Gate;
pub(crate) use gate::{Closed, FreshRows, PaceStore, Permit, Undurable};
pub(crate) use give_up::{GiveUpPolicy, Trouble, failures_used_up};
pub(crate) use retry::{Retries, RetryPolicy, RowRefusals};
pub(crate) use shared::{PaceAsk, PaceReply};
pub use types::{Allowance, PaceLimits, Rate};
pub(crate) use types::{CallSignal, PaceEvent};
