//! Connections to a ledger's file: how each is opened, and what keeps the file in order.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::time::Instant;

use super::errors::{damaged, is_busy};
use super::schema;
use crate::ledger::database::{Damaged, Database, TableRow};
use crate::ledger::file;

/// How long a run waits for a database that another program has locked. The longest hold is a group of answers.
const RUN_WAITS: Duration = Duration::from_secs(30);
/// How long a command of a person waits. What holds a ledger longer than a group of answers is not a run.
const COMMAND_WAITS: Duration = Duration::from_secs(5);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A run's answers. An empty file becomes a ledger.
    Run,
    /// Look-ups beside a connection that writes.
    Read,
    /// A look for a person, which changes nothing: the log stays as it is, also when nobody else has the ledger open.
    Inspect,
    /// Removing answers while nobody else has the ledger open. What is removed is overwritten.
    Alone,
}

/// Opens an existing file, or a database that has none and is gone with the connection.
pub(super) fn open(path: Option<&Path>, mode: Mode) -> rusqlite::Result<Connection> {
    let Some(path) = path else {
        let connection = Connection::open("")?;
        schema::create(&connection)?;
        // Nothing of it survives the process, so nothing is synced.
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
        set_cache(&connection)?;
        return Ok(connection);
    };
    // The path was resolved before: a link that has taken its place since is not followed.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(match mode {
        Mode::Run | Mode::Read => RUN_WAITS,
        Mode::Inspect => COMMAND_WAITS,
        Mode::Alone => Duration::ZERO,
    })?;
    match mode {
        Mode::Run => create(&connection)?,
        Mode::Read => connection.pragma_update(None, "query_only", true)?,
        Mode::Inspect => {
            // Without a log, closing removes what opening created.
            let has_log = file::log_of(path).metadata().is_ok_and(|log| log.len() > 0);
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
            connection.pragma_update(None, "query_only", true)?;
        }
        Mode::Alone => {
            // Before anything is read: with the lock, SQLite needs no memory that others share.
            connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
            prepare(&connection)?;
            connection.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
        }
    }
    set_cache(&connection)?;
    Ok(connection)
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    let started = Instant::now();
    // Where several runs create a ledger together, SQLite does not wait for the lock with which it starts the log.
    loop {
        match schema::create(connection).and_then(|()| prepare(connection)) {
            Err(error) if is_busy(&error) && started.elapsed() < RUN_WAITS => pause(),
            created => return created,
        }
    }
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    // With a log, readers and the writer do not wait for each other.
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        let words = "the file system has no shared memory, which a ledger needs".to_owned();
        return Err(rusqlite::Error::SqliteFailure(code, Some(words)));
    }
    set_synced(connection, true)?;
    // Pages of 4 KiB. After the first checkpoint the log is overwritten, and while a file does not grow, each sync costs
    // half; but each checkpoint syncs the database as well.
    connection.pragma_update(None, "wal_autocheckpoint", 1_000)
}

/// Sets whether commits survive a power cut from now on, or may be undone by one, up to the last one that does.
pub(super) fn set_synced(connection: &Connection, synced: bool) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", if synced { "FULL" } else { "NORMAL" })
}

/// Memory of a connection, in KiB: the upper levels of the tables of fifty million answers, and what a group of them
/// changes. Twice as much makes a run 4 MiB larger, and not measurably faster.
fn set_cache(connection: &Connection) -> rusqlite::Result<()> {
    // More statements than `rusqlite` keeps by itself are in use all the time.
    connection.set_prepared_statement_cache_capacity(32);
    connection.pragma_update(None, "cache_size", -2_048)
}

/// Gives other programs time to release the ledger.
#[allow(
    clippy::disallowed_methods,
    reason = "no call is made before the ledger is open"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

/// A transaction that takes the write lock when it starts: one that reads first could find the ledger changed when it
/// writes.
pub(super) fn writing(connection: &Connection) -> rusqlite::Result<Transaction<'_>> {
    Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
}

impl Database for Connection {
    type Fault = rusqlite::Error;
    const NOW: &'static str = "cast(unixepoch('subsec') * 1000 AS INTEGER)";
    const RANDOM: &'static str = "random()";

    fn read(&mut self, queries: &str) -> rusqlite::Result<Vec<TableRow>> {
        rows(self, queries)
    }

    fn write(&mut self, statements: &str) -> rusqlite::Result<Vec<TableRow>> {
        let transaction = writing(self)?;
        let rows = rows(&transaction, statements)?;
        transaction.commit()?;
        Ok(rows)
    }
}

impl From<Damaged> for rusqlite::Error {
    fn from(_: Damaged) -> Self {
        damaged()
    }
}

/// What statements return, one after the other.
pub(super) fn rows(connection: &Connection, statements: &str) -> rusqlite::Result<Vec<TableRow>> {
    let (mut all, mut batch) = (Vec::new(), Batch::new(connection, statements));
    while let Some(mut statement) = batch.next()? {
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let cell = |column| match row.get_ref(column)? {
                ValueRef::Null => Ok(None),
                ValueRef::Integer(number) => Ok(Some(number.to_string())),
                text => Ok(Some(text.as_str()?.to_owned())),
            };
            all.push(TableRow(
                (0..columns).map(cell).collect::<rusqlite::Result<_>>()?,
            ));
        }
    }
    Ok(all)
}
