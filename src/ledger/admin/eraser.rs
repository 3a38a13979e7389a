//! Removing answers so that nothing of them stays in the files.
//!
//! Runs may be using the ledger meanwhile. So answers are removed in small pieces with pauses between them, in which a
//! run's own answers are written; only then is the file rewritten, as bytes that SQLite has moved may be in unused parts of
//! it. This file must not know what is in a request, nor how anything is shown.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::Instant;

use crate::base::error::{Error, Result};
use crate::ledger::access::{cannot_open, existing};
use crate::ledger::db::answer_removal::IndexCleaning;
use crate::ledger::db::answers::AnswerReader;
use crate::ledger::db::checksum::Checksums;
use crate::ledger::db::connect::{self, COMMAND_WAITS, Connect, Mode};
use crate::ledger::db::latest_answers::LatestAnswers;
use crate::ledger::db::schema::{self, LedgerInfo};
use crate::ledger::db::{answer_writer, answers, errors};
use crate::ledger::file;
use crate::ledger::holder::this_process;
use crate::ledger::lock::Lock;

/// A ledger up to this size is rewritten also while runs use it: they wait for it, for about a second.
const REWRITTEN_BESIDE_RUNS: u64 = 64 * 1024 * 1024;

/// While the log is emptied, nobody writes: it is tried for this long, and then the runs get as much time.
const LOG_TURN: Duration = Duration::from_millis(200);

/// A ledger that answers are removed from.
pub(crate) struct Eraser {
    connection: Connection,
    checksums: Checksums,
    /// As it was named.
    path: PathBuf,
    /// With links followed: what SQLite keeps beside a ledger is beside the real file.
    real: PathBuf,
    patience: Duration,
    rewritten_beside_runs: u64,
    // Last: the database is closed before the lock is released.
    lock: Lock,
}

/// How a ledger is after answers have been removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CleanupResult {
    /// Answers in it.
    pub(crate) answers: u64,
    /// Bytes of the file and of the log beside it.
    pub(crate) bytes: u64,
    /// The file was rewritten: nothing that was removed is in unused bytes of it.
    pub(crate) rewritten: bool,
    /// The log is empty: it has no old page, and the file lacks none.
    pub(crate) log_emptied: bool,
}

impl CleanupResult {
    /// Whether nothing of what was removed is in the files.
    #[must_use]
    pub(crate) const fn is_without_trace(&self) -> bool {
        self.rewritten && self.log_emptied
    }
}

impl Eraser {
    /// Opens an existing ledger.
    ///
    /// # Errors
    /// Exit code 75: another process is using it. Exit code 2: it is missing, not a ledger, of another version, or damaged.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let real = existing(path)?;
        let holder = format!("`rescore ledger`, {}", this_process());
        let lock = Lock::try_take(&real, &holder)?.map_err(|other| {
            Error::busy(format!(
                "another command ({other}) is using `{}`",
                path.display()
            ))
            .hint("run this again when it has ended")
        })?;
        let open = || {
            let connection = Connect::to(Mode::Erase).open(&real)?;
            schema::check_soundness(&connection, &real)?;
            let checksums = LedgerInfo::read(&connection)?.checksums();
            Ok((connection, checksums))
        };
        let (connection, checksums) = open().map_err(|error| cannot_open(path, &error))?;
        Ok(Self {
            connection,
            checksums,
            path: path.to_owned(),
            real,
            patience: COMMAND_WAITS,
            rewritten_beside_runs: REWRITTEN_BESIDE_RUNS,
            lock,
        })
    }

    /// The ledger, with links followed.
    pub(super) fn real(&self) -> &Path {
        &self.real
    }

    /// Bytes of the file and of the log beside it.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        file::bytes(&self.real)
    }

    /// Reads something.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection, Checksums) -> rusqlite::Result<T>,
    ) -> Result<T> {
        read(&self.connection, self.checksums).map_err(|error| self.cannot("read", &error))
    }

    /// Completes the index: answers that it does not have are found in no other way than by looking at all.
    pub(super) fn complete_index(&self) -> Result<()> {
        let complete = || {
            let latest = Arc::new(LatestAnswers::default());
            let mut reader = AnswerReader::new(self.checksums, Arc::clone(&latest));
            reader.begin(&self.connection)?;
            reader.end(&self.connection)?;
            answer_writer::merge(&self.connection, &latest)
        };
        complete().map_err(|error| self.cannot("write the index of", &error))
    }

    /// Removes the entries of the index that lead nowhere.
    pub(super) fn clean_index(&self) -> Result<()> {
        let cleaning = self.read(|connection, _| IndexCleaning::new(connection))?;
        for turn in IndexCleaning::turns() {
            self.remove_piece(|connection, _| {
                cleaning.clean(connection, &turn)?;
                Ok(0)
            })?;
        }
        Ok(())
    }

    /// Removes something in one transaction, and then leaves the ledger to others for as long as that took: how many
    /// answers or requests were removed.
    pub(super) fn remove_piece(
        &self,
        remove: impl FnOnce(&Connection, Checksums) -> rusqlite::Result<usize>,
    ) -> Result<u64> {
        let started = Instant::now();
        let done = connect::writing(&self.connection).and_then(|transaction| {
            let removed = remove(&transaction, self.checksums)?;
            transaction.commit()?;
            Ok(removed)
        });
        let removed = done.map_err(|error| self.cannot("remove answers from", &error))?;
        leave_to_others(started.elapsed());
        Ok(u64::try_from(removed).unwrap_or(u64::MAX))
    }

    /// Leaves nothing of what was removed in the files, as far as others who use them let it.
    ///
    /// With `rewrite` the file is rewritten, which also gives back the space, unless it is large and a run uses it.
    /// Without, that is done only where whole pages are unused.
    ///
    /// # Errors
    /// Exit code 3: it cannot be rewritten, for instance on a full disk. What was removed stays removed.
    pub(crate) fn finish(self, rewrite: bool) -> Result<CleanupResult> {
        let Self {
            connection,
            path,
            real,
            patience,
            rewritten_beside_runs,
            lock,
            ..
        } = self;
        drop(connection);
        let clean = || {
            let (connection, alone) = match Connect::to(Mode::EraseAlone).open(&real) {
                Err(error) if errors::is_busy(&error) => {
                    (Connect::to(Mode::Erase).open(&real)?, false)
                }
                connection => (connection?, true),
            };
            let fits = alone || file::bytes(&real) <= rewritten_beside_runs;
            let rewritten = fits && (rewrite || connect::has_unused_pages(&connection)?);
            if rewritten {
                connect::rewrite(&connection)?;
            }
            let log_emptied = empty_log(&connection, patience)?;
            let answers = answers::count_all(&connection)?;
            Ok((rewritten, log_emptied, answers))
        };
        let (rewritten, log_emptied, answers) =
            clean().map_err(|error| errors::cannot_use(&path, "rewrite", &error))?;
        drop(lock);
        Ok(CleanupResult {
            answers,
            bytes: file::bytes(&real),
            rewritten,
            log_emptied,
        })
    }

    fn cannot(&self, doing: &str, error: &rusqlite::Error) -> Error {
        errors::cannot_use(&self.path, doing, error)
    }
}

#[cfg(test)]
impl Eraser {
    /// Waits this long for readers of an old state.
    pub(super) const fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Rewrites no larger ledger while runs use it.
    pub(super) const fn set_rewritten_beside_runs(&mut self, bytes: u64) {
        self.rewritten_beside_runs = bytes;
    }
}

/// Copies all of the log into the file and truncates it; `false` if a reader keeps an old state in use all the while.
fn empty_log(connection: &Connection, patience: Duration) -> rusqlite::Result<bool> {
    let started = Instant::now();
    loop {
        if connect::empty_log(connection, LOG_TURN)? {
            return Ok(true);
        }
        if started.elapsed() > patience {
            return Ok(false);
        }
        leave_to_others(LOG_TURN);
    }
}

/// Leaves the ledger to others.
#[allow(clippy::disallowed_methods, reason = "no call is made by this command")]
fn leave_to_others(time: Duration) {
    std::thread::sleep(time.min(Duration::from_secs(1)));
}
