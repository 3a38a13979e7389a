//! What passes between the controller and its callers: when a call may start, how it ended, and what that changed.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::rate::Rate;
use crate::telemetry::pace::{Limit, Pause};

/// What the user allows, and where to start.
#[derive(Debug, Clone, Copy)]
pub struct PaceLimits {
    /// The most calls a second.
    pub rate: Rate,
    /// The most calls in flight.
    pub in_flight: NonZeroUsize,
    /// The limit that an earlier run found. It is ignored where the user allows less.
    pub known: Limit,
    /// How long to wait for a service that accepts nothing, whether it refuses calls or is down.
    pub max_wait: Duration,
}

/// How a call ended, as far as it matters for the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// The service did its work, whatever it said.
    Answered,
    /// It asked for fewer calls, and perhaps named a time to wait.
    Throttled(Option<Duration>),
    /// A 503 without a time to come back: proxies answer so to calls beyond a limit, and also if the service is away.
    BusyOrAway,
    /// It answered with a failure.
    Failed,
    /// It could not be reached, or a proxy answered that it is away.
    Unavailable,
    /// There was no answer in time.
    TimedOut,
    /// The call was given up, and says nothing about the service.
    Abandoned,
}

/// What is left of the service's quota, as an answer's headers say. It can slow calls down, never speed them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Calls that are left.
    pub calls: u64,
    /// How long they must last.
    pub lasts: Duration,
}

/// Which try of its row a call was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Try {
    /// The row had not been refused before.
    First,
    /// The row had been refused before.
    Again,
    /// The row was refused again, and others were accepted in between: its refusals are about the row, and so was the last cut.
    FoundAlone,
    /// The row was refused again, which is about the row; the last cut may have another reason.
    AgainAlone,
}

impl Try {
    /// Whether a refusal is about the row.
    pub(super) const fn is_alone(self) -> bool {
        matches!(self, Self::FoundAlone | Self::AgainAlone)
    }
}

/// A call that is out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) began: Duration,
    /// Its number in the run, from 1.
    pub(super) number: u64,
    /// How many calls were in flight when it started, with it; where workers share a pace, those of all.
    pub(super) level: u32,
    /// When the pace had last been cut, in seconds: what a later cut was about says nothing about it.
    pub(super) cut_at: f64,
    /// Whether it finds out if a service that is down is back.
    pub(super) probe: bool,
}

/// Whether a call may start.
#[derive(Debug, Clone, Copy)]
pub(super) enum Admission {
    /// It starts now.
    Admitted(Call),
    /// It may ask again then.
    NotBefore(Duration),
    /// It may ask again when another call has ended.
    AfterAnother,
}

/// What the end of a call changed for all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaceEvent {
    /// All calls pause.
    Paused(Pause),
    /// Only the refused row waits, at least this long: its refusal says nothing about the pace.
    RowWaits(Duration),
    /// The service is taken to be down.
    Down {
        /// For how long it has been down.
        lasted: Duration,
        /// How long until the next single call.
        next: Duration,
    },
    /// The service is back.
    Up {
        /// For how long it was down.
        lasted: Duration,
    },
}
