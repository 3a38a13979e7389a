//! What both databases have in common: tables that are the same in both, and statements as text whose results are text.
//!
//! Such statements have only numbers, hashes and our own words in them, and addresses as [`quoted`] text. Answers and claims,
//! of which there are many, have statements of their own in each database.

use std::fmt::Display;
use std::str::FromStr;

use crate::base::error::Error;

/// The schema's version. A ledger of another version is refused and never guessed at.
pub(crate) const VERSION: i32 = 3;

/// The error for a ledger of another version, without what to do.
pub(super) fn of_another_version(ledger: impl Display, version: i32) -> Error {
    Error::usage(format!(
        "`{ledger}` is a ledger of version {version}, and this program knows version {VERSION}"
    ))
}

/// A database with the tables of a ledger.
pub(super) trait Database {
    /// Why something has no result.
    type Fault: From<Damaged>;
    /// This moment by the database's clock, in milliseconds since 1970. Not that of a transaction's start, which may have
    /// waited for the lock.
    const NOW: &'static str;
    /// A random number, which names a start of a run.
    const RANDOM: &'static str;

    /// What queries return.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&mut self, queries: &str) -> Result<Vec<TableRow>, Self::Fault>;

    /// Runs statements in one transaction, while no other one writes: what they return.
    ///
    /// # Errors
    /// It cannot be written.
    fn write(&mut self, statements: &str) -> Result<Vec<TableRow>, Self::Fault>;
}

/// What is stored cannot come from this program.
#[derive(Debug)]
pub(super) struct Damaged;

/// A row of a result, column by column; `None` is NULL.
pub(super) struct TableRow(pub(super) Vec<Option<String>>);

impl TableRow {
    pub(super) fn get<T: FromStr>(&self, column: usize) -> Result<T, Damaged> {
        self.optional(column)?.ok_or(Damaged)
    }

    pub(super) fn optional<T: FromStr>(&self, column: usize) -> Result<Option<T>, Damaged> {
        let cell = self.0.get(column).ok_or(Damaged)?;
        { cell.as_deref() }
            .map(|text| text.parse().map_err(|_| Damaged))
            .transpose()
    }

    pub(super) fn hash(&self, column: usize) -> Result<[u8; 32], Damaged> {
        self.get::<blake3::Hash>(column).map(Into::into)
    }
}

/// A hash as it is stored.
pub(super) fn hex(hash: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*hash).to_string()
}

/// A text that is not ours, as SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The statements that make the tables: `id` is the type of a key that the database chooses, `integer` that of a number, and
/// `table` what is said of a table.
pub(super) fn tables(id: &str, integer: &str, table: &str) -> String {
    format!(
        "
    CREATE TABLE accounts (
        id {id},
        -- A keyed hash of the address and the service ID.
        hash TEXT NOT NULL UNIQUE,
        address TEXT NOT NULL,
        -- How many answers there are that brought a verdict; after some were removed, so many at most.
        answers {integer} NOT NULL,
        -- The limits of the service, as JSON, and when they were found.
        limits TEXT,
        limits_at {integer}
    ) {table};
    CREATE TABLE runs (
        id {id},
        -- A hash of the output's path; random for rows to a stream.
        name TEXT NOT NULL UNIQUE,
        -- A hash of the input's path.
        input TEXT NOT NULL,
        -- Which answers it uses: the option, and from when on.
        reuse TEXT NOT NULL,
        not_before {integer} NOT NULL,
        failures_from {integer} NOT NULL,
        started {integer} NOT NULL,
        -- The rows without a verdict, once it has ended.
        failed {integer},
        -- Calls of all starts.
        calls {integer} NOT NULL,
        in_flight {integer} NOT NULL,
        -- A random number of its latest start, and until when its claims are its own.
        start {integer} NOT NULL,
        until {integer} NOT NULL,
        -- Where its files are: on a server, paths do not say on which host.
        place TEXT NOT NULL
    ) {table};
    -- How runs have left their files.
    CREATE TABLE outputs (
        path TEXT, size {integer}, modified {integer}, input TEXT,
        PRIMARY KEY (path, size, modified, input)
    ) {table};
"
    )
}
