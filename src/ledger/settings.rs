//! The settings with which a run opens a ledger.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use super::location::LedgerLocation;
use crate::raw_json::Pointer;

/// Which answers of earlier runs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// All of them.
    All,
    /// Those that are younger than this by the wall clock.
    Younger(Duration),
    /// None. In the run's own ledger its first answer replaces them all; in a shared one new answers replace old ones.
    Nothing,
    /// Those that a finished run used, and its own: only rows that failed are asked about again.
    Retry,
}

/// What a ledger must know of the run that opens it.
#[derive(Debug, Clone)]
pub struct LedgerSettings {
    /// Where the ledger is.
    pub location: LedgerLocation,
    /// Which answers are used.
    pub reuse: Reuse,
    /// What the run writes. By its path a stopped run is recognised. `None` is standard output.
    pub output: Option<PathBuf>,
    /// The service's address.
    pub endpoint: String,
    /// The calling application's ID.
    pub service_id: String,
    /// The additional answer fields that the run needs.
    pub captured: Vec<Pointer>,
    /// How many calls can be in flight: answers arrive in groups of about that size.
    pub in_flight: NonZeroUsize,
}
