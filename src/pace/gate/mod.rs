//! The gate that every attempt passes.
//!
//! The controller decides when a call may start; here calls wait for that on tokio's clock, one after the other. The gate
//! also limits what a power cut can bill twice, and it lets no call through once the run stops. It runs on one thread.

mod permits;
#[cfg(test)]
mod tests;

pub use permits::Gate;
pub(crate) use permits::{Closed, FreshRows, Permit, Undurable};
