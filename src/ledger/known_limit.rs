//! The load that a service was found to accept, with the time, as ledgers keep it. How it is stored is up to each store.

use std::time::SystemTime;

use crate::telemetry::pace::Limit;

/// A limit that an earlier run found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KnownLimit {
    /// The limit.
    pub(crate) limit: Limit,
    /// When the service last showed it.
    pub(crate) found: SystemTime,
}
