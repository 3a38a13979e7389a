//! The settings with which a ledger is opened, and times as it stores them.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::answers::ReadAnswer;
use super::budget::CallLimit;
use super::fault::DbFault;
use super::server_url::ServerUrl;
use crate::base::error::{Error, Result};
use crate::base::money::Money;
use crate::base::numbers;
use crate::base::text::display;
use crate::base::threads::lock;

/// Which answers are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// All of them, and failures that were or may have been billed.
    All,
    /// Those that are not too old when the run first starts. An answer's age limit is between these two, as its request's
    /// fingerprint chooses, so that the answers of one night do not all expire in one night.
    Recent {
        /// No answer is too old at this age.
        least: Duration,
        /// Every answer is too old above this age.
        most: Duration,
    },
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
            Self::Recent { least, most } if least == most => format!("max-age {}", most.as_secs()),
            Self::Recent { least, most } => {
                format!("max-age {}..{}", least.as_millis(), most.as_millis())
            }
            Self::Nothing => "fresh".to_owned(),
            Self::Retry => "retry-failed".to_owned(),
        }
    }

    /// From when on answers and failures are used by a run that first starts now, in milliseconds since 1970.
    pub(super) fn used_from(self, now: i64) -> (i64, i64) {
        let recent = match self {
            Self::All => i64::MIN,
            Self::Recent { most, .. } => now.saturating_sub(in_millis(most)).max(0),
            Self::Nothing => now,
            Self::Retry => return (i64::MIN, now),
        };
        (recent, recent)
    }
}

/// The two ages in a run's word, if it has a range of them.
pub(super) fn ages_in(word: &str) -> Option<&str> {
    let (_, ages) = word.rsplit_once(' ')?;
    ages.contains("..").then_some(ages)
}

/// How much later than the oldest answer the youngest one expires, by the word of a run, in milliseconds.
pub(super) fn spread_in(word: &str) -> u64 {
    let ages = ages_in(word).and_then(|ages| ages.split_once(".."));
    let number = |age: &str| age.parse::<u64>().ok();
    let spread = ages.and_then(|(least, most)| number(most)?.checked_sub(number(least)?));
    spread.unwrap_or(0)
}

/// A time as the database stores it: in seconds, runs that follow each other closely could not be told apart.
pub(super) fn millis(time: SystemTime) -> i64 {
    in_millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

pub(super) fn in_millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A time that the database stores.
pub(super) fn time(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Now, as the database stores it.
pub(super) fn now() -> i64 {
    millis(SystemTime::now())
}

/// Where a ledger is.
#[derive(Debug, Clone)]
pub(crate) enum LedgerLocation {
    /// In this file.
    File(PathBuf),
    /// On this server.
    Server(ServerUrl),
}

impl LedgerLocation {
    /// The ledger that the user has named: a file, or the address of a server.
    ///
    /// # Errors
    /// Exit code 2: the address is not one. Nothing of it is repeated, as it may have a password.
    pub(crate) fn named(name: &Path) -> Result<Self> {
        let text = name.to_string_lossy();
        if ServerUrl::is_meant(&text) {
            return Ok(Self::Server(ServerUrl::parse(&text)?));
        }
        Ok(Self::File(name.to_owned()))
    }

    /// Its path or address, as text for people.
    pub(crate) fn shown(&self) -> String {
        display(self.path())
    }

    /// Why it cannot be used: `doing` such as "open".
    pub(super) fn cannot(&self, doing: &str, fault: &DbFault) -> Error {
        fault.error(doing, self.path())
    }

    /// Its file, if it is in one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Server(_) => None,
        }
    }

    /// Its path or address, as people see it.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Server(url) => Path::new(&url.shown),
        }
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct LedgerAccount {
    /// The service's address.
    pub(crate) endpoint: String,
    /// The calling application's ID.
    pub(crate) service_id: String,
}

/// How a run waits for a ledger's server that does not answer. Clones share why it waits.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerWait {
    /// How long at most.
    pub(crate) longest: Duration,
    why: Arc<Mutex<Option<(Instant, String)>>>,
}

impl ServerWait {
    /// Waits for this time at most.
    pub(crate) fn new(longest: Duration) -> Self {
        Self {
            longest,
            why: Arc::default(),
        }
    }

    /// How long it has waited, and why, in the system's or the server's words; `None` while it does not wait.
    pub(crate) fn why(&self) -> Option<String> {
        let why = lock(&self.why);
        let (since, why) = why.as_ref()?;
        Some(format!("{}: {why}", numbers::time(since.elapsed())))
    }

    /// It waits, since then and for another reason, or no longer.
    pub(super) fn set(&self, why: Option<(Instant, String)>) {
        *lock(&self.why) = why;
    }
}

/// What a ledger must know of the run that opens it, or that would.
#[derive(Clone)]
pub(crate) struct LedgerSettings {
    /// Where the ledger is.
    pub(crate) location: LedgerLocation,
    /// Which answers are used.
    pub(crate) reuse: Reuse,
    /// What the run writes. By its path a stopped run is recognised. `None` is standard output.
    pub(crate) output: Option<PathBuf>,
    /// What it reads; `None` is a stream, or several files.
    pub(crate) input: Option<PathBuf>,
    /// Who asks. `None`, for a look without a run, is the only account that the ledger has answers of.
    pub(crate) account: Option<LedgerAccount>,
    /// Reads the bodies of answers.
    pub(crate) read: ReadAnswer,
    /// How many calls can be in flight: answers arrive in groups of about that size.
    pub(crate) in_flight: NonZeroUsize,
    /// How long a call can take.
    pub(crate) longest_call: Duration,
    /// How it waits for a ledger's server.
    pub(crate) wait: ServerWait,
    /// How many calls it may make.
    pub(crate) limits: Vec<CallLimit>,
    /// What each costs, or zero if that is unknown.
    pub(crate) price: Money,
}
