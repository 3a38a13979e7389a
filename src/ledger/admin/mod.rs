//! Looking after a ledger by hand: showing what is in it, and removing answers so that nothing of them stays in the files.

mod eraser;
mod forget;
mod prune;
mod stats;
#[cfg(test)]
mod tests;

pub(crate) use eraser::{CleanupResult, Eraser};
pub(crate) use forget::{Forget, ForgetCounts};
pub(crate) use prune::prune;
pub use stats::read_stats;
