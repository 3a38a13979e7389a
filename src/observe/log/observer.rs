//! Picks from the events what is logged.
//!
//! It is called under a lock for every event of a run, so it only makes a small value and puts it into the queue.

use std::sync::Arc;
use std::time::Duration;

use super::level::LogLevel;
use super::line::{AttemptEnd, LogLine};
use super::queue::LogQueue;
use crate::telemetry::event::{CallEnd, Event, FailureClass};
use crate::telemetry::hub::Observer;
use crate::telemetry::pace::PaceCause;
use crate::telemetry::stats::Stats;

/// Puts what happens into the queue of the log.
pub(crate) struct LogObserver {
    queue: LogQueue,
    level: LogLevel,
    /// The names of the inputs in their order, where there are several.
    files: Vec<Arc<str>>,
}

impl LogObserver {
    pub(super) const fn new(queue: LogQueue, level: LogLevel, files: Vec<Arc<str>>) -> Self {
        Self {
            queue,
            level,
            files,
        }
    }

    /// The input with this number, counted from 1.
    fn input(&self, file: u64) -> Option<Arc<str>> {
        let index = usize::try_from(file).ok()?.checked_sub(1)?;
        self.files.get(index).cloned()
    }
}

impl Observer for LogObserver {
    fn observe(&mut self, _: Duration, event: &Event, stats: &Stats) {
        if self.level == LogLevel::Debug
            && let Some(line) = frequent(event)
        {
            self.queue.push(line);
        }
        if let Event::FileStarted { file, .. } = event
            && let Some(input) = self.input(*file)
        {
            self.queue
                .push(LogLine::InputStarted { file: *file, input });
        }
        if let Some(line) = rare(event, stats) {
            self.queue.push(line);
        }
    }
}

/// What can happen with every call. At any other level than debug it is not even made.
fn frequent(event: &Event) -> Option<LogLine> {
    let (call, outcome) = match event {
        Event::AttemptAnswered(call) => (call, "answered"),
        Event::AttemptFailed { call, .. } => (call, "failed"),
        Event::Throttled { call, .. } => (call, "throttled"),
        Event::AttemptAbandoned { row, attempt } => {
            return Some(LogLine::Attempt(AttemptEnd {
                row: *row,
                attempt: *attempt,
                outcome: "abandoned",
                class: Some(FailureClass::OutcomeUnknown),
                reason: None,
                status: None,
                latency: None,
                next: None,
            }));
        }
        // Each answer may say something else.
        Event::PaceChanged(change) if change.cause == PaceCause::Headers => {
            return Some(LogLine::PaceChanged(*change));
        }
        _ => return None,
    };
    let (class, reason, next) = match event {
        Event::AttemptFailed {
            reason,
            class,
            next,
            ..
        } => (Some(*class), Some(*reason), Some(*next)),
        Event::Throttled { next, .. } => (Some(FailureClass::NotProcessed), None, Some(*next)),
        _ => (None, None, None),
    };
    let CallEnd {
        row,
        attempt,
        status,
        latency,
    } = *call;
    Some(LogLine::Attempt(AttemptEnd {
        row,
        attempt,
        outcome,
        class,
        reason,
        status,
        latency: Some(latency),
        next,
    }))
}

/// What happens now and then. The warnings of a run are not from here: they come from where people read them.
fn rare(event: &Event, stats: &Stats) -> Option<LogLine> {
    Some(match event {
        Event::InputEnded(end) => LogLine::InputEnded {
            rows: stats.read,
            bytes: stats.position,
            end: *end,
        },
        Event::CallsPaused(pause) => LogLine::Paused(*pause),
        Event::PaceChanged(change) if change.cause != PaceCause::Headers => {
            LogLine::PaceChanged(*change)
        }
        // Only once for each outage; later tries are attempts.
        Event::ServiceDown { lasted, next, .. } if lasted.is_zero() => LogLine::ServiceDown(*next),
        Event::ServiceUp { lasted } => LogLine::ServiceUp(*lasted),
        Event::OutageDismissed { lasted } => LogLine::OutageDismissed(*lasted),
        Event::KeyRenewed => LogLine::KeyRenewed,
        Event::AnswerLost(row) => LogLine::AnswerLost(*row),
        Event::CancelBegan(reason) => LogLine::Stopping(*reason),
        Event::DrainBegan { reason, longest } => LogLine::Draining {
            reason: *reason,
            in_flight: stats.in_flight,
            longest: *longest,
        },
        _ => return None,
    })
}
