//! What a ledger asks of its database: a few operations, and statements over tables that are the
//! same in a file and on a server.
//!
//! A statement's text is fixed, except for the words of the [`Dialect`]; values are sent beside
//! it, as `$1`, `$2`, … in the order in which they first appear. Only storing answers and finding
//! them has code of its own in each database: there are many of them.

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::ToSql;
use rusqlite::types::{FromSql, Value};

use super::answers::{LookupResult, Scope, Stored};
use super::fault::{DbFault, VERSION};
use super::key::{RequestKey, random_secret};
use super::location::ServerWait;
use crate::base::money::Money;

/// What differs in the statements.
pub(super) struct Dialect {
    /// This moment by the database's clock, in milliseconds since 1970, and not when the
    /// transaction started, which may have waited for the lock since.
    pub(super) now: &'static str,
    /// Bytes of all that is stored.
    pub(super) bytes: &'static str,
    /// The statements that must follow in the transaction that has removed answers.
    pub(super) after_removal: &'static [&'static str],
    /// Returns the statement that would grant this user the right to rewrite the tables; no row if
    /// the user has it.
    pub(super) missing_grant: &'static str,
    /// The statements that must follow in the transaction that has copied answers.
    pub(super) after_copy: &'static [&'static str],
    /// Starts a transaction that only reads, of one state.
    pub(super) snapshot: &'static str,
}

/// What a database is opened for.
#[derive(Clone, Copy)]
pub(super) enum Purpose<'p> {
    /// Starting a run with this many calls in flight, which later waits for a server like this. A
    /// missing file is made.
    Run {
        in_flight: NonZeroUsize,
        wait: &'p ServerWait,
    },
    /// Another connection of a run under way, which waits for a server like this.
    SecondConnection(&'p ServerWait),
    /// Reading beside runs: never checkpoints the log of a file.
    Look,
    /// Removing answers, while no other program uses the ledger. In a file, what is removed is
    /// overwritten.
    Admin,
    /// Receiving what another ledger has, while no other program uses this one. An empty file is
    /// made a ledger.
    Copy,
}

/// What is done in a transaction.
pub(super) type Work<'w> = dyn FnMut(&mut dyn Database) -> Result<(), DbFault> + 'w;

/// A database with the tables of a ledger.
pub(super) trait Database: Send {
    fn dialect(&self) -> &'static Dialect;

    /// The rows that a statement returns. One that changes something must be in a transaction.
    ///
    /// # Errors
    /// It cannot be read or written.
    fn query(&mut self, statement: &str, values: &[&dyn ToSql]) -> Result<Vec<TableRow>, DbFault>;

    /// Does `work` in one transaction, while nobody else writes; if that fails, nothing is
    /// changed. It may be repeated. A power cut may undo transactions that are not durable, back
    /// to the last one that is.
    ///
    /// # Errors
    /// It cannot be written, or `work` fails.
    fn transaction(&mut self, durable: bool, work: &mut Work<'_>) -> Result<(), DbFault>;

    /// Stores results of an account, within a transaction.
    ///
    /// # Errors
    /// It cannot be written.
    fn append(&mut self, account: i64, results: &[Stored]) -> Result<(), DbFault>;

    /// Removes what this start of a run has stored about requests with these fingerprints, within
    /// a transaction.
    ///
    /// # Errors
    /// It cannot be written.
    fn discard(&mut self, start: i64, fingerprints: &[i64]) -> Result<(), DbFault>;

    /// What is stored for each of these requests, in their order. Within a transaction they are
    /// about to be claimed.
    ///
    /// # Errors
    /// It cannot be read.
    fn find(&mut self, scope: &Scope, keys: &[RequestKey]) -> Result<Vec<LookupResult>, DbFault>;

    /// Another connection to it, for another thread.
    ///
    /// # Errors
    /// It cannot be made.
    fn second_connection(&self) -> Result<Box<dyn Database>, DbFault>;

    /// Rewrites it, so that no trace of what was removed is left.
    ///
    /// # Errors
    /// It cannot be rewritten, for instance on a full disk. What was removed stays removed.
    fn rewrite(&mut self) -> Result<(), DbFault>;

    /// The run has started: a new file stays, and from now on a server is waited for as the run's
    /// settings say.
    fn run_starts(&mut self);

    /// Whether the disk is full, so that only answers to calls in flight are still stored.
    fn is_full(&self) -> bool {
        false
    }

    /// Bytes of its files, or of its tables.
    ///
    /// # Errors
    /// It cannot be read.
    fn bytes(&mut self) -> Result<u64, DbFault> {
        let bytes = self.query(self.dialect().bytes, &[])?;
        first(&bytes)?.get(0)
    }

    /// Runs a statement in a durable transaction of its own: the rows that it returns.
    ///
    /// # Errors
    /// It cannot be written.
    fn write(&mut self, statement: &str, values: &[&dyn ToSql]) -> Result<Vec<TableRow>, DbFault> {
        let mut rows = Vec::new();
        self.transaction(true, &mut |database| {
            rows = database.query(statement, values)?;
            Ok(())
        })?;
        Ok(rows)
    }
}

/// A row of a result, column by column.
pub(super) struct TableRow(pub(super) Vec<Value>);

impl TableRow {
    /// A value; NULL is an `Option`'s `None`.
    pub(super) fn get<T: FromSql>(&self, column: usize) -> Result<T, DbFault> {
        let value = self.0.get(column).ok_or_else(DbFault::damaged)?;
        T::column_result(value.into()).map_err(|_| DbFault::damaged())
    }

    /// A value that is stored as text.
    pub(super) fn parse<T: FromStr>(&self, column: usize) -> Result<T, DbFault> {
        let text: String = self.get(column)?;
        text.parse().map_err(|_| DbFault::damaged())
    }

    /// An amount that is stored as a text of billionths.
    pub(super) fn money(&self, column: usize) -> Result<Money, DbFault> {
        let billionths = self.parse(column)?;
        Ok(Money { billionths })
    }

    pub(super) fn hash(&self, column: usize) -> Result<[u8; 32], DbFault> {
        self.parse::<blake3::Hash>(column).map(Into::into)
    }
}

/// The first row of a result that always has one.
pub(super) fn first(rows: &[TableRow]) -> Result<&TableRow, DbFault> {
    rows.first().ok_or_else(DbFault::damaged)
}

/// A hash as it is stored.
pub(super) fn hex(hash: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*hash).to_string()
}

/// What a ledger says about itself.
pub(super) struct Meta {
    pub(super) secret: [u8; 32],
    /// When it was made, in milliseconds since 1970.
    pub(super) created: i64,
}

/// Reads what a ledger says about itself.
///
/// # Errors
/// It is damaged, or neither of this version nor of one from the oldest on.
pub(super) fn read_meta(database: &mut dyn Database, oldest: i32) -> Result<Meta, DbFault> {
    let rows = database.query("SELECT version, secret, created FROM meta", &[])?;
    let row = rows.first().ok_or_else(DbFault::missing)?;
    let version = row.get(0)?;
    if !(oldest..=VERSION).contains(&version) {
        return Err(DbFault::of_version(version));
    }
    Ok(Meta {
        secret: row.hash(1)?,
        created: row.get(2)?,
    })
}

/// The statement that stores what a new ledger says about itself, and its value: a new secret.
pub(super) fn insert_meta(dialect: &Dialect) -> (String, String) {
    let insert = format!("INSERT INTO meta VALUES ({VERSION}, $1, {})", dialect.now);
    (insert, hex(&random_secret()))
}

/// The statements that make the tables, except `answers`, which differs. `id` is the type of a key
/// that the database chooses, `integer` that of a number, `bytes` that of bytes, and `table` the
/// options of a table.
///
/// - `meta`: the secret that keys are made with.
/// - `accounts`: a keyed hash of the address and the service ID; the limits of the service as
///   JSON, and when they were found.
/// - `spending`: by account, day since 1970 and price of a call (`0` if the run gave none), how
///   many calls were made, and how many answers brought a verdict. After a removal, a row of day 0
///   has a negative number, so that the sum is what is left.
/// - `runs`: the name is a hash of the output's path, or random for rows to a stream; then a hash
///   of the input's path; which answers it uses, by the option and from when on; when it first
///   started; the rows without a verdict, once it has ended; the calls of all starts, and what
///   they cost, if the last one gave a price; a random number of its latest start; when its lease
///   ends, and how long a lease lasts; and the host and directory of its files, as on a server a
///   path does not say on which host it is.
/// - `claims`: in batches, since when, the requests that a start of a run calls for, or that
///   killed starts have left (run 0).
/// - `outputs`: how runs have left their files.
pub(super) fn tables(id: &str, integer: &str, bytes: &str, table: &str) -> String {
    format!(
        "CREATE TABLE meta (version INTEGER NOT NULL, secret TEXT NOT NULL, created {integer} NOT NULL) {table};
        CREATE TABLE accounts (id {id}, hash TEXT NOT NULL UNIQUE, address TEXT NOT NULL,
            limits TEXT, limits_at {integer}) {table};
        CREATE TABLE spending (account {integer} NOT NULL, day {integer} NOT NULL, price TEXT NOT NULL,
            calls {integer} NOT NULL, answers {integer} NOT NULL, PRIMARY KEY (account, day, price)) {table};
        CREATE TABLE runs (id {id}, name TEXT NOT NULL UNIQUE, input TEXT NOT NULL,
            reuse TEXT NOT NULL, not_before {integer} NOT NULL, failures_from {integer} NOT NULL,
            started {integer} NOT NULL, failed {integer}, calls {integer} NOT NULL, cost TEXT,
            start {integer} NOT NULL, until {integer} NOT NULL, lease {integer} NOT NULL,
            place TEXT NOT NULL) {table};
        CREATE TABLE claims (id {id}, run {integer} NOT NULL, start {integer} NOT NULL,
            at {integer} NOT NULL, fps {bytes} NOT NULL) {table};
        CREATE TABLE outputs (path TEXT, state TEXT, input TEXT, PRIMARY KEY (path, state, input)) {table};"
    )
}

/// A time as it is stored, in milliseconds since 1970: in seconds, runs that follow each other
/// closely could not be told apart.
pub(super) fn to_millis(time: SystemTime) -> i64 {
    duration_millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// A time that is stored.
pub(super) fn from_millis(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

pub(super) fn duration_millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Now by this machine's clock, as it is stored.
pub(super) fn now_millis() -> i64 {
    to_millis(SystemTime::now())
}

/// Waits until another attempt may succeed.
#[allow(
    clippy::disallowed_methods,
    reason = "no call is made before the ledger is open, and after that its own threads wait"
)]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}
