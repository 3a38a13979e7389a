//! What the dispatcher waits for.

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
    /// The canary's verdict, or the service being taken to be down.
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
