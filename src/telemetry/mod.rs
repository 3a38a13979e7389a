//! What happened in a run: the stages emit events; the hub has them counted and passes them to the observers.
//!
//! Nothing here prints. The exit code and the summary come from the counts alone.

pub(crate) mod counts;
pub(crate) mod event;
pub(crate) mod hub;
pub(crate) mod pace;
