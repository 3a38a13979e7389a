//! What the log says of a run that has ended: the numbers that a summary has, by the same names.

use std::time::Duration;

use crate::base::error::Exit;
use crate::telemetry::event::CancelReason;
use crate::telemetry::stats::Stats;

/// A run that has ended.
#[derive(Debug, Default)]
pub(crate) struct RunEnded {
    pub(super) exit_code: u8,
    pub(super) stopped: Option<&'static str>,
    pub(super) elapsed: Duration,
    pub(super) rows_read: u64,
    pub(super) rows_written: u64,
    pub(super) rows_left: u64,
    pub(super) approve: u64,
    pub(super) review: u64,
    pub(super) block: u64,
    pub(super) undecided: u64,
    pub(super) failed: u64,
    pub(super) known: u64,
    pub(super) duplicates: u64,
    pub(super) calls: u64,
    pub(super) answered: u64,
    pub(super) retries: u64,
    pub(super) throttled: u64,
    pub(super) unknown_outcome: u64,
    pub(super) maybe_billed_twice: u64,
    pub(super) lost: u64,
    pub(super) paused: Duration,
    pub(super) down: Duration,
}

impl RunEnded {
    /// The end of a run that could not start.
    #[must_use]
    pub(crate) fn not_started(exit: Exit) -> Self {
        Self {
            exit_code: exit.code(),
            stopped: Some("not_started"),
            ..Self::default()
        }
    }

    /// The end of a run with these numbers, after this time.
    #[must_use]
    pub(crate) fn of(stats: &Stats, elapsed: Duration, exit: Exit) -> Self {
        Self {
            exit_code: exit.code(),
            stopped: stats.cancelled.map(CancelReason::word),
            elapsed,
            rows_read: stats.read,
            rows_written: stats.written,
            rows_left: stats.read - stats.resolved(),
            approve: stats.approved,
            review: stats.reviewed,
            block: stats.blocked,
            undecided: stats.undecided,
            failed: stats.failures(),
            known: stats.known,
            duplicates: stats.duplicates,
            calls: stats.calls,
            answered: stats.answered,
            retries: stats.retries,
            throttled: stats.throttled,
            unknown_outcome: stats.unknown_outcome,
            maybe_billed_twice: stats.maybe_billed_twice(),
            lost: stats.lost,
            paused: stats.time_paused(elapsed),
            down: stats.time_down(elapsed),
        }
    }
}
