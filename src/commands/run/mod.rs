//! `rescore run`: files of users in, the same files with verdicts out.
//!
//! [`execute()`] runs four phases. [`prepare`] opens and checks everything, [`announce`] says what is about to happen,
//! [`drive`] lets rows run until the end or a stop, and [`finish`] says how it went. The reader and the writer have
//! threads of their own; calls, timers and the dispatcher share the thread that called.
//!
//! A run is a list of parts, an input and its output each; one file is a list of one: see [`files`].

mod announce;
mod drive;
mod execute;
mod files;
mod finish;
mod ledger;
mod lost_ledger;
mod prepare;
mod threads;

#[cfg(test)]
mod tests;

pub(crate) use execute::{execute, leave_failure};
pub(super) use files::{Files, RunPart, Turn};
pub(super) use finish::in_a_line;
pub(super) use ledger::ledger_account;
pub(super) use threads::look_up;
