//! The stand-in for the service: the same interface on this machine, with made-up scores.
//!
//! It is for first steps, rehearsals and tests. It plays the other side and shares no code with the client, so that a
//! mistake in one shows in the other. Its scores mean nothing, and its transaction ids start with `sandbox-`.

mod check;
mod deadline;
mod faults;
mod score;
mod server;
mod settings;
mod thread;

pub(crate) use faults::{FaultKind, Faults, parse as parse_fault};
pub(crate) use server::{listen, serve};
pub(crate) use settings::{ID_PREFIX, SandboxPlan};
pub use settings::{RateLimit, SandboxSettings};
pub use thread::Sandbox;
