//! Who decides when calls begin, and what they and the simulation say to each other.

use std::time::Duration;

use crate::pace::Ended;
use crate::pace::calls::{Call, Try};
use crate::telemetry::event::Limit;

/// Somebody who decides when calls begin.
pub(super) trait Pacer {
    fn ask(&mut self, now: Duration) -> Answer;

    /// A call ended. `tried` says which try of its row it was, `fraction` is random. Returns how long the
    /// row waits if the pacer chose a time of its own.
    fn ended(
        &mut self,
        now: Duration,
        ticket: Ticket,
        how: Ended,
        tried: Try,
        fraction: f64,
    ) -> Option<Duration>;

    /// What it has found.
    fn limit(&self) -> Limit {
        Limit::NONE
    }
}

/// Whether a call may begin.
pub(super) enum Answer {
    Go(Ticket),
    /// Not before then.
    At(Duration),
    /// When another one has ended.
    AfterAnother,
}

/// A call that is out.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    pub(super) began: Duration,
    /// What our controller wants back.
    pub(super) call: Option<Call>,
}
