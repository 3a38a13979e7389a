//! What can be logged: one variant for each event in the table of the reference.

use std::sync::Arc;
use std::time::Duration;

use super::end::RunEnded;
use super::start::{InputOpened, RunLimits, RunStarted};
use crate::row::RowNumber;
use crate::telemetry::event::{CancelReason, FailureClass, InputEnd, Next};
use crate::telemetry::pace::{PaceChange, Pause};
use crate::verdict::Reason;

/// A line of the log, before it is text.
#[derive(Debug)]
pub(crate) enum LogLine {
    /// The run starts.
    RunStarted(Box<RunStarted>),
    /// The user's limits for the run that starts.
    RunLimits(Box<RunLimits>),
    /// An input was opened.
    InputOpened(Box<InputOpened>),
    /// The rows of one of several inputs come now.
    InputStarted {
        /// Its number, from 1.
        file: u64,
        /// Its name.
        input: Arc<str>,
    },
    /// No more rows will come.
    InputEnded {
        /// Rows that were read.
        rows: u64,
        /// Bytes that were read.
        bytes: u64,
        /// What was read.
        end: InputEnd,
    },
    /// A call ended.
    Attempt(AttemptEnd),
    /// All calls pause.
    Paused(Pause),
    /// The pace has changed.
    PaceChanged(PaceChange),
    /// The service is down: time until the next try.
    ServiceDown(Duration),
    /// The service is back, after this long.
    ServiceUp(Duration),
    /// The service was not down after all, though it was taken to be for this long.
    OutageDismissed(Duration),
    /// Another API key was read from its file.
    KeyRenewed,
    /// A paid answer may not be on disk.
    AnswerLost(RowNumber),
    /// What people are warned of.
    Warning(String),
    /// The run stops early.
    Stopping(CancelReason),
    /// Calls in flight get time to finish.
    Draining {
        /// Why.
        reason: CancelReason,
        /// How many.
        in_flight: u64,
        /// How much time.
        longest: Duration,
    },
    /// A second signal ends the run, whatever is in flight.
    StoppedImmediately(CancelReason),
    /// What ended the run, or kept it from starting, in the words that people see.
    Error(String),
    /// The run has ended.
    RunEnded(Box<RunEnded>),
    /// The file was opened again.
    LogReopened,
    /// So many lines before this one could not be written.
    LinesLost(u64),
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct AttemptEnd {
    pub(super) row: RowNumber,
    pub(super) attempt: u32,
    /// `answered`, `throttled`, `failed` or `abandoned`.
    pub(super) outcome: &'static str,
    /// `None` if it was answered.
    pub(super) class: Option<FailureClass>,
    /// Why it failed.
    pub(super) reason: Option<Reason>,
    pub(super) status: Option<u16>,
    pub(super) latency: Option<Duration>,
    /// What follows; `None` where nothing does.
    pub(super) next: Option<Next>,
}
