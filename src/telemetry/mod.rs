//! What happened in a run: the stages emit events, the hub folds them into statistics and hands them to the observers.
//!
//! Nothing here prints. The exit code and the summary come from the statistics alone.

pub(crate) mod event;
pub(crate) mod hub;
pub(crate) mod stats;
mod timeline;
