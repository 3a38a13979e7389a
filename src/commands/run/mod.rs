//! `rescore run`: files of users in, the same files with verdicts out.
//!
//! [`execute()`] runs four phases. [`prepare`] opens and checks everything, [`announce`] says what is about to happen,
//! [`drive`] lets rows run until the end or a stop, and [`finish`] says how it went. The reader and the writer have
//! threads of their own; calls, timers and the dispatcher share the thread that called.
//!
//! A run is a list of parts, an input and its output each; one file is a list of one. Its files are [`checked_files`], then
//! [`open_files`], then [`ended_files`].

mod announce;
mod checked_files;
mod disk_space;
mod drive;
mod ended_files;
mod execute;
mod finish;
mod ledger;
mod log;
mod open_files;
mod part;
mod prepare;
mod rows;
mod service;
mod signals;
mod threads;

#[cfg(test)]
mod tests;

pub(crate) use execute::{execute, leave_failure};
