//! Looking after a ledger by hand, wherever it is: in a file or on a server.
//!
//! This only chooses between the two; how each does it is in `admin` and in `postgres`.

use std::time::SystemTime;

use super::admin::{self, CleanupResult, Eraser, Forget, ForgetCounts};
use super::contents::LedgerStats;
use super::named_ledger::NamedLedger;
#[cfg(feature = "postgres")]
use super::postgres::{self, ServerForget, ServerKeeper};
use crate::base::error::Result;

/// Reads what is in a ledger.
///
/// # Errors
/// Exit code 2: it is missing, not a ledger, of another version, or damaged. Exit code 75: another program is using it. Exit
/// code 3: its server does not answer.
pub(crate) fn stats_of(ledger: &NamedLedger) -> Result<LedgerStats> {
    match ledger {
        NamedLedger::File(path) => admin::read_stats(path),
        #[cfg(feature = "postgres")]
        NamedLedger::Server(settings) => postgres::read_stats(settings),
    }
}

/// How a ledger is after answers have been removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UpkeepResult {
    /// Answers in it.
    pub(crate) answers: u64,
    /// Bytes of its files, or of its tables.
    pub(crate) bytes: u64,
    /// Where something of what was removed may still be.
    pub(crate) traces: RemainingTraces,
}

/// Where something of what was removed may still be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemainingTraces {
    /// Nowhere.
    None,
    /// In unused parts of the file, as another program is using it.
    InFile,
    /// In unused parts of the tables, and in the server's log, copies and backups.
    OnServer,
}

impl From<CleanupResult> for UpkeepResult {
    fn from(result: CleanupResult) -> Self {
        Self {
            answers: result.answers,
            bytes: result.bytes,
            traces: if result.is_without_trace() {
                RemainingTraces::None
            } else {
                RemainingTraces::InFile
            },
        }
    }
}

/// How a ledger on a server is now.
#[cfg(feature = "postgres")]
fn on_server(keeper: &ServerKeeper) -> Result<UpkeepResult> {
    Ok(UpkeepResult {
        answers: keeper.answers()?,
        bytes: keeper.bytes()?,
        traces: RemainingTraces::OnServer,
    })
}

/// What was forgotten of a ledger on a server, which does not remember failures.
#[cfg(feature = "postgres")]
const fn forgotten(answers: u64) -> ForgetCounts {
    ForgetCounts { answers, failed: 0 }
}

/// A ledger that old answers are removed from.
pub(crate) enum Keeper {
    /// In a file.
    File(Box<Eraser>),
    /// On a server.
    #[cfg(feature = "postgres")]
    Server(Box<ServerKeeper>),
}

impl Keeper {
    /// Opens an existing ledger.
    ///
    /// # Errors
    /// As [`stats_of`].
    pub(crate) fn open(ledger: &NamedLedger) -> Result<Self> {
        Ok(match ledger {
            NamedLedger::File(path) => Self::File(Box::new(Eraser::open(path)?)),
            #[cfg(feature = "postgres")]
            NamedLedger::Server(settings) => Self::Server(Box::new(ServerKeeper::open(settings)?)),
        })
    }

    /// Bytes of its files, or of its tables.
    ///
    /// # Errors
    /// Exit code 3: its server is away.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(clippy::unnecessary_wraps, reason = "only a server has another answer")
    )]
    pub(crate) fn bytes(&self) -> Result<u64> {
        match self {
            Self::File(eraser) => Ok(eraser.bytes()),
            #[cfg(feature = "postgres")]
            Self::Server(keeper) => keeper.bytes(),
        }
    }

    /// Removes everything that is from before this: how many answers there were.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(crate) fn prune(&self, before: SystemTime) -> Result<u64> {
        match self {
            Self::File(eraser) => admin::prune(eraser, before),
            #[cfg(feature = "postgres")]
            Self::Server(keeper) => keeper.prune(before),
        }
    }

    /// Leaves nothing of what was removed, as far as that can be done; `any` if anything was.
    ///
    /// # Errors
    /// As [`Eraser::finish`].
    pub(crate) fn finish(self, any: bool) -> Result<UpkeepResult> {
        match self {
            Self::File(eraser) => eraser.finish(any).map(UpkeepResult::from),
            #[cfg(feature = "postgres")]
            Self::Server(keeper) => on_server(&keeper),
        }
    }
}

/// A ledger that answers about users are removed from.
pub(crate) enum Forgetter {
    /// In a file.
    File(Box<Forget>),
    /// On a server.
    #[cfg(feature = "postgres")]
    Server(Box<ServerForget>),
}

impl Forgetter {
    /// Opens an existing ledger.
    ///
    /// # Errors
    /// As [`stats_of`], and exit code 2 if the secret is not that of the ledger.
    pub(crate) fn open(ledger: &NamedLedger) -> Result<Self> {
        Ok(match ledger {
            NamedLedger::File(path) => Self::File(Box::new(Forget::open(path)?)),
            #[cfg(feature = "postgres")]
            NamedLedger::Server(settings) => Self::Server(Box::new(ServerForget::open(settings)?)),
        })
    }

    /// Marks every answer to one of these bodies, whichever address and service ID was asked: how many there are.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn mark<'a>(
        &mut self,
        bodies: &(impl Iterator<Item = &'a [u8]> + Clone),
    ) -> Result<u64> {
        match self {
            Self::File(forget) => forget.mark(bodies),
            #[cfg(feature = "postgres")]
            Self::Server(forget) => forget.mark(bodies),
        }
    }

    /// Removes what was marked.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(crate) fn remove_marked(&mut self) -> Result<ForgetCounts> {
        match self {
            Self::File(forget) => forget.remove_marked(),
            #[cfg(feature = "postgres")]
            Self::Server(forget) => forget.remove_marked().map(forgotten),
        }
    }

    /// Removes every answer.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(crate) fn remove_all(&self) -> Result<ForgetCounts> {
        match self {
            Self::File(forget) => forget.remove_all(),
            #[cfg(feature = "postgres")]
            Self::Server(forget) => forget.remove_all().map(forgotten),
        }
    }

    /// Leaves nothing of what was removed, as far as that can be done.
    ///
    /// # Errors
    /// As [`Forget::finish`].
    pub(crate) fn finish(self) -> Result<UpkeepResult> {
        match self {
            Self::File(forget) => forget.finish().map(UpkeepResult::from),
            #[cfg(feature = "postgres")]
            Self::Server(forget) => on_server(forget.keeper()),
        }
    }
}
