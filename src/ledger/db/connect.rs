//! Connections to a ledger's database: how each is opened, and what keeps the file in order.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tokio::time::Instant;

use super::errors::{is_busy, is_damage};
use super::schema;
use crate::ledger::file::{self, LedgerKind};

/// How long a run waits for a database that another program has locked. The longest hold is a group of answers, or a
/// `prune` of a large file.
const RUN_WAITS: Duration = Duration::from_secs(30);

/// How long a command of a person waits for another program that holds the ledger, or an old state of it. A run holds it
/// for a group of answers; what holds it longer is not a run.
pub(crate) const COMMAND_WAITS: Duration = Duration::from_secs(5);

/// How a connection is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connect {
    pub(crate) mode: Mode,
    pub(crate) durability: Durability,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A run's answers. An empty file becomes a ledger of this kind.
    Create(LedgerKind),
    /// Something else to write while the run has the ledger open.
    Write,
    /// Lookups beside a connection that writes.
    Read,
    /// A look for a person, which changes nothing: the log stays as it is, also when nobody else has the ledger open.
    Inspect,
    /// Removing answers beside others that use the ledger. What is removed is overwritten.
    Erase,
    /// As [`Mode::Erase`], keeping others out until the connection is closed; fails where there are any.
    EraseAlone,
}

/// What a commit promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// What was committed survives a power cut.
    Synced,
    /// What was committed may be undone by a power cut, up to the last commit that was synced.
    Ordered,
    /// It need not: the ledger is removed with the run.
    Unsynced,
}

impl Connect {
    /// A connection for this, whose commits are durable.
    pub(crate) const fn to(mode: Mode) -> Self {
        Self {
            mode,
            durability: Durability::Synced,
        }
    }

    /// Opens an existing file.
    pub(crate) fn open(self, path: &Path) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(match self.mode {
            Mode::Create(_) | Mode::Write | Mode::Read => RUN_WAITS,
            Mode::Inspect | Mode::Erase => COMMAND_WAITS,
            Mode::EraseAlone => Duration::ZERO,
        })?;
        match self.mode {
            Mode::Create(kind) => self.create(&connection, kind)?,
            Mode::Write => self.prepare(&connection)?,
            Mode::Read => {
                only_read(&connection)?;
                // Opens the log now: later the file may have lost its name.
                connection.query_row("PRAGMA schema_version", [], |_| Ok(()))?;
            }
            Mode::Inspect => {
                // Without a log, closing removes what opening created.
                let has_log = file::log_of(path).metadata().is_ok_and(|log| log.len() > 0);
                connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
                only_read(&connection)?;
            }
            Mode::Erase => self.prepare_to_erase(&connection)?,
            Mode::EraseAlone => {
                // Before anything is read: with the lock, SQLite needs no memory that others share.
                connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
                self.prepare_to_erase(&connection)?;
            }
        }
        Ok(connection)
    }

    fn create(self, connection: &Connection, kind: LedgerKind) -> rusqlite::Result<()> {
        let started = Instant::now();
        // Where several runs create a ledger together, SQLite does not wait for the lock with which it starts the log.
        loop {
            let created = schema::create(connection, kind).and_then(|()| self.prepare(connection));
            match created {
                Err(error) if is_busy(&error) && started.elapsed() < RUN_WAITS => pause(),
                created => return created,
            }
        }
    }

    fn prepare(self, connection: &Connection) -> rusqlite::Result<()> {
        // With a log, readers and the writer do not wait for each other.
        let mode: String =
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
            let words = "the file system has no shared memory, which a ledger needs".to_owned();
            return Err(rusqlite::Error::SqliteFailure(code, Some(words)));
        }
        set_durability(connection, self.durability)?;
        // Pages of 4 KiB. After the first checkpoint the log is overwritten, and while a file does not grow, each sync costs
        // half; but each checkpoint syncs the database as well.
        connection.pragma_update(None, "wal_autocheckpoint", 1_000)?;
        set_cache(connection)
    }

    fn prepare_to_erase(self, connection: &Connection) -> rusqlite::Result<()> {
        self.prepare(connection)?;
        connection.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))
    }
}

/// Sets what commits promise from now on.
pub(super) fn set_durability(
    connection: &Connection,
    durability: Durability,
) -> rusqlite::Result<()> {
    let synchronous = match durability {
        Durability::Synced => "FULL",
        Durability::Ordered => "NORMAL",
        Durability::Unsynced => "OFF",
    };
    connection.pragma_update(None, "synchronous", synchronous)
}

fn only_read(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "query_only", true)?;
    set_cache(connection)
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
pub(crate) fn writing(connection: &Connection) -> rusqlite::Result<Transaction<'_>> {
    Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
}

/// The version of the database that this connection sees: another one where another connection has written since.
pub(super) fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("PRAGMA data_version")?
        .query_row([], |row| row.get(0))
}

/// Whether a ledger is damaged, however large it is: all of it is read.
pub(crate) fn is_damaged(path: &Path) -> bool {
    Connect::to(Mode::Read)
        .open(path)
        .and_then(|connection| schema::check_completely(&connection))
        .is_err_and(|error| is_damage(&error))
}

/// Whether pages of the file are unused.
pub(crate) fn has_unused_pages(connection: &Connection) -> rusqlite::Result<bool> {
    let unused: i64 = connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
    Ok(unused > 0)
}

/// Rewrites the file, so that it has no unused bytes.
pub(crate) fn rewrite(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("VACUUM")
}

/// Copies the log into the file and truncates it; `false` where a reader of an old state is in the way. While this waits,
/// for at most `wait`, nobody writes.
pub(crate) fn empty_log(connection: &Connection, wait: Duration) -> rusqlite::Result<bool> {
    connection.busy_timeout(wait)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, i64>(0)
    });
    match busy {
        Err(error) if is_busy(&error) => Ok(false),
        busy => Ok(busy? == 0),
    }
}
