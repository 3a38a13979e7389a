//! The log of a run: JSON lines in a file, or on standard error, for those who ask later what happened.
//!
//! An observer puts what happens into a queue, and a thread of its own writes it, so that a disk or collector that hangs
//! never delays a call. It has row numbers and reason words, never a value of a row and no key.

mod encoder;
mod end;
mod level;
mod line;
mod observer;
mod queue;
mod run_log;
mod single;
mod sink;
mod start;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use end::RunEnded;
pub(crate) use level::LogLevel;
pub(crate) use line::LogLine;
pub(crate) use queue::LogQueue;
pub(crate) use run_log::RunLog;
pub(crate) use single::log_at_once;
pub(crate) use sink::LogSink;
pub(crate) use start::{DecidedBy, InputOpened, RunFiles, RunLimits, RunStarted};
pub(crate) use target::LogTarget;
