//! The outcome of a row, and the reason to stop a run.

use crate::base::error::{Error, Exit};
use crate::row::RowNumber;
use crate::telemetry::event::CancelReason;
use crate::verdict::Verdict;

/// A reason to stop the run early.
#[derive(Debug)]
pub(crate) struct Stop {
    /// The reason in a word.
    pub(crate) reason: CancelReason,
    /// The reason in full; `None` where the word says it all.
    pub(crate) error: Option<Error>,
}

impl Stop {
    /// A stop that is explained by an error.
    #[must_use]
    pub(crate) const fn new(reason: CancelReason, error: Error) -> Self {
        Self {
            reason,
            error: Some(error),
        }
    }

    /// The stop for an input that cannot be read any further.
    #[must_use]
    pub(crate) fn of_input(error: Error) -> Self {
        let reason = match error.exit() {
            Exit::Stopped => CancelReason::InputChanged,
            _ => CancelReason::Input,
        };
        Self::new(reason, error)
    }

    /// The stop for a result that could not be made durable.
    #[must_use]
    pub(super) fn of_ledger(error: Error) -> Self {
        let reason = match error.exit() {
            Exit::Internal => CancelReason::Internal,
            _ => CancelReason::Ledger,
        };
        Self::new(reason, error)
    }

    /// The stop for a writer that ended without giving a reason.
    #[must_use]
    pub(crate) fn writer_ended() -> Self {
        Self::internal("the writer's thread ended unexpectedly")
    }

    /// The stop for a bug of this program.
    #[must_use]
    pub(crate) fn internal(what: &str) -> Self {
        Self::new(CancelReason::Internal, Error::internal(what))
    }
}

/// The outcome of a row.
#[derive(Debug)]
pub(crate) struct RowOutcome {
    /// The row.
    pub(crate) row: RowNumber,
    /// Its verdict; `None` when it is left for a later run.
    pub(crate) verdict: Option<Verdict>,
    /// The run must stop, for this reason.
    pub(crate) stop: Option<Stop>,
}

impl RowOutcome {
    /// The row is left for a later run.
    pub(super) const fn left(row: RowNumber) -> Self {
        Self {
            row,
            verdict: None,
            stop: None,
        }
    }

    /// The row has its verdict.
    pub(super) const fn verdict(row: RowNumber, verdict: Verdict) -> Self {
        Self {
            row,
            verdict: Some(verdict),
            stop: None,
        }
    }

    /// The row is left, and the run must stop.
    pub(super) const fn stopped(row: RowNumber, stop: Stop) -> Self {
        Self {
            row,
            verdict: None,
            stop: Some(stop),
        }
    }

    /// The row has its verdict if that is durable; otherwise the run must stop. It may have to stop for another reason.
    pub(super) fn of_kept(
        row: RowNumber,
        kept: Result<Verdict, Error>,
        stop: Option<Stop>,
    ) -> Self {
        match (kept, stop) {
            (Ok(verdict), stop) => Self {
                stop,
                ..Self::verdict(row, verdict)
            },
            (Err(error), None) => Self::stopped(row, Stop::of_ledger(error)),
            (Err(_), Some(stop)) => Self::stopped(row, stop),
        }
    }
}
