//! A run over several files, each to a file of its name in a directory (`--output-dir`).
//!
//! Before the first call, [`check`] opens each of them once, and [`plan`] decides what is to be done with each. Then
//! [`each`] lets their rows run, one file after the other.

mod check;
mod each;
mod ended;
mod plan;

pub(super) use check::{CheckedParts, PartsPlace};
pub(super) use each::run_each;
pub(super) use ended::PartsEnd;
pub(super) use plan::PlannedParts;
