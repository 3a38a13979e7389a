//! `rescore run`: files of users in, the same files with verdicts out.
//!
//! [`execute()`] takes a run through three values, each of which consumes the one before: its [`plan`], what is [`open`] for it, and
//! the [`running`] rows. Then it can [`finish`].

mod count;
mod execute;
mod finish;
mod open;
mod plan;
mod running;
mod unknown_verdicts;

#[cfg(test)]
mod tests;

pub(super) use count::{CountedFile, Counting, FirstCount, calls_left, ledger_notices, paid_in};
pub(crate) use execute::execute;
pub(super) use plan::{PartState, RunParts};
