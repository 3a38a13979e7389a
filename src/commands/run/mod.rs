//! `rescore run`: a file of users in, the same file with verdicts out.
//!
//! [`execute`] runs four phases. [`prepare`] opens and checks everything, [`announce`] says what is about to happen,
//! [`drive`] lets rows run until the end or a stop, and [`report`] says how it went. The reader and the writer have
//! threads of their own; calls, timers and the dispatcher share the thread that called.

mod announce;
mod bodies;
mod disk_space;
mod drive;
mod failure;
mod fd_limit;
mod file;
mod file_driver;
mod identity;
mod last_words;
mod ledger;
mod left_files;
mod log;
mod metrics;
mod output_files;
mod page;
mod parts;
mod phases;
mod prepare;
mod report;
mod rows;
mod run_files;
mod run_wide_files;
mod service;
mod stdout_reader;
mod stop_signals;
mod threads;
mod unfinished_files;

#[cfg(test)]
mod tests;

pub(crate) use failure::leave_failure;
pub(crate) use phases::execute;
