//! What the dispatcher waits for.

use tokio::time::Instant;

use crate::ledger::WorkerNumber;

/// What is waited for. Nothing else happens next, except for a stop, which is always waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interests {
    /// Whether a row is being scored and may be done.
    pub(super) row_done: bool,
    /// Whether there is room for more rows.
    pub(super) read: bool,
    /// Whether the time for calls in flight to finish is running.
    pub(super) drain_end: bool,
    /// What the next row needs to start.
    pub(super) start: StartNeeds,
    /// What finished rows need to be written.
    pub(super) write: WriteNeeds,
    /// What claims wait for; `None` where no other run writes to the ledger.
    pub(super) claims: Option<ClaimNeeds>,
}

/// What rows wait for whose requests must be claimed before their calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClaimNeeds {
    /// Whether requests are being claimed.
    pub(super) batch: bool,
    /// When to ask again about requests that another run calls for.
    pub(super) ask_again: Option<Instant>,
    /// The worker whose lease must be renewed first.
    pub(super) renewal: Option<WorkerNumber>,
}

/// What the next row that needs a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartNeeds {
    /// There is no such row.
    NoRow,
    /// Calls that were started must be sent first.
    CallsSent,
    /// A permit.
    Permit,
    /// The canary's verdict, or that another row may show more.
    Canary,
}

/// What finished rows wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteNeeds {
    /// There are none, or the writer is gone.
    NoRow,
    /// More rows, though not for long.
    More,
    /// The writer.
    Writer,
}
