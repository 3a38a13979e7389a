//! Removing answers by hand: those of one user, of many, old ones, or all; so that nothing of them stays in the files.
//!
//! Runs may be using the ledger meanwhile. Answers therefore go in small pieces with rests between them, in which a run's
//! own answers get in; only then is the file rewritten, as what SQLite has moved about may lie in unused bytes of it. It
//! must not know what is in a request, nor how anything is said.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tokio::time::Instant;

use super::file::Lock;
use super::request_key::{Hash, RequestHasher};
use super::survey::bytes;
use super::{millis, sqlite};
use crate::base::error::{Error, Result};

/// How long somebody else who holds the ledger, or an old state of it, is waited for. A run holds it for a group of
/// answers; who holds it longer is no run.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Answers that are gone through at once, one beside the other: some ten milliseconds of work.
const PIECE: i64 = 2_048;
/// Answers that are removed at once from all over the file.
const SCATTERED: usize = 512;

/// A ledger up to this size is rewritten also while runs use it: they wait for it, in the order of a second.
const REWRITTEN_BESIDE_RUNS: u64 = 64 * 1024 * 1024;

/// A ledger that answers are removed from.
pub(crate) struct Care {
    connection: Connection,
    /// As it was named.
    path: PathBuf,
    /// With links followed, as what SQLite keeps beside it lies beside the real one.
    real: PathBuf,
    contexts: Vec<RequestHasher>,
    noted: Vec<Hash>,
    /// Of those bodies, what failed.
    failed: Vec<Hash>,
    patience: Duration,
    rewritten_beside_runs: u64,
    // Last: the database is closed before the lock goes.
    lock: Lock,
}

/// How a ledger is when answers have been removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cleaned {
    /// Answers in it.
    pub(crate) answers: u64,
    /// Bytes of the file and of the log beside it.
    pub(crate) bytes: u64,
    /// The file was written anew: nothing that was removed is in unused bytes of it.
    pub(crate) rewritten: bool,
    /// The log is empty: no old page is in it, and none is missing in the file.
    pub(crate) log_emptied: bool,
}

impl Cleaned {
    /// Whether nothing of what was removed is in the files.
    #[must_use]
    pub(crate) const fn is_without_trace(&self) -> bool {
        self.rewritten && self.log_emptied
    }
}

impl Care {
    /// Opens a ledger that is there.
    ///
    /// # Errors
    /// Exit code 2: it is missing, no ledger, of a newer version, damaged, or held by a run whose own it is.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let real = existing(path)?;
        let who = format!("`rescore ledger`, process {}", std::process::id());
        let lock = Lock::try_take(&real, &who)?.map_err(|holder| {
            Error::usage(format!(
                "`{}` belongs to a run that is going on ({holder})",
                path.display()
            ))
            .hint("run it again when that has ended; its output must stay what it is until then")
        })?;
        let open = || {
            let connection = sqlite::open_to_remove(&real, PATIENCE)?;
            sqlite::check_soundness(&connection, &real)?;
            sqlite::head(&connection)?
                .checksums()
                .install(&connection)?;
            let contexts = sqlite::contexts(&connection)?;
            Ok((connection, contexts))
        };
        let (connection, contexts) = open().map_err(|error| cannot_open(path, &error))?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            real,
            contexts,
            noted: Vec::new(),
            failed: Vec::new(),
            patience: PATIENCE,
            rewritten_beside_runs: REWRITTEN_BESIDE_RUNS,
            lock,
        })
    }

    /// Bytes of the file and of the log beside it.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        bytes(&self.real)
    }

    /// Notes every answer to one of these bodies, whoever was asked on whose behalf: how many there are.
    ///
    /// Rows that were each asked on their own have an answer each, and all of them are found.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn note<'a>(
        &mut self,
        bodies: &(impl Iterator<Item = &'a [u8]> + Clone),
    ) -> Result<u64> {
        let found = (&mut self.noted, &mut self.failed);
        look_for(&self.connection, &self.contexts, bodies, found)
            .map_err(|error| self.cannot("read", &error))
    }

    /// Removes what was noted: how many answers went, and of how many requests it is not known any more that the service
    /// failed over them.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(crate) fn forget(&mut self) -> Result<(u64, u64)> {
        let sorted = |keys: &mut Vec<Hash>| {
            let mut keys = std::mem::take(keys);
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        let (noted, failed) = (sorted(&mut self.noted), sorted(&mut self.failed));
        let removed = self.remove("DELETE FROM answers WHERE key = ?", &noted)?;
        // One request may be in both.
        self.remove("DELETE FROM failing_requests WHERE key = ?", &failed)?;
        self.remove("DELETE FROM failures WHERE key = ?", &failed)?;
        Ok((removed, u64::try_from(failed.len()).unwrap_or(u64::MAX)))
    }

    fn remove(&mut self, delete: &str, keys: &[Hash]) -> Result<u64> {
        let mut removed = 0;
        for keys in keys.chunks(SCATTERED) {
            removed += self.piece(|connection| {
                let mut delete = connection.prepare_cached(delete)?;
                keys.iter()
                    .try_fold(0, |sum, key| Ok(sum + delete.execute([key])?))
            })?;
        }
        Ok(removed)
    }

    /// Removes every answer: how many went.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(crate) fn forget_all(&mut self) -> Result<u64> {
        self.remove_before(i64::MAX)
    }

    /// Removes answers that came before this: how many went.
    ///
    /// # Errors
    /// Exit code 2 or 3: the ledger cannot be written.
    pub(crate) fn prune(&mut self, before: SystemTime) -> Result<u64> {
        self.remove_before(millis(before))
    }

    fn remove_before(&mut self, before: i64) -> Result<u64> {
        const LAST: &str = "SELECT key FROM answers WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?";
        const DELETE: &str = "DELETE FROM answers WHERE key > ? AND key <= ? AND at < ?";
        // A younger answer stays, without the score of the old one that it took the place of.
        // One that is damaged stays so.
        const BLANK: &str = "UPDATE answers SET replaced = NULL, replaced_at = NULL,
            checksum = iif(
                checksum = answer_checksum(key, row, transaction_id, score, capture, captured, at, replaced),
                answer_checksum(key, row, transaction_id, score, capture, captured, at, NULL),
                checksum)
            WHERE key > ? AND key <= ? AND replaced_at < ?";
        const FAILURES: &str =
            "DELETE FROM failures WHERE run IN (SELECT id FROM runs WHERE started < ?)";
        const RUNS: &str = "DELETE FROM runs WHERE started < ?";
        const FIELDS: &str = "DELETE FROM fields WHERE requested < ?";
        const LIMITS: &str = "DELETE FROM limits WHERE at < ?";
        const POISON: &str = "DELETE FROM failing_requests WHERE at < ?";
        // Longer than any key.
        const ABOVE_ALL: [u8; 17] = [u8::MAX; 17];
        let mut removed = 0;
        // No key is empty, and every one is above this.
        let mut from = Some(Vec::new());
        while let Some(after) = from.take() {
            removed += self.piece(|connection| {
                let mut last = connection.prepare_cached(LAST)?;
                from = last
                    .query_row(params![after, PIECE - 1], |row| row.get(0))
                    .optional()?;
                let piece = params![after, from.as_deref().unwrap_or(&ABOVE_ALL), before];
                connection.prepare_cached(BLANK)?.execute(piece)?;
                connection.prepare_cached(DELETE)?.execute(piece)
            })?;
        }
        // A run that was stopped so long ago is not gone on with, who wanted a field then does no more, and the service may
        // be another one.
        self.piece(|connection| {
            connection.execute(FAILURES, [before])?;
            connection.execute(RUNS, [before])?;
            connection.execute(LIMITS, [before])?;
            connection.execute(POISON, [before])?;
            connection.execute(FIELDS, [before])
        })?;
        Ok(removed)
    }

    /// Does a piece of work by itself, and then leaves the ledger to others for as long as it took.
    fn piece(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<usize>) -> Result<u64> {
        let began = Instant::now();
        let connection = &mut self.connection;
        let done = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .and_then(|transaction| {
                let removed = work(&transaction)?;
                transaction.commit()?;
                Ok(removed)
            });
        let removed = done.map_err(|error| self.cannot("remove answers from", &error))?;
        rest(began.elapsed());
        Ok(u64::try_from(removed).unwrap_or(u64::MAX))
    }

    /// Leaves nothing of what was removed in the files, as far as others who use them let it.
    ///
    /// With `rewrite` the file is written anew, which also gives back the space; for as long as nobody else uses it, or
    /// it is small. Without, that is done only where whole pages are unused.
    ///
    /// # Errors
    /// Exit code 3: it cannot be written anew, as on a full disk. What was removed stays removed.
    pub(crate) fn finish(self, rewrite: bool) -> Result<Cleaned> {
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
            let (connection, alone) = match sqlite::open_alone(&real)? {
                Some(connection) => (connection, true),
                None => (sqlite::open_to_remove(&real, patience)?, false),
            };
            let unused: i64 =
                connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
            let fits = alone || bytes(&real) <= rewritten_beside_runs;
            let rewritten = (rewrite || unused > 0) && fits;
            if rewritten {
                connection.execute_batch("VACUUM")?;
            }
            let log_emptied = empty_log(&connection, patience)?;
            let answers: i64 =
                connection.query_row("SELECT count(*) FROM answers", [], |row| row.get(0))?;
            Ok((rewritten, log_emptied, answers))
        };
        let (rewritten, log_emptied, answers) =
            clean().map_err(|error| sqlite::cannot_use(&path, "rewrite", &error))?;
        drop(lock);
        Ok(Cleaned {
            answers: u64::try_from(answers).unwrap_or(0),
            bytes: bytes(&real),
            rewritten,
            log_emptied,
        })
    }

    fn cannot(&self, doing: &str, error: &rusqlite::Error) -> Error {
        sqlite::cannot_use(&self.path, doing, error)
    }
}

/// Looks for every answer to one of these bodies: how many there are.
fn look_for<'a>(
    connection: &Connection,
    contexts: &[RequestHasher],
    bodies: &(impl Iterator<Item = &'a [u8]> + Clone),
    (found, failed): (&mut Vec<Hash>, &mut Vec<Hash>),
) -> rusqlite::Result<u64> {
    // One state of it for all, which costs less for each.
    let reading = connection.unchecked_transaction()?;
    let mut answers = reading.prepare_cached("SELECT count(*) FROM answers WHERE key = ?")?;
    let mut failing = reading.prepare_cached(
        "SELECT 1 FROM failing_requests WHERE key = ?1 UNION ALL SELECT 1 FROM failures WHERE key = ?1",
    )?;
    let mut all = 0;
    for keys in contexts {
        for body in bodies.clone() {
            let key = keys.key(body).hash;
            let count: i64 = answers.query_row([key], |row| row.get(0))?;
            all += count.unsigned_abs();
            found.extend((count > 0).then_some(key));
            failed.extend(failing.exists([key])?.then_some(key));
        }
    }
    Ok(all)
}

/// Puts all that the log has into the file and cuts it off; `false` when somebody reads an old state all the while.
fn empty_log(connection: &Connection, patience: Duration) -> rusqlite::Result<bool> {
    // While this waits, nobody writes: a little at a time.
    const AT_ONCE: Duration = Duration::from_millis(200);
    let began = Instant::now();
    connection.busy_timeout(AT_ONCE)?;
    loop {
        let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            row.get::<_, i64>(0)
        });
        match busy {
            Ok(0) => return Ok(true),
            Err(error) if !sqlite::is_busy(&error) => return Err(error),
            _ if began.elapsed() > patience => return Ok(false),
            _ => rest(AT_ONCE),
        }
    }
}

/// Leaves the ledger to others.
#[allow(clippy::disallowed_methods, reason = "no call is made by this command")]
fn rest(time: Duration) {
    std::thread::sleep(time.min(Duration::from_secs(1)));
}

/// The real path of a ledger that is there; what is none is not touched.
pub(super) fn existing(path: &Path) -> Result<PathBuf> {
    let cannot = |e| sqlite::unreadable(path).because(e);
    let real = fs::canonicalize(path).map_err(cannot)?;
    sqlite::check(path)?;
    if fs::metadata(&real).map_err(cannot)?.len() == 0 {
        return Err(sqlite::foreign(path));
    }
    Ok(real)
}

/// It cannot be opened, and is as it was.
pub(super) fn cannot_open(path: &Path, error: &rusqlite::Error) -> Error {
    if sqlite::is_busy(error) || sqlite::is_damage(error) {
        sqlite::cannot_open(path, error)
    } else {
        sqlite::unreadable(path).because(sqlite::system(error))
    }
}

#[cfg(test)]
mod tests;
