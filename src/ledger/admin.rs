//! Looking after a ledger by hand: what is in it, removing old answers, and forgetting people.
//!
//! Answers are removed while no run has a lease, and not many unless that is confirmed. What is removed from a file is
//! overwritten, and the file is rewritten once; a server's table is rewritten as well, but its write-ahead log, its copies and
//! its backups may still have what was removed. This file must not know what is in a request, nor how anything is shown.

use std::time::SystemTime;

use rusqlite::{ToSql, params};

use super::accounts::{PeriodSpending, StoredAccount};
use super::budget::Per;
use super::claims;
use super::database::{Database, Purpose, Work, first, read_meta};
use super::fault::{DbFault, DbFaultKind};
use super::key::{RequestHasher, RequestKey};
use super::open::{NAME_IT, connect};
use super::settings::{LedgerLocation, millis, time};
use super::sqlite_file::check_space;
use crate::base::error::{Error, Result as RunResult};
use crate::base::money::Money;

/// Fingerprints that are sent in one statement.
const TOGETHER: usize = 1_000;

/// Takes as many answers away from what days have stored as are gone: these were stored on no day.
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
    ledger: LedgerLocation,
}

impl LedgerAdmin {
    /// Opens it, to remove answers while no run uses it.
    ///
    /// # Errors
    /// Exit code 75: a run or another command uses it. Exit code 2: it is missing, not a ledger, of another version, or damaged.
    /// Exit code 3: its server cannot be reached.
    pub(crate) fn open(ledger: &LedgerLocation) -> RunResult<Self> {
        let mut admin = Self::of_this_version(ledger, Purpose::Admin)?;
        let missing_grant = admin.database.dialect().missing_grant;
        let grant = admin.database.query(missing_grant, &[]);
        let grant = grant.map_err(|fault| ledger.cannot("open", &fault))?;
        if let Some(grant) = grant.first().and_then(|row| row.get::<String>(0).ok()) {
            let shown = ledger.shown();
            return Err(Error::usage(format!(
                "cannot remove answers from `{shown}`: only the owner of its tables may rewrite them"
            ))
            .hint(format!("run it as the owner, or after `{grant}`")));
        }
        admin.alone(&mut |_| Ok(()))?;
        Ok(admin)
    }

    /// Opens it beside runs that use it, to look.
    ///
    /// # Errors
    /// As [`Self::open`], but for exit code 75.
    pub(crate) fn look(ledger: &LedgerLocation) -> RunResult<Self> {
        Self::of_this_version(ledger, Purpose::Look)
    }

    fn of_this_version(ledger: &LedgerLocation, purpose: Purpose<'_>) -> RunResult<Self> {
        let mut admin = Self::connect(ledger, purpose)?;
        let meta = read_meta(&mut *admin.database);
        meta.map_err(|fault| admin.ledger.cannot("open", &fault))?;
        Ok(admin)
    }

    /// Opens it, of whichever version that can be copied; to be copied into, it need not exist.
    pub(super) fn connect(ledger: &LedgerLocation, purpose: Purpose<'_>) -> RunResult<Self> {
        let ledger = ledger.clone();
        let missing = || ledger.cannot("open", &DbFault::missing());
        let connect = || match &ledger {
            LedgerLocation::File(path)
                if !matches!(purpose, Purpose::Copy) && matches!(path.try_exists(), Ok(false)) =>
            {
                Ok(None)
            }
            _ => connect(&ledger, purpose),
        };
        let database = { connect() }
            .and_then(|database| database.ok_or_else(missing))
            .map_err(|error| error.or_hint(NAME_IT))?;
        Ok(Self { database, ledger })
    }

    /// Bytes of its files, or of its tables.
    pub(super) fn bytes(&mut self) -> Result<u64, DbFault> {
        let database = &mut *self.database;
        let bytes = database.query(database.dialect().bytes, &[])?;
        first(&bytes)?.get(0)
    }

    /// Makes the keys of each account's requests.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn hashers(&mut self) -> RunResult<Vec<RequestHasher>> {
        let accounts = StoredAccount::all(&mut *self.database);
        let accounts = accounts.map_err(|fault| self.ledger.cannot("read", &fault))?;
        Ok(accounts.into_iter().map(|account| account.hasher).collect())
    }

    /// What is in it.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn stats(&mut self) -> RunResult<LedgerStats> {
        let mut read = || {
            let bytes = self.bytes()?;
            let database = &mut *self.database;
            let accounts = StoredAccount::all_counted(database)?;
            Ok(LedgerStats {
                bytes,
                created: time(read_meta(database)?.1),
                answers: accounts.iter().map(|account| account.answers).sum(),
                accounts,
            })
        };
        read().map_err(|fault: DbFault| self.ledger.cannot("read", &fault))
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
        spent.map_err(|fault| self.ledger.cannot("read", &fault))
    }

    /// Removes answers that arrived before this, and what is remembered of runs and limits from before. `approve` is asked first,
    /// with what would be removed.
    ///
    /// # Errors
    /// Exit code 75: a run uses it by now. Exit code 3: it cannot be written or rewritten. Or what `approve` says against it.
    pub(crate) fn prune(
        &mut self,
        before: SystemTime,
        approve: impl Fn(&Removal) -> RunResult<()>,
    ) -> RunResult<Removal> {
        let before = params![millis(before)];
        let others = [
            "DELETE FROM runs WHERE started < $1",
            "DELETE FROM claims WHERE at < $1",
            "UPDATE accounts SET limits = NULL WHERE limits_at < $1",
        ];
        self.remove("at < $1", before, approve, &mut |database| {
            { others.iter() }.try_for_each(|others| database.query(others, before).map(drop))
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
            // A whole file of users is forgotten in one pass. Behind a pool, an earlier command may have left its table.
            database.query("DROP TABLE IF EXISTS forgotten", &[])?;
            let forgotten = "CREATE TEMPORARY TABLE forgotten (fp BIGINT PRIMARY KEY)";
            database.query(forgotten, &[])?;
            for keys in keys.chunks(TOGETHER) {
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

    /// Removes the answers for which `which` holds, an SQL condition with these values, after `prepare`; then counts what stays, and
    /// rewrites the ledger so that no byte of them is left.
    fn remove(
        &mut self,
        which: &str,
        values: &[&dyn ToSql],
        approve: impl Fn(&Removal) -> RunResult<()>,
        prepare: &mut Work<'_>,
    ) -> RunResult<Removal> {
        let (mut removal, mut refused) = (Removal::default(), None);
        let ledger = self.ledger.clone();
        let done = self.alone(&mut |database| {
            prepare(database)?;
            database.query("DROP TABLE IF EXISTS removed", &[])?;
            let removed = "CREATE TEMPORARY TABLE removed (seq BIGINT, fp BIGINT, price BIGINT)";
            database.query(removed, &[])?;
            let fill = "INSERT INTO removed SELECT seq, fp, price FROM answers WHERE";
            database.query(&format!("{fill} {which}"), values)?;
            removal = Removal::read(database)?;
            if removal.answers == 0 {
                return Ok(());
            }
            has_space(&ledger, removal.rewritten)?;
            if let Err(error) = approve(&removal) {
                refused = Some(error);
                return Err(DbFault::new(DbFaultKind::Other, ""));
            }
            let remove = "DELETE FROM answers WHERE seq IN (SELECT seq FROM removed)";
            let after = database.dialect().after_removal.iter().copied();
            let mut statements = [remove, RECOUNT].into_iter().chain(after);
            statements.try_for_each(|statement| database.query(statement, &[]).map(drop))
        });
        if let Some(error) = refused {
            return Err(error);
        }
        done?;
        if removal.answers > 0 {
            let rewritten = self.database.rewrite();
            rewritten.map_err(|fault| self.ledger.cannot("rewrite", &fault))?;
        }
        Ok(removal)
    }

    /// Does something in a transaction while no run has a lease.
    ///
    /// # Errors
    /// Exit code 75: one has. Exit code 3: it cannot be written.
    pub(super) fn alone(&mut self, work: &mut Work<'_>) -> RunResult<()> {
        let lasts = claims::lease_lasts(self.database.dialect().now);
        let leases = format!("SELECT id FROM runs WHERE {lasts}");
        let done = self.database.transaction(true, &mut |database| {
            if !database.query(&leases, &[])?.is_empty() {
                return Err(DbFault::new(DbFaultKind::Held, ""));
            }
            work(database)
        });
        done.map_err(|fault| self.ledger.cannot("write", &fault))
    }
}

/// Checks that the file of a ledger, if it is in one, can grow by so much.
///
/// # Errors
/// It cannot.
pub(super) fn has_space(ledger: &LedgerLocation, bytes: u64) -> Result<(), DbFault> {
    match ledger {
        LedgerLocation::File(path) => check_space(path, bytes),
        LedgerLocation::Server(_) => Ok(()),
    }
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
    /// The free space that rewriting the ledger takes at most, in bytes.
    pub(crate) rewritten: u64,
}

impl Removal {
    /// Those in the table `removed`.
    fn read(database: &mut dyn Database) -> Result<Self, DbFault> {
        let mut removal = Self::default();
        let removed = "SELECT count(*), cast(coalesce(sum(price), 0) AS BIGINT) FROM removed";
        let removed = database.query(removed, &[])?;
        removal.answers = first(&removed)?.get(0)?;
        removal.cost.billionths = first(&removed)?.get::<u64>(1)?.into();
        let all = database.query("SELECT count(*) FROM answers", &[])?;
        removal.left = first(&all)?.get::<u64>(0)?.saturating_sub(removal.answers);
        // A copy of the file, and its log.
        let bytes = database.query(database.dialect().bytes, &[])?;
        removal.rewritten = first(&bytes)?.get::<u64>(0)?.saturating_mul(2);
        Ok(removal)
    }

    /// Whether they are so many that to remove them by mistake would do harm.
    pub(crate) const fn is_many(&self) -> bool {
        self.answers > 100 || (self.answers > 10 && self.answers > self.left / 100)
    }
}
