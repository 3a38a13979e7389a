//! What a ledger asks of its database, whichever that is: a few operations, tables that are the same in both, and statements
//! as text whose results are text.
//!
//! Such statements have only numbers, hashes and our own words in them, and addresses as [`quoted`] text. Only what there are
//! many of has code of its own in each database: storing answers and finding them.

use std::collections::{BTreeSet, HashMap};
use std::str::FromStr;

use super::fault::{DbFault, VERSION};
use super::key::{RequestKey, random_secret};
use super::outcome::{LookupResult, Scope, SealedRecord};
use super::settings::{LedgerSettings, ServerWait};
use crate::base::error::Result as RunResult;

/// What differs in the statements.
pub(super) struct Dialect {
    /// This moment by the database's clock, in milliseconds since 1970. Not that of a transaction's start, which may have
    /// waited for the lock.
    pub(super) now: &'static str,
    /// A random number, which names a start of a run.
    pub(super) random: &'static str,
    /// Bytes of all that is stored.
    pub(super) bytes: &'static str,
    /// What must follow in the transaction that has removed answers.
    pub(super) after_removal: &'static str,
}

/// What a database is opened for.
#[derive(Clone, Copy)]
pub(super) enum Purpose<'p> {
    /// A run that starts. It makes the ledger where there is none.
    Run(&'p LedgerSettings),
    /// Another connection of a run under way, which waits for a server like this.
    Again(&'p ServerWait),
    /// Look-ups beside a connection that writes.
    LookUp,
    /// A look, beside runs, which changes nothing: the log of a file stays as it is, also when nobody else has it open.
    Look,
    /// Removing answers, while nobody else uses it. In a file, what is removed is overwritten.
    Admin,
}

/// Runs statements within a transaction: what they return, one after the other.
pub(super) type Query<'q> = dyn FnMut(&str) -> Result<Vec<TableRow>, DbFault> + 'q;

/// A database with the tables of a ledger.
pub(super) trait Database: Send {
    fn dialect(&self) -> &'static Dialect;

    /// What statements return that need no transaction.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&mut self, queries: &str) -> Result<Vec<TableRow>, DbFault>;

    /// Does something in one transaction, while no other one writes; if that fails, nothing is changed. It may be repeated. What
    /// is not durable may be undone by a power cut, up to the last transaction that is.
    ///
    /// # Errors
    /// It cannot be written, or `work` fails.
    fn transaction(
        &mut self,
        durable: bool,
        work: &mut dyn FnMut(&mut Query<'_>) -> Result<(), DbFault>,
    ) -> Result<(), DbFault>;

    /// Runs statements in one durable transaction: what they return.
    ///
    /// # Errors
    /// It cannot be written.
    fn write(&mut self, statements: &str) -> Result<Vec<TableRow>, DbFault> {
        let mut rows = Vec::new();
        self.transaction(true, &mut |query| {
            rows = query(statements)?;
            Ok(())
        })?;
        Ok(rows)
    }

    /// Stores a group in one transaction: the results of its claims, in their order, once all records are durable. Without
    /// records it need not be durable.
    ///
    /// # Errors
    /// It cannot be written; nothing of the group is stored.
    fn store(&mut self, group: &WriteGroup<'_>) -> Result<Vec<ClaimResult>, DbFault>;

    /// Another connection, for look-ups.
    ///
    /// # Errors
    /// It cannot be made.
    fn lookup(&self, scope: Scope) -> Result<Box<dyn Lookup>, DbFault>;

    /// Rewrites it, so that nothing of what was removed is in it.
    ///
    /// # Errors
    /// It cannot be rewritten, for instance on a full disk. What was removed stays removed.
    fn rewrite(&mut self) -> Result<(), DbFault>;

    /// The run has started: a new file stays, and from now on a server is waited for as the run's settings say.
    fn run_starts(&mut self);

    /// Whether the disk is full, so that only answers to calls that are out are still kept.
    fn is_full(&self) -> bool;

    /// No more answers come: what was kept for them is free, and nobody is waited for much longer.
    fn answers_end(&mut self);
}

/// Looks up what is known of requests. It may be used on another thread than the database.
pub(crate) trait Lookup: Send {
    /// What is known of each of these requests, in their order.
    ///
    /// # Errors
    /// The ledger cannot be read.
    fn look_up(&mut self, keys: &[RequestKey]) -> RunResult<Vec<LookupResult>>;
}

/// What is done in one transaction.
pub(super) struct WriteGroup<'g> {
    /// These statements come first.
    pub(super) statements: String,
    /// What becomes durable, about requests to this account.
    pub(super) records: Vec<SealedRecord>,
    pub(super) account: i64,
    /// After all that, these are looked up again, and claimed if nothing is known. None of them is among the records.
    pub(super) claims: &'g [RequestKey],
    /// Who claims: the run, and the number of its start.
    pub(super) us: (i64, i64),
    /// What is of use to the run.
    pub(super) scope: &'g Scope,
}

/// What a claim led to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClaimResult {
    /// The request is this run's: no other one calls for it.
    Ours {
        /// Another run that is gone had claimed it, and may have called for it.
        taken_over: bool,
    },
    /// It is known by now what became of the request.
    Known(LookupResult),
    /// Another run calls for it now.
    Taken,
}

impl WriteGroup<'_> {
    /// Claims those requests about which nothing is known.
    ///
    /// A claim belongs to one start of a run, and lasts for as long as that start renews its lease. What is left of it then may be
    /// taken over by any run, and may have been billed. What an earlier start of the same run has left is counted when the run
    /// starts.
    pub(super) fn claim(
        &self,
        found: Vec<LookupResult>,
        dialect: &Dialect,
        query: &mut Query<'_>,
    ) -> Result<Vec<ClaimResult>, DbFault> {
        let ((run, start), now) = (self.us, dialect.now);
        let unknown: BTreeSet<_> = { self.claims.iter().zip(&found) }
            .filter(|(_, found)| found.known.is_none())
            .map(|(key, _)| key.fingerprint())
            .collect();
        let mut ours = HashMap::new();
        if !unknown.is_empty() {
            let claims = unknown.iter().map(|it| format!("({it},{run},{start},0)"));
            let claims = claims.collect::<Vec<_>>().join(",");
            let claimed = query(&format!(
                "INSERT INTO claims AS held (fp, run, start, taken_over) VALUES {claims}
                ON CONFLICT (fp) DO UPDATE SET run = excluded.run, start = excluded.start,
                    taken_over = CASE WHEN held.run <> excluded.run THEN 1
                        WHEN held.start = excluded.start THEN held.taken_over ELSE 0 END
                WHERE (held.run = excluded.run AND held.start = excluded.start) OR NOT EXISTS (
                    SELECT 1 FROM runs WHERE id = held.run AND runs.start = held.start AND until >= {now})
                RETURNING fp, taken_over"
            ))?;
            for row in claimed {
                ours.insert(row.get::<i64>(0)?, row.get::<u8>(1)? == 1);
            }
        }
        let result = |(key, found): (&RequestKey, LookupResult)| {
            if found.known.is_some() {
                return ClaimResult::Known(found);
            }
            match ours.get(&key.fingerprint()) {
                Some(&taken_over) => ClaimResult::Ours { taken_over },
                None => ClaimResult::Taken,
            }
        };
        Ok(self.claims.iter().zip(found).map(result).collect())
    }
}

/// Fingerprints as the elements of a list in a statement; never an empty one.
pub(super) fn listed<'k>(keys: impl Iterator<Item = &'k RequestKey>) -> Option<String> {
    let numbers: Vec<_> = keys.map(|key| key.fingerprint().to_string()).collect();
    (!numbers.is_empty()).then(|| numbers.join(","))
}

/// A row of a result, column by column; `None` is NULL.
pub(super) struct TableRow(pub(super) Vec<Option<String>>);

impl TableRow {
    pub(super) fn get<T: FromStr>(&self, column: usize) -> Result<T, DbFault> {
        self.optional(column)?.ok_or_else(DbFault::damaged)
    }

    pub(super) fn optional<T: FromStr>(&self, column: usize) -> Result<Option<T>, DbFault> {
        let cell = self.0.get(column).ok_or_else(DbFault::damaged)?;
        { cell.as_deref() }
            .map(|text| text.parse().map_err(|_| DbFault::damaged()))
            .transpose()
    }

    pub(super) fn hash(&self, column: usize) -> Result<[u8; 32], DbFault> {
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

/// What a ledger says about itself.
pub(super) struct Meta {
    pub(super) secret: [u8; 32],
    /// When it was made, in milliseconds since 1970.
    pub(super) created: i64,
}

impl Meta {
    /// Reads it from a ledger of this version.
    ///
    /// # Errors
    /// It is of another version, or damaged.
    pub(super) fn read(database: &mut dyn Database) -> Result<Self, DbFault> {
        let rows = database.read("SELECT version, secret, secret_hash, created FROM meta")?;
        let row = { rows.first() }.ok_or_else(DbFault::missing)?;
        let version = row.get(0)?;
        if version != VERSION {
            return Err(DbFault::of_version(version));
        }
        let secret = row.hash(1)?;
        // With another one, nothing would be found.
        if row.hash(2)? != *blake3::hash(&secret).as_bytes() {
            return Err(DbFault::damaged());
        }
        Ok(Self {
            secret,
            created: row.get(3)?,
        })
    }

    /// The statement that makes a ledger's own.
    pub(super) fn insert(dialect: &Dialect) -> String {
        let secret = random_secret();
        format!(
            "INSERT INTO meta VALUES ({VERSION}, '{}', '{}', {})",
            hex(&secret),
            blake3::hash(&secret),
            dialect.now
        )
    }
}

/// The statements that make the tables: `id` is the type of a key that the database chooses, `integer` that of a number, and
/// `table` what is said of a table. That of the answers is its own in each database.
///
/// - `meta`: the secret that keys are made with, which a hash of it protects.
/// - `accounts`: a keyed hash of the address and the service ID; how many answers brought a verdict, or at most so many after some
///   were removed; the limits of the service as JSON, and when they were found.
/// - `runs`: the name is a hash of the output's path, or random for rows to a stream; then a hash of the input's path; which answers
///   it uses, by the option and from when on; when it first started; the rows without a verdict, once it has ended; the calls of all
///   starts; a random number of its latest start, and until when its claims are its own; and where its files are, as on a server
///   paths do not say on which host.
/// - `claims`: requests that a start of a run calls for, and whether a run that was gone had them before.
/// - `outputs`: how runs have left their files.
pub(super) fn tables(id: &str, integer: &str, table: &str) -> String {
    format!(
        "CREATE TABLE meta (version INTEGER NOT NULL, secret TEXT NOT NULL, secret_hash TEXT NOT NULL,
            created {integer} NOT NULL) {table};
        CREATE TABLE accounts (id {id}, hash TEXT NOT NULL UNIQUE, address TEXT NOT NULL,
            answers {integer} NOT NULL, limits TEXT, limits_at {integer}) {table};
        CREATE TABLE runs (id {id}, name TEXT NOT NULL UNIQUE, input TEXT NOT NULL,
            reuse TEXT NOT NULL, not_before {integer} NOT NULL, failures_from {integer} NOT NULL,
            started {integer} NOT NULL, failed {integer}, calls {integer} NOT NULL,
            in_flight {integer} NOT NULL, start {integer} NOT NULL, until {integer} NOT NULL,
            place TEXT NOT NULL) {table};
        CREATE TABLE claims (fp {integer} NOT NULL PRIMARY KEY, run {integer} NOT NULL,
            start {integer} NOT NULL, taken_over {integer} NOT NULL) {table};
        CREATE TABLE outputs (path TEXT, size {integer}, modified {integer}, input TEXT,
            PRIMARY KEY (path, size, modified, input)) {table};"
    )
}
