//! What happened in a run: the stages emit events, which are counted and shown to the observers.
//!
//! Nothing here prints. The exit code and the summary come from the counts alone.

pub(crate) mod counts;
pub(crate) mod event;
pub(crate) mod pace;
