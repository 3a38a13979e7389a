//! Looking after a ledger in a file by hand: what is in it, removing old answers, and forgetting people.
//!
//! Answers are removed while no run uses the ledger. What is removed is overwritten, and the file is rewritten. This file must not
//! know what is in a request, nor how anything is shown.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, params};

use super::claims::any_alive;
use super::connect::{self, Mode, writing};
use super::errors::{self, is_busy};
use super::schema::{self, Meta};
use crate::base::error::{Error, Result};
use crate::ledger::account::{COUNT_AGAIN, LedgerStats, prune_others};
use crate::ledger::clock::{self, millis};
use crate::ledger::file;
use crate::ledger::key::RequestKey;
use crate::ledger::lock::ledger_in_use;
use crate::ledger::store::LedgerAdmin;

/// The real path of an existing ledger.
fn existing(path: &Path) -> Result<PathBuf> {
    if matches!(path.try_exists(), Ok(false)) {
        let shown = path.display();
        return Err(Error::usage(format!("there is no ledger `{shown}`")));
    }
    let real = file::check(path)?;
    if !schema::check_head(&real, path)? {
        return Err(errors::foreign(path));
    }
    Ok(real)
}

/// Reads what is in a ledger, while runs may be using it.
///
/// # Errors
/// Exit code 2: it is missing, not a ledger, of another version, damaged, or in use by another program.
pub(in crate::ledger) fn stats(path: &Path) -> Result<LedgerStats> {
    let real = existing(path)?;
    connect::open(Some(&real), Mode::Inspect)
        .and_then(|mut connection| read(&mut connection, &real))
        .map_err(|error| errors::cannot_open(path, &error))
}

fn read(connection: &mut Connection, path: &Path) -> rusqlite::Result<LedgerStats> {
    let created = Meta::read(connection)?.created;
    LedgerStats::read(connection, file::bytes(path), created)
}

/// A ledger that answers are removed from. Nobody else uses it meanwhile.
pub(in crate::ledger) struct SqliteAdmin {
    connection: Connection,
    path: PathBuf,
}

impl SqliteAdmin {
    /// Opens an existing ledger.
    ///
    /// # Errors
    /// Exit code 75: a run or another command uses it. Exit code 2: it is missing, not a ledger, of another version, or damaged.
    pub(in crate::ledger) fn open(path: &Path) -> Result<Self> {
        let real = existing(path)?;
        let busy = || ledger_in_use(path.display());
        let open = || {
            let connection = connect::open(Some(&real), Mode::Alone)?;
            schema::check_soundness(&connection, &real)?;
            let is_used = any_alive(&connection, clock::now())?;
            Ok((connection, is_used))
        };
        match open() {
            Ok((connection, false)) => Ok(Self {
                connection,
                path: path.to_owned(),
            }),
            Ok((_, true)) => Err(busy()),
            Err(error) if is_busy(&error) => Err(busy()),
            Err(error) => Err(errors::cannot_open(path, &error)),
        }
    }

    /// Removes answers, and builds the index and the counts again.
    fn remove(&self, remove: impl FnOnce(&Connection) -> rusqlite::Result<usize>) -> Result<u64> {
        let removing = || {
            let transaction = writing(&self.connection)?;
            let removed = remove(&transaction)?;
            transaction.execute_batch(
                "DELETE FROM idx;
                 INSERT INTO idx SELECT fp, seq FROM answers ORDER BY fp, seq;",
            )?;
            transaction.execute_batch(COUNT_AGAIN)?;
            let last = schema::last(&transaction)?;
            let update =
                "UPDATE meta SET merged_up_to = ?1, replaced_up_to = min(replaced_up_to, ?1)";
            transaction.execute(update, params![last])?;
            transaction.commit()?;
            Ok(removed)
        };
        let removed =
            removing().map_err(|error| errors::cannot_use(&self.path, "write", &error))?;
        Ok(removed as u64)
    }
}

impl LedgerAdmin for SqliteAdmin {
    fn stats(&mut self) -> Result<LedgerStats> {
        read(&mut self.connection, &self.path)
            .map_err(|error| errors::cannot_use(&self.path, "read", &error))
    }

    fn prune(&mut self, before: SystemTime) -> Result<u64> {
        let before = millis(before);
        self.remove(|connection| {
            connection.execute_batch(&prune_others(before))?;
            connection.execute("DELETE FROM answers WHERE at < ?", [before])
        })
    }

    fn forget(&mut self, keys: &[RequestKey]) -> Result<u64> {
        self.remove(|connection| {
            // The index does not have all, and a whole file of users is forgotten in one pass.
            connection.execute_batch("CREATE TEMP TABLE forgotten (fp INTEGER PRIMARY KEY)")?;
            let mut add = connection.prepare("INSERT OR IGNORE INTO forgotten VALUES (?)")?;
            for key in keys {
                add.execute([key.fingerprint])?;
            }
            connection.execute("DELETE FROM claims WHERE fp IN forgotten", [])?;
            connection.execute("DELETE FROM answers WHERE fp IN forgotten", [])
        })
    }

    fn rewrite(&mut self) -> Result<()> {
        self.connection
            .execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
            .map_err(|error| errors::cannot_use(&self.path, "rewrite", &error))
    }
}
