//! What happened in a run: the stages emit events; the hub folds them into statistics and passes them to the observers.
//!
//! Nothing here prints. The exit code and the summary come from the statistics alone.

pub(crate) mod accepted_failures;
pub(crate) mod decide_stats;
pub(crate) mod event;
pub(crate) mod hub;
mod latency;
pub(crate) mod pace;
pub(crate) mod row_counts;
pub(crate) mod stats;
mod timeline;
mod totals;
