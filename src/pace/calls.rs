//! What the controller and those who call say to each other: when a call may begin, how it ended, what that changed.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::limiter::Rate;
use crate::telemetry::event::{Limit, Pause};

/// What a user allows, and where to start.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Calls a second at most.
    pub rate: Rate,
    /// Calls in flight at most.
    pub in_flight: NonZeroUsize,
    /// The limit that an earlier run found. Above what the user allows it is of no use.
    pub known: Limit,
    /// How long a service that is down is waited for.
    pub outage: Duration,
}

/// How a call ended, as far as the pace is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The service did its work, whatever it said.
    Answered,
    /// It asks for less, perhaps with a time.
    Throttled(Option<Duration>),
    /// It is there, and failed.
    Failed,
    /// It could not be reached, or what stands before it says that it is away.
    Unwell,
    /// No answer in time.
    TimedOut,
    /// It was given up, and says nothing.
    Abandoned,
}

/// What an answer's headers say is left of the service's quota. It can slow calls down, never speed them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Calls that are left …
    pub calls: u64,
    /// … for this long.
    pub lasts: Duration,
}

/// Which try of its row a call was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Try {
    /// The row had not been refused before.
    First,
    /// It had been.
    Again,
    /// It was refused again, while others were accepted in between.
    AgainAlone,
}

/// A call that is out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) began: Duration,
    /// The how many-th of the run it is.
    pub(super) number: u64,
    /// The how many-th in flight it was.
    pub(super) level: u32,
    /// Whether it finds out if the service is back.
    pub(super) probe: bool,
}

/// Whether a call may begin.
#[derive(Debug, Clone, Copy)]
pub(super) enum Turn {
    /// Now, as this one.
    Go(Call),
    /// Not before then.
    At(Duration),
    /// When another one has ended.
    AfterAnother,
}

/// What the end of a call changed for everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// All pause.
    Paused(Pause),
    /// Only the refused row waits, at least so long: its refusal says nothing of the pace.
    RowWaits(Duration),
    /// The service is taken to be down; the next single call is in so long.
    Down {
        /// For how long it has been.
        lasted: Duration,
        /// The wait.
        next: Duration,
    },
    /// It is back.
    Up {
        /// How long it was down.
        lasted: Duration,
    },
}
