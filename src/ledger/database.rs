//! What a ledger asks of its database, whichever that is: a few operations, and statements over tables that are the same in both.
//!
//! A statement's text is fixed but for the words of its [`Dialect`]; values are sent beside it, as `$1`, `$2`, … in the order in
//! which they first appear. Only storing answers and finding them has code of its own in each database: there are many of them.

use std::str::FromStr;

use rusqlite::ToSql;
use rusqlite::types::{FromSql, Value};

use super::answers::{LookupResult, Scope, Stored};
use super::fault::{DbFault, VERSION};
use super::key::{RequestKey, random_secret};
use super::settings::{LedgerSettings, ServerWait};

/// What differs in the statements.
pub(super) struct Dialect {
    /// This moment by the database's clock, in milliseconds since 1970. Not that of a transaction's start, which may have
    /// waited for the lock.
    pub(super) now: &'static str,
    /// Bytes of all that is stored.
    pub(super) bytes: &'static str,
    /// The statements that must follow in the transaction that has removed answers.
    pub(super) after_removal: &'static [&'static str],
    /// The right that this user lacks to rewrite the tables, as a statement that grants it; no row if it lacks none.
    pub(super) missing_grant: &'static str,
    /// The statements that must follow in the transaction that has copied answers.
    pub(super) after_copy: &'static [&'static str],
    /// Starts a transaction that only reads, of one state.
    pub(super) snapshot: &'static str,
}

/// What a database is opened for.
#[derive(Clone, Copy)]
pub(super) enum Purpose<'p> {
    /// A run that starts. It makes the ledger where there is none.
    Run(&'p LedgerSettings),
    /// Another connection of a run under way, which waits for a server like this.
    SecondConnection(&'p ServerWait),
    /// Read-only, beside runs: never checkpoints the log of a file.
    Look,
    /// Removing answers, while no other program uses it. In a file, what is removed is overwritten.
    Admin,
    /// Receiving what another ledger has, while no other program uses it. An empty file is made a ledger.
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

    /// Does something in one transaction, while no other one writes; if that fails, nothing is changed. It may be repeated. What
    /// is not durable may be undone by a power cut, up to the last transaction that is.
    ///
    /// # Errors
    /// It cannot be written, or `work` fails.
    fn transaction(&mut self, durable: bool, work: &mut Work<'_>) -> Result<(), DbFault>;

    /// Stores what became of requests to an account, within a transaction.
    ///
    /// # Errors
    /// It cannot be written.
    fn append(&mut self, account: i64, records: &[(i64, Stored)]) -> Result<(), DbFault>;

    /// Removes what this start of a run has stored about requests with these fingerprints, within a transaction.
    ///
    /// # Errors
    /// It cannot be written.
    fn discard(&mut self, start: i64, fingerprints: &[i64]) -> Result<(), DbFault>;

    /// What is known of each of these requests, in their order. Within a transaction they are about to be claimed.
    ///
    /// # Errors
    /// It cannot be read.
    fn find(&mut self, scope: &Scope, keys: &[RequestKey]) -> Result<Vec<LookupResult>, DbFault>;

    /// Another connection to it, for another thread.
    ///
    /// # Errors
    /// It cannot be made.
    fn beside(&self) -> Result<Box<dyn Database>, DbFault>;

    /// Rewrites it, so that nothing of what was removed is in it.
    ///
    /// # Errors
    /// It cannot be rewritten, for instance on a full disk. What was removed stays removed.
    fn rewrite(&mut self) -> Result<(), DbFault>;

    /// The run has started: a new file stays, and from now on a server is waited for as the run's settings say.
    fn run_starts(&mut self);

    /// Whether the disk is full, so that only answers to calls that are out are still kept.
    fn is_full(&self) -> bool;

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

/// What a ledger says about itself: its secret, and when it was made, in milliseconds since 1970.
///
/// # Errors
/// It is of another version, or damaged.
pub(super) fn read_meta(database: &mut dyn Database) -> Result<([u8; 32], i64), DbFault> {
    read_meta_since(database, VERSION)
}

/// The same of a ledger that may also be of an earlier version, down to the oldest one.
///
/// # Errors
/// It is of another version, or damaged.
pub(super) fn read_meta_since(
    database: &mut dyn Database,
    oldest: i32,
) -> Result<([u8; 32], i64), DbFault> {
    let rows = database.query("SELECT version, secret, created FROM meta", &[])?;
    let row = rows.first().ok_or_else(DbFault::missing)?;
    match row.get(0)? {
        version if (oldest..=VERSION).contains(&version) => Ok((row.hash(1)?, row.get(2)?)),
        version => Err(DbFault::of_version(version)),
    }
}

/// The statement that makes what a ledger says about itself, with the ledger's secret as its value.
pub(super) fn insert_meta(dialect: &Dialect) -> (String, String) {
    let insert = format!("INSERT INTO meta VALUES ({VERSION}, $1, {})", dialect.now);
    (insert, hex(&random_secret()))
}

/// The statements that make the tables: `id` is the type of a key that the database chooses, `integer` that of a number, `bytes`
/// that of bytes, and `table` what is said of a table. That of the answers is its own in each database.
///
/// - `meta`: the secret that keys are made with.
/// - `accounts`: a keyed hash of the address and the service ID; the limits of the service as JSON, and when they were found.
/// - `spending`: by account, day since 1970 and price of a call (`0` where the run gave none), how many calls were made, and how many
///   answers brought a verdict. After some were removed, a row of day 0 takes them away, so that there are at most so many.
/// - `runs`: the name is a hash of the output's path, or random for rows to a stream; then a hash of the input's path; which answers
///   it uses, by the option and from when on; when it first started; the rows without a verdict, once it has ended; the calls of all
///   starts, and what they cost, if the last one gave a price; a random number of its latest start, until when its claims are its
///   own, and how long that lasts at most; and where its files are, as on a server paths do not say on which host.
/// - `claims`: in batches, the requests that a start of a run calls for, or that nobody has any more (run 0), since when.
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
