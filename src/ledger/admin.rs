//! Looking after a ledger by hand: what is in it, removing old answers, and forgetting people.
//!
//! Answers are removed only while no run has a lease, and many only if that is confirmed. What is
//! removed from a file is overwritten, and the file is rewritten once; a server's table is
//! rewritten as well, but its write-ahead log, its copies and its backups may still have what was
//! removed. This file must not know what is in a request, nor how anything is shown.

use std::time::SystemTime;

use rusqlite::{ToSql, params};

use super::accounts::{Per, PeriodSpending, StoredAccount};
use super::claims;
use super::database::{Database, Meta, Purpose, Work, first, from_millis, read_meta, to_millis};
use super::fault::{DbFault, DbFaultKind, VERSION};
use super::key::{RequestHasher, RequestKey};
use super::location::LedgerLocation;
use super::open::connect;
use super::sqlite_file::check_space;
use crate::base::error::{Error, Result as RunResult};
use crate::base::money::Money;

/// Fingerprints that are sent in one statement.
const FINGERPRINTS_PER_STATEMENT: usize = 1_000;

/// What to do if there is no ledger to look after.
const HINT_FIND_LEDGER: &str = "`rescore check` says which ledger a run uses; that of `--sandbox` is `sandbox.ledger` beside yours";

/// Takes as many answers away from what days have stored as were removed: no day has stored these.
pub(super) const RECOUNT: &str =
    "INSERT INTO spending AS before (account, day, price, calls, answers)
    SELECT id, 0, '0', 0, kept - stored FROM (SELECT id,
        (SELECT count(*) FROM answers WHERE account = accounts.id) AS kept,
        (SELECT sum(answers) FROM spending WHERE account = accounts.id) AS stored
        FROM accounts) AS numbers
    WHERE kept < stored
    ON CONFLICT (account, day, price) DO UPDATE SET answers = before.answers + excluded.answers";

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
    pub(super) database: Box<dyn Database>,
    pub(super) meta: Meta,
    ledger: LedgerLocation,
}

impl LedgerAdmin {
    /// Opens it, to remove answers while no run uses it.
    ///
    /// # Errors
    /// Exit code 75: a run or another command uses it. Exit code 2: it is missing, not a ledger,
    /// of another version, or damaged. Exit code 3: its server cannot be reached.
    pub(crate) fn open(ledger: &LedgerLocation) -> RunResult<Self> {
        let mut admin = Self::connect(ledger, Purpose::Admin, VERSION)?;
        let missing_grant = admin.database.dialect().missing_grant;
        let grant = admin.database.query(missing_grant, &[]);
        let grant = grant.map_err(|fault| fault.error("open", ledger))?;
        if let Some(grant) = grant.first().and_then(|row| row.get::<String>(0).ok()) {
            let ledger = ledger.to_display();
            return Err(Error::usage(format!(
                "cannot remove answers from `{ledger}`: only the owner of its tables may rewrite them"
            ))
            .hint(format!("run it as the owner, or after `{grant}`")));
        }
        admin.without_runs(&mut |_| Ok(()))?;
        Ok(admin)
    }

    /// Opens it beside runs that use it, to look.
    ///
    /// # Errors
    /// As [`Self::open`], but for exit code 75.
    pub(crate) fn look(ledger: &LedgerLocation) -> RunResult<Self> {
        Self::connect(ledger, Purpose::Look, VERSION)
    }

    /// Opens it if it is of the oldest version or a later one; to be copied into, it need not
    /// exist.
    pub(super) fn connect(
        ledger: &LedgerLocation,
        purpose: Purpose<'_>,
        oldest: i32,
    ) -> RunResult<Self> {
        let missing = || DbFault::missing().error("open", ledger);
        let file = ledger.file().filter(|_| !matches!(purpose, Purpose::Copy));
        let database = if file.is_some_and(|file| matches!(file.try_exists(), Ok(false))) {
            Err(missing())
        } else {
            connect(ledger, purpose).and_then(|database| database.ok_or_else(missing))
        };
        let mut database = database.map_err(|error| error.or_hint(HINT_FIND_LEDGER))?;
        let meta = read_meta(&mut *database, oldest);
        Ok(Self {
            meta: meta.map_err(|fault| fault.error("open", ledger))?,
            database,
            ledger: ledger.clone(),
        })
    }

    /// Makes the keys of each account's requests.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn hashers(&mut self) -> RunResult<Vec<RequestHasher>> {
        let accounts = StoredAccount::all(&mut *self.database);
        let accounts = accounts.map_err(|fault| fault.error("read", &self.ledger))?;
        Ok(accounts.into_iter().map(|account| account.hasher).collect())
    }

    /// What is in it.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn stats(&mut self) -> RunResult<LedgerStats> {
        let bytes = self.database.bytes();
        let accounts = StoredAccount::all_counted(&mut *self.database);
        let read = bytes.and_then(|bytes| Ok((bytes, accounts?)));
        let (bytes, accounts) = read.map_err(|fault| fault.error("read", &self.ledger))?;
        Ok(LedgerStats {
            bytes,
            created: from_millis(self.meta.created),
            answers: accounts.iter().map(|account| account.answers).sum(),
            accounts,
        })
    }

    /// What was spent with an account, by day or month.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn spent(
        &mut self,
        account: &StoredAccount,
        per: Per,
    ) -> RunResult<Vec<PeriodSpending>> {
        let spent = PeriodSpending::read(&mut *self.database, account.id, per);
        spent.map_err(|fault| fault.error("read", &self.ledger))
    }

    /// Removes answers that arrived before this, and what is remembered of runs and limits from
    /// before. `approve` is asked first, with what would be removed.
    ///
    /// # Errors
    /// Exit code 75: a run uses it by now. Exit code 3: it cannot be written or rewritten. Or what
    /// `approve` says against it.
    pub(crate) fn prune(
        &mut self,
        before: SystemTime,
        approve: impl Fn(&Removal) -> RunResult<()>,
    ) -> RunResult<Removal> {
        let before = params![to_millis(before)];
        self.remove("at < $1", before, approve, &mut |database| {
            database.query("DELETE FROM runs WHERE started < $1", before)?;
            database.query("DELETE FROM claims WHERE at < $1", before)?;
            let limits = "UPDATE accounts SET limits = NULL WHERE limits_at < $1";
            database.query(limits, before).map(drop)
        })
    }

    /// Removes all answers to these requests. `approve` is asked first, with what would be removed.
    ///
    /// # Errors
    /// As [`Self::prune`].
    pub(crate) fn forget(
        &mut self,
        keys: &[RequestKey],
        approve: impl Fn(&Removal) -> RunResult<()>,
    ) -> RunResult<Removal> {
        let of_them = "fp IN (SELECT fp FROM forgotten)";
        self.remove(of_them, &[], approve, &mut |database| {
            // A whole file of users is forgotten in one pass. Behind a pool, an earlier command
            // may have left its table.
            database.query("DROP TABLE IF EXISTS forgotten", &[])?;
            let forgotten = "CREATE TEMPORARY TABLE forgotten (fp BIGINT PRIMARY KEY)";
            database.query(forgotten, &[])?;
            for keys in keys.chunks(FINGERPRINTS_PER_STATEMENT) {
                let values = keys.iter().map(|key| format!("({})", key.fingerprint()));
                let values = values.collect::<Vec<_>>().join(",");
                let forget =
                    format!("INSERT INTO forgotten VALUES {values} ON CONFLICT DO NOTHING");
                database.query(&forget, &[])?;
            }
            let requests = keys.iter().map(RequestKey::fingerprint).collect();
            claims::forget(database, &requests)
        })
    }

    /// Removes the answers for which `condition`, SQL with these values, holds after `prepare`;
    /// then counts what stays, and rewrites the ledger so that no trace of them is left.
    fn remove(
        &mut self,
        condition: &str,
        values: &[&dyn ToSql],
        approve: impl Fn(&Removal) -> RunResult<()>,
        prepare: &mut Work<'_>,
    ) -> RunResult<Removal> {
        let (mut removal, mut refused) = (Removal::default(), None);
        let ledger = self.ledger.clone();
        let done = self.without_runs(&mut |database| {
            prepare(database)?;
            removal = Removal::read(database, condition, values)?;
            if removal.answers == 0 {
                return Ok(());
            }
            check_room(&ledger, removal.space_needed())?;
            if let Err(error) = approve(&removal) {
                refused = Some(error);
                return Err(DbFault::new(DbFaultKind::Other, ""));
            }
            database.query(&format!("DELETE FROM answers WHERE {condition}"), values)?;
            let after = database.dialect().after_removal.iter().copied();
            let mut statements = [RECOUNT].into_iter().chain(after);
            statements.try_for_each(|statement| database.query(statement, &[]).map(drop))
        });
        if let Some(error) = refused {
            return Err(error);
        }
        done?;
        if removal.answers > 0 {
            let rewritten = self.database.rewrite();
            let bytes = rewritten.and_then(|()| self.database.bytes());
            removal.bytes_after = bytes.map_err(|fault| fault.error("rewrite", &self.ledger))?;
        }
        Ok(removal)
    }

    /// Does `work` in a transaction while no run has a lease.
    ///
    /// # Errors
    /// Exit code 75: a run has one. Exit code 3: it cannot be written.
    pub(super) fn without_runs(&mut self, work: &mut Work<'_>) -> RunResult<()> {
        let lasts = claims::lease_lasts(self.database.dialect().now);
        let leases = format!("SELECT id FROM runs WHERE {lasts}");
        let done = self.database.transaction(true, &mut |database| {
            if !database.query(&leases, &[])?.is_empty() {
                return Err(DbFault::new(DbFaultKind::Held, ""));
            }
            work(database)
        });
        done.map_err(|fault| fault.error("write", &self.ledger))
    }
}

/// Checks that a ledger can grow by this many bytes, if it is in a file.
///
/// # Errors
/// It cannot.
pub(super) fn check_room(ledger: &LedgerLocation, bytes: u64) -> Result<(), DbFault> {
    ledger
        .file()
        .map_or(Ok(()), |file| check_space(file, bytes))
}

/// Answers that are or would be removed.
#[derive(Default)]
pub(crate) struct Removal {
    /// How many.
    pub(crate) answers: u64,
    /// How many others there are.
    pub(crate) left: u64,
    /// What they cost, as far as that is known.
    pub(crate) cost: Money,
    /// Bytes of the ledger's files or tables before the removal.
    pub(crate) bytes_before: u64,
    /// And after it.
    pub(crate) bytes_after: u64,
}

impl Removal {
    /// The answers for which this condition holds, SQL with these values.
    fn read(
        database: &mut dyn Database,
        condition: &str,
        values: &[&dyn ToSql],
    ) -> Result<Self, DbFault> {
        let numbers = format!(
            "SELECT count(*), cast(coalesce(sum(price), 0) AS BIGINT),
            (SELECT count(*) FROM answers) FROM answers WHERE {condition}"
        );
        let numbers = database.query(&numbers, values)?;
        let numbers = first(&numbers)?;
        let (answers, all, bytes) = (numbers.get(0)?, numbers.get::<u64>(2)?, database.bytes()?);
        Ok(Self {
            answers,
            left: all.saturating_sub(answers),
            cost: Money {
                billionths: numbers.get::<u64>(1)?.into(),
            },
            bytes_before: bytes,
            bytes_after: bytes,
        })
    }

    /// The free space that rewriting the ledger takes at most, in bytes: a copy of the file, and
    /// its log.
    pub(crate) const fn space_needed(&self) -> u64 {
        self.bytes_before.saturating_mul(2)
    }

    /// Whether they are so many that to remove them by mistake would do harm.
    pub(crate) const fn is_many(&self) -> bool {
        self.answers > 100 || (self.answers > 10 && self.answers > self.left / 100)
    }
}
