//! What decides when calls start, and what passes between it and the simulation.

use std::time::Duration;

use crate::pace::types::{Call, CallOutcome, Try};
use crate::telemetry::pace::Limit;

/// Decides when calls start.
pub(super) trait Pacer {
    fn ask(&mut self, now: Duration) -> Answer;

    /// A call ended. `tried` says which try of its row it was; `fraction` is random. Returns how long the row waits if only
    /// the row does.
    fn ended(
        &mut self,
        now: Duration,
        ticket: Ticket,
        how: CallOutcome,
        tried: Try,
        fraction: f64,
    ) -> Option<Duration>;

    /// The limit that was found.
    fn limit(&self) -> Limit {
        Limit::NONE
    }
}

/// Whether a call may start.
pub(super) enum Answer {
    Go(Ticket),
    /// It may ask again then.
    At(Duration),
    /// It may ask again when another call has ended.
    AfterAnother,
}

/// A call that is out.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    pub(super) began: Duration,
    /// The call as our controller knows it.
    pub(super) call: Option<Call>,
}
