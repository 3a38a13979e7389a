//! The settings with which a ledger is opened.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::location::LedgerLocation;
use crate::raw_json::Pointer;

/// Which answers of earlier runs are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// All of them.
    All,
    /// All of them, also those of a finished run, which goes on: it has further inputs.
    Continue,
    /// Those that are recent enough by the wall clock.
    Recent(Freshness),
    /// None. In the run's own ledger its first answer replaces them all; in a shared one new answers replace old ones.
    Nothing,
    /// Those that a finished run used, and its own: only rows that failed are asked about again.
    Retry,
}

/// How recent an answer must be, by at least one of two rules. The later moment counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    max_age: Option<Duration>,
    asked_since: Option<SystemTime>,
}

impl Freshness {
    /// Not older than `max_age` when the ledger is opened, and not from before `asked_since`, which is the same moment for
    /// all runs of a job; `None` without either rule.
    #[must_use]
    pub fn of(max_age: Option<Duration>, asked_since: Option<SystemTime>) -> Option<Self> {
        let is_any = max_age.is_some() || asked_since.is_some();
        is_any.then_some(Self {
            max_age,
            asked_since,
        })
    }

    /// The moment from which on answers are recent enough to a ledger that is opened now.
    pub(super) fn not_before(self, now: SystemTime) -> SystemTime {
        let by_age = { self.max_age }.map(|age| now.checked_sub(age).unwrap_or(UNIX_EPOCH));
        by_age.max(self.asked_since).unwrap_or(UNIX_EPOCH)
    }
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
    pub(crate) ledger: &'a Path,
    /// What the run writes: in a shared ledger, a stopped run is recognised by its path. `None` is a run to a new output.
    pub(crate) output: Option<&'a Path>,
    /// Whether it goes on with a run that has finished: it retries what failed there, or has further inputs.
    pub(crate) resumes_finished: bool,
    /// Who would be asked; `None` is the only account that the ledger has answers of.
    pub(crate) account: Option<PreviewAccount<'a>>,
    /// How recent answers must be.
    pub(crate) freshness: Option<Freshness>,
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
