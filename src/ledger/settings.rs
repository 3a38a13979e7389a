//! The settings with which a ledger is opened.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::location::LedgerLocation;
use crate::raw_json::Pointer;

/// Which answers of earlier runs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// All of them.
    All,
    /// All of them, also those of a finished run, which goes on: it has further inputs.
    Continue,
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
    /// How long a call can take.
    pub longest_call: Duration,
}

/// What must be known of the run to come to say what it would find in a ledger.
#[derive(Debug)]
pub(crate) struct PreviewSettings<'a> {
    /// The ledger, a shared one or a run's own.
    pub(crate) path: &'a Path,
    /// Who would be asked; `None` is the only account that the ledger has answers of.
    pub(crate) account: Option<PreviewAccount<'a>>,
    /// Older answers are not used.
    pub(crate) max_age: Option<Duration>,
    /// The additional answer fields that the run needs.
    pub(crate) captured: &'a [Pointer],
}

/// Whose answers are looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreviewAccount<'a> {
    /// The service's address.
    pub(crate) endpoint: &'a str,
    /// The calling application's ID.
    pub(crate) service_id: &'a str,
}
