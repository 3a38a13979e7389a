//! The stand-in for the service: the same interface on this machine, with made-up scores.
//!
//! It is for first steps, rehearsals and tests. It plays the other side and shares no code with the client, so that a
//! mistake in one shows in the other. Its scores mean nothing, and its transaction ids start with `sandbox-`.

mod answer;
mod stand_in;

pub(crate) use answer::SandboxPlan;
pub(crate) use stand_in::{FaultKind, Faults, ID_PREFIX, RateLimit, parse_fault};
pub(crate) use stand_in::{Sandbox, SandboxSettings, listen, serve};
