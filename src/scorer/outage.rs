//! Whether it is the service that is down, when all that is left to ask are rows that have failed before.
//!
//! A file may end with rows over which the service always fails, and a run that goes on asks nothing but those. They look
//! like an outage; but nobody should wait for its end, and then be told to come back.

use std::cell::Cell;
use std::time::Duration;

/// What was seen of the outage that is on.
#[derive(Debug, Default)]
pub struct Outage {
    shown: Cell<bool>,
}

impl Outage {
    /// A call failed after the service has been down for so long; `news`: by a row that had not failed before, or in a way
    /// that is no row's doing. Returns for how long the service itself is known to be down.
    pub(super) fn went_on(&self, lasted: Duration, news: bool) -> Duration {
        // What made it seem down counts as little as what repeats it.
        let shown = !lasted.is_zero() && (news || self.shown.get());
        self.shown.set(shown);
        if shown { lasted } else { Duration::ZERO }
    }
}
