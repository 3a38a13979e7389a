//! Looking after a ledger by hand: what is in it, removing old answers, and forgetting people.
//!
//! Answers are removed while no run has a lease. What is removed from a file is overwritten, and the file is rewritten; a
//! server's table is rewritten as well, but its write-ahead log, its copies and its backups may still have what was removed.
//! This file must not know what is in a request, nor how anything is shown.

use std::time::SystemTime;

use super::accounts::StoredAccount;
use super::database::{Database, Purpose, first, listed, read_meta};
use super::fault::{DbFault, DbFaultKind};
use super::key::RequestKey;
use super::open::{NAME_IT, connect};
use super::settings::{LedgerLocation, millis, time};
use crate::base::error::Result as RunResult;

/// Fingerprints that are sent in one statement.
const TOGETHER: usize = 1_000;

/// What is in a ledger.
pub(crate) struct LedgerStats {
    /// Bytes of its files, or of its tables.
    pub(crate) bytes: u64,
    /// When it was created.
    pub(crate) created: SystemTime,
    /// How many answers there are.
    pub(crate) answers: u64,
    /// By account, in the order of their addresses.
    pub(crate) accounts: Vec<StoredAccount>,
}

/// An existing ledger that is looked after.
pub(crate) struct LedgerAdmin {
    database: Box<dyn Database>,
    ledger: LedgerLocation,
}

impl LedgerAdmin {
    /// Opens it, to remove answers while no run uses it.
    ///
    /// # Errors
    /// Exit code 75: a run or another command uses it. Exit code 2: it is missing, not a ledger, of another version, or damaged.
    /// Exit code 3: its server cannot be reached.
    pub(crate) fn open(ledger: &LedgerLocation) -> RunResult<Self> {
        let mut admin = Self::connect(ledger, Purpose::Admin)?;
        admin.remove(|_| Ok(0))?;
        Ok(admin)
    }

    /// Opens it beside runs that use it, to look.
    ///
    /// # Errors
    /// As [`Self::open`], but for exit code 75.
    pub(crate) fn look(ledger: &LedgerLocation) -> RunResult<Self> {
        Self::connect(ledger, Purpose::Look)
    }

    fn connect(ledger: &LedgerLocation, purpose: Purpose<'_>) -> RunResult<Self> {
        let ledger = ledger.clone();
        let missing = || ledger.cannot("open", &DbFault::missing());
        let connect = || match &ledger {
            LedgerLocation::File(path) if matches!(path.try_exists(), Ok(false)) => Ok(None),
            _ => connect(&ledger, purpose),
        };
        let database = { connect() }
            .and_then(|database| database.ok_or_else(missing))
            .map_err(|error| error.or_hint(NAME_IT))?;
        let mut admin = Self { database, ledger };
        let meta = read_meta(&mut *admin.database);
        meta.map_err(|fault| admin.ledger.cannot("open", &fault))?;
        Ok(admin)
    }

    /// What is in it.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn stats(&mut self) -> RunResult<LedgerStats> {
        let database = &mut *self.database;
        let mut read = || {
            let bytes = database.query(database.dialect().bytes)?;
            let accounts = StoredAccount::all_counted(database)?;
            Ok(LedgerStats {
                bytes: first(&bytes)?.get(0)?,
                created: time(read_meta(database)?.1),
                answers: accounts.iter().map(|account| account.answers).sum(),
                accounts,
            })
        };
        read().map_err(|fault: DbFault| self.ledger.cannot("read", &fault))
    }

    /// Removes answers that arrived before this, and what is remembered of runs and limits from before: how many answers
    /// there were.
    ///
    /// # Errors
    /// Exit code 75: a run uses it by now. Exit code 3: it cannot be written.
    pub(crate) fn prune(&mut self, before: SystemTime) -> RunResult<u64> {
        let before = millis(before);
        self.remove(|database| {
            database.query(&format!(
                "DELETE FROM runs WHERE started < {before};
                UPDATE accounts SET limits = NULL WHERE limits_at < {before}"
            ))?;
            delete_answers(database, &format!("at < {before}"))
        })
    }

    /// Removes all answers to these requests: how many there were.
    ///
    /// # Errors
    /// As [`Self::prune`].
    pub(crate) fn forget(&mut self, keys: &[RequestKey]) -> RunResult<u64> {
        self.remove(|database| {
            // A whole file of users is forgotten in one pass.
            database.query("CREATE TEMPORARY TABLE forgotten (fp BIGINT PRIMARY KEY)")?;
            for keys in keys.chunks(TOGETHER) {
                let values = listed(keys.iter()).unwrap_or_default().replace(',', "),(");
                database.query(&format!(
                    "INSERT INTO forgotten VALUES ({values}) ON CONFLICT DO NOTHING"
                ))?;
            }
            let of_them = "fp IN (SELECT fp FROM forgotten)";
            let removed = delete_answers(database, of_them)?;
            database.query(&format!(
                "DELETE FROM claims WHERE {of_them}; DROP TABLE forgotten"
            ))?;
            Ok(removed)
        })
    }

    /// Rewrites it, so that nothing of what was removed is in it.
    ///
    /// # Errors
    /// Exit code 3: it cannot be rewritten, for instance on a full disk. What was removed stays removed.
    pub(crate) fn rewrite(&mut self) -> RunResult<()> {
        let rewritten = self.database.rewrite();
        rewritten.map_err(|fault| self.ledger.cannot("rewrite", &fault))
    }

    /// Removes something while no run has a lease, and counts again what stays.
    fn remove(
        &mut self,
        mut remove: impl FnMut(&mut dyn Database) -> Result<u64, DbFault>,
    ) -> RunResult<u64> {
        let dialect = self.database.dialect();
        let leases = format!("SELECT id FROM runs WHERE until >= {}", dialect.now);
        let mut removed = 0;
        let done = self.database.transaction(true, &mut |database| {
            if !database.query(&leases)?.is_empty() {
                return Err(DbFault::new(DbFaultKind::Held, ""));
            }
            removed = remove(database)?;
            if removed > 0 {
                // All that days have stored is less now by those that are gone, which were stored on no day.
                database.query(&format!(
                    "INSERT INTO spending AS before (account, day, price, calls, answers)
                    SELECT id, 0, '0', 0, kept - stored FROM (SELECT id,
                        (SELECT count(*) FROM answers WHERE account = accounts.id) AS kept,
                        (SELECT sum(answers) FROM spending WHERE account = accounts.id) AS stored
                        FROM accounts) AS numbers
                    WHERE kept < stored
                    ON CONFLICT (account, day, price) DO UPDATE SET answers = before.answers + excluded.answers;
                    {}",
                    dialect.after_removal
                ))?;
            }
            Ok(())
        });
        done.map_err(|fault| self.ledger.cannot("write", &fault))?;
        Ok(removed)
    }
}

/// Deletes the answers of which this is true: how many there were.
fn delete_answers(database: &mut dyn Database, which: &str) -> Result<u64, DbFault> {
    let count = database.query(&format!("SELECT count(*) FROM answers WHERE {which}"))?;
    database.query(&format!("DELETE FROM answers WHERE {which}"))?;
    first(&count)?.get(0)
}
