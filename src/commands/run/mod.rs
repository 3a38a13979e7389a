//! `rescore run`: files of users in, the same files with verdicts out.
//!
//! [`execute()`] runs four phases. [`prepare`] opens and checks everything, [`announce`] says what is about to happen,
//! [`drive`] lets rows run until the end or a stop, and [`finish`] says how it went. The reader and the writer have
//! threads of their own; calls, timers and the dispatcher share the thread that called.
//!
//! A run is a list of parts, an input and its output each; one file is a list of one: see [`files`].

mod announce;
mod before_paying;
mod drive;
mod execute;
mod files;
mod finish;
mod first_pass;
mod ledger;
mod prepare;
mod threads;

#[cfg(test)]
mod tests;

pub(super) use before_paying::{count, look_up_in};
pub(crate) use execute::execute;
pub(super) use files::{Files, PartState};
pub(super) use first_pass::{CountedFile, Counting, FirstCount, ledger_notices, paid_in};
