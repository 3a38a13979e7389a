//! Looking after a ledger in a file by hand: what is in it, removing old answers, and forgetting people.
//!
//! Answers are removed while no run uses the ledger. What is removed is overwritten, and the file is rewritten. This file must not
//! know what is in a request, nor how anything is shown.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, params};

use super::claims::any_alive;
use super::connect::{self, Mode, writing};
use super::errors::{self, is_busy};
use super::limits;
use super::schema::{self, Meta, VERSION};
use crate::base::error::{Error, Result};
use crate::ledger::clock::{self, millis, time};
use crate::ledger::contents::{AGES, AccountStats, LedgerStats};
use crate::ledger::file;
use crate::ledger::key::{RequestHasher, RequestKey};
use crate::ledger::lock::ledger_in_use;
use crate::ledger::store::LedgerAdmin;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

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
        .and_then(|connection| read(&connection, &real))
        .map_err(|error| errors::cannot_open(path, &error))
}

fn read(connection: &Connection, path: &Path) -> rusqlite::Result<LedgerStats> {
    // One state of it from here on, whatever is written meanwhile.
    let connection = connection.unchecked_transaction()?;
    let meta = Meta::read(&connection)?;
    let limits = limits::all(&connection)?;
    let now = SystemTime::now();
    let [day, week, month] = AGES.map(|days| millis(now.checked_sub(DAY * days).unwrap_or(now)));
    let count = |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(i64::cast_unsigned);
    let accounts = connection
        .prepare(
            "SELECT accounts.id, address, count(seq), min(at), max(at),
                count(iif(at >= ?1, 1, NULL)), count(iif(at >= ?2, 1, NULL)), count(iif(at >= ?3, 1, NULL))
             FROM accounts LEFT JOIN answers ON account = accounts.id
             GROUP BY accounts.id ORDER BY address, accounts.id",
        )?
        .query_map([day, week, month], |row| {
            let id: i64 = row.get(0)?;
            let span: (Option<i64>, Option<i64>) = (row.get(3)?, row.get(4)?);
            Ok(AccountStats {
                address: row.get(1)?,
                answers: count(row, 2)?,
                span: span.0.zip(span.1).map(|(first, last)| (time(first), time(last))),
                younger: [count(row, 5)?, count(row, 6)?, count(row, 7)?],
                limit: limits.iter().find(|(account, _)| *account == id).map(|(_, limit)| *limit),
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(LedgerStats {
        bytes: file::bytes(path),
        version: VERSION,
        created: time(meta.created),
        answers: accounts.iter().map(|account| account.answers).sum(),
        accounts,
    })
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
                 INSERT INTO idx SELECT fp, seq FROM answers ORDER BY fp, seq;
                 UPDATE accounts SET answers =
                     min(answers, (SELECT count(*) FROM answers WHERE account = accounts.id));",
            )?;
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
    fn bytes(&mut self) -> Result<u64> {
        Ok(file::bytes(&self.path))
    }

    fn answers(&mut self) -> Result<u64> {
        let count = "SELECT count(*) FROM answers";
        {
            self.connection
                .query_row(count, [], |row| row.get::<_, i64>(0))
        }
        .map(i64::cast_unsigned)
        .map_err(|error| errors::cannot_use(&self.path, "read", &error))
    }

    fn prune(&mut self, before: SystemTime) -> Result<u64> {
        let before = millis(before);
        self.remove(|connection| {
            connection.execute("DELETE FROM runs WHERE started < ?", [before])?;
            connection.execute("DELETE FROM limits WHERE at < ?", [before])?;
            connection.execute("DELETE FROM answers WHERE at < ?", [before])
        })
    }

    fn hashers(&mut self) -> Result<Vec<RequestHasher>> {
        let read = || {
            self.connection
                .prepare("SELECT hash FROM accounts")?
                .query_map([], |row| Ok(RequestHasher::of_account(row.get(0)?)))?
                .collect::<rusqlite::Result<_>>()
        };
        read().map_err(|error| errors::cannot_use(&self.path, "read", &error))
    }

    fn forget(&mut self, keys: &[RequestKey]) -> Result<u64> {
        let fingerprints: HashSet<_> = keys.iter().map(|key| key.fingerprint).collect();
        self.remove(|connection| {
            // The index does not have all, and a whole file of users is forgotten in one pass.
            let mut places = Vec::new();
            let mut all = connection.prepare("SELECT fp, seq FROM answers")?;
            let mut rows = all.query([])?;
            while let Some(row) = rows.next()? {
                if fingerprints.contains(&row.get::<_, i64>(0)?) {
                    places.push(row.get::<_, i64>(1)?);
                }
            }
            let mut delete = connection.prepare("DELETE FROM answers WHERE seq = ?")?;
            for place in &places {
                delete.execute([place])?;
            }
            let mut end_claim = connection.prepare("DELETE FROM claims WHERE fp = ?")?;
            for fingerprint in &fingerprints {
                end_claim.execute([fingerprint])?;
            }
            Ok(places.len())
        })
    }

    fn rewrite(&mut self) -> Result<()> {
        self.connection
            .execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
            .map_err(|error| errors::cannot_use(&self.path, "rewrite", &error))
    }
}
