//! Refusals that come at any pace: some services and load balancers refuse a call now and then, whatever is sent.
//!
//! A cut of the pace is a hypothesis: fewer refusals at a slower pace. Refusals at a pace that the service has shown it can
//! sustain speak against it. If they continue at ever lower paces, their share is random: the cuts are taken back, and from
//! then on only refusals beyond that share say something about the pace.

mod comparison;
mod detection;
mod in_order;
mod rows;
mod share;
mod unexplained;

pub(super) use detection::{RandomRefusals, Shown};
pub(super) use in_order::FirstTryOutcome;
