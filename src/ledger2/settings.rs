//! The settings with which a ledger is opened.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::clock::millis;
use super::outcome::ReadAnswer;

/// Which answers are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// All of them, and failures that were or may have been billed.
    All,
    /// Those that arrived this long ago at most when the run first starts.
    Recent(Duration),
    /// Those that arrive since the run first starts.
    Nothing,
    /// All answers; requests that failed before the run first starts are sent again.
    Retry,
}

impl Reuse {
    /// A word by which the same command is recognised.
    pub(super) fn word(self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Recent(age) => format!("max-age {}", age.as_secs()),
            Self::Nothing => "fresh".to_owned(),
            Self::Retry => "retry-failed".to_owned(),
        }
    }

    /// From when on answers are used by a run that first starts now, in milliseconds since 1970.
    pub(super) fn not_before(self, now: SystemTime) -> i64 {
        match self {
            Self::All | Self::Retry => i64::MIN,
            Self::Recent(age) => millis(now.checked_sub(age).unwrap_or(UNIX_EPOCH)),
            Self::Nothing => millis(now),
        }
    }

    /// From when on failures are used, in milliseconds since 1970.
    pub(super) fn failures_from(self, now: SystemTime) -> i64 {
        match self {
            Self::Retry => millis(now),
            reuse => reuse.not_before(now),
        }
    }
}

/// Where a ledger is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerLocation {
    /// In this file.
    File(PathBuf),
    /// Nowhere: answers are kept for as long as the run lasts, so that identical rows are asked about once.
    Temporary,
}

impl LedgerLocation {
    /// Its path, as people see it.
    #[must_use]
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            Self::File(path) => Some(path.clone()),
            Self::Temporary => None,
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LedgerAccount<'a> {
    /// The service's address.
    pub(crate) endpoint: &'a str,
    /// The calling application's ID.
    pub(crate) service_id: &'a str,
}

/// What a ledger must know of the run that opens it.
#[derive(Clone)]
pub struct LedgerSettings {
    /// Where the ledger is.
    pub location: LedgerLocation,
    /// Which answers are used.
    pub reuse: Reuse,
    /// What the run writes. By its path a stopped run is recognised. `None` is standard output.
    pub output: Option<PathBuf>,
    /// What it reads; `None` is a stream, or several files.
    pub input: Option<PathBuf>,
    /// The service's address.
    pub endpoint: String,
    /// The calling application's ID.
    pub service_id: String,
    /// Reads the bodies of answers.
    pub read: ReadAnswer,
    /// How many calls can be in flight: answers arrive in groups of about that size.
    pub in_flight: NonZeroUsize,
    /// How long a call can take.
    pub longest_call: Duration,
}
