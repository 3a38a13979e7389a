//! The tables of a ledger: creating them, checking them, and the one row that describes the ledger itself.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::checksum::Checksums;
use super::errors::damaged;
use super::header::{VERSION, application_id, kind_of};
use crate::ledger::clock::MAX_AHEAD;
use crate::ledger::file::LedgerKind;

/// The largest ledger that is checked completely when it is opened, in bytes: some 1,400,000 answers, which takes a quarter
/// of a second. In a larger one damage to a page is found when it is read, which may be after the first call.
const CHECKED_COMPLETELY: u64 = 64 * 1024 * 1024;

/// The tables.
const SCHEMA: &str = "
    -- All times are milliseconds since 1970. A checksum is over all values of its row unless stated otherwise.

    -- One row: the secret that all keys are made with and its checksum, when the ledger was created, the time from
    -- which answers are new to the last run that used no older ones, and the last block whose answers are in the index.
    CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        secret BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        created INTEGER NOT NULL,
        fresh_from INTEGER NOT NULL,
        indexed INTEGER NOT NULL
    ) STRICT;
    -- Output files as runs left them: keyed hashes of their paths and of the runs' inputs, and when they were last
    -- modified (nanoseconds since 1970).
    CREATE TABLE outputs (
        path BLOB NOT NULL,
        size INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        input BLOB NOT NULL,
        PRIMARY KEY (path, size, modified, input)
    ) STRICT, WITHOUT ROWID;
    -- Who was asked: a hash of address and service ID, and the address in plain text.
    CREATE TABLE contexts (
        id INTEGER PRIMARY KEY,
        hash BLOB NOT NULL UNIQUE,
        endpoint TEXT NOT NULL,
        -- Over the hash.
        checksum INTEGER NOT NULL
    ) STRICT;
    -- The additional answer fields that runs asked for, as pointers, and when a run last did.
    CREATE TABLE fields (pointer TEXT PRIMARY KEY, requested INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    -- The fields that an answer was stored with: a JSON array of pointers.
    CREATE TABLE captures (
        id INTEGER PRIMARY KEY,
        pointers TEXT NOT NULL UNIQUE,
        checksum INTEGER NOT NULL
    ) STRICT;
    -- Runs that have not reached the end of their input, and those that have and left rows without a verdict.
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        -- A hash of the output.
        name BLOB NOT NULL UNIQUE,
        started INTEGER NOT NULL,
        -- Older answers are not used.
        not_before INTEGER NOT NULL,
        -- Whether answers of an earlier run are still there, to be replaced by this run's first answer.
        leftover INTEGER NOT NULL,
        -- At its end: the rows that had been asked about and had no verdict, and those that had not.
        finished INTEGER,
        unsent INTEGER NOT NULL,
        -- In the ledger of one run: the most calls whose answers a kill can lose; 0 once the run has ended.
        calls INTEGER NOT NULL,
        -- Whether only failed rows are left of the inputs that could be used, as others could not be.
        only_failed INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT;
    -- Requests that a run must not send again: the outcome is unknown, the answer useless, or the service refused them.
    -- The row is that of answers.
    CREATE TABLE failures (
        key BLOB NOT NULL,
        row INTEGER NOT NULL,
        run INTEGER NOT NULL,
        reason TEXT NOT NULL,
        -- The message, sealed: only who has the request can read it.
        message BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (key, row, run)
    ) STRICT, WITHOUT ROWID;
    -- The load that the service was found to accept: calls per second and calls in flight, each with how often it refused
    -- above that and accepted below, and when it last showed that.
    CREATE TABLE limits (
        context INTEGER PRIMARY KEY,
        rate REAL,
        rate_times INTEGER,
        in_flight REAL,
        in_flight_times INTEGER,
        at INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT;
    -- Runs that are under way in a ledger that several share, and until when they may be taken for alive.
    CREATE TABLE workers (id INTEGER PRIMARY KEY, alive_until INTEGER NOT NULL) STRICT;
    -- Requests that workers call for, and since when: 64 bits of each key. The upper half of a number is that of the worker.
    -- Where there is no such worker any more, it may have called for them.
    CREATE TABLE claims (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, keys BLOB NOT NULL) STRICT;
    -- Answers in the order in which they came, packed, some in a block. No block's number is given twice.
    CREATE TABLE answer_blocks (
        id INTEGER PRIMARY KEY,
        context INTEGER NOT NULL,
        -- The fields that the answers were stored with: a row of captures.
        capture INTEGER,
        -- When the first one arrived.
        at INTEGER NOT NULL,
        -- How many there are.
        answers INTEGER NOT NULL,
        -- Of each answer: the keyed hash of the request (and the row's number, where each row was asked on its own), the
        -- time, the transaction id, the score's digits, the values of captured fields, the score of the answer that it
        -- replaced, when that one had arrived, and in which block it was.
        bytes BLOB NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT;
    -- In which blocks answers are: the beginnings of hashes with numbers of blocks, in order, in chunks.
    CREATE TABLE answer_index (
        -- The first hash of the chunk.
        first INTEGER PRIMARY KEY,
        entries BLOB NOT NULL
    ) STRICT;
";

/// Creates the tables in an empty file. Two processes may do this at the same time: the second finds the work done.
pub(super) fn create(connection: &Connection, kind: LedgerKind) -> rusqlite::Result<()> {
    let is_empty = || {
        let version: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        Ok::<_, rusqlite::Error>(version == 0)
    };
    if !is_empty()? {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Exclusive)?;
    if is_empty()? {
        transaction.execute_batch(SCHEMA)?;
        // SQLite's generator is seeded by the system's, and good enough for keys of this kind.
        let secret = transaction.query_row("SELECT randomblob(32)", [], |row| row.get(0))?;
        transaction.execute(
            "INSERT INTO ledger VALUES (1, ?, ?, CAST(1000 * unixepoch('subsec') AS INTEGER), 0, 0)",
            params![secret, checksum_of_secret(&secret)],
        )?;
        transaction.pragma_update(None, "application_id", application_id(kind))?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// The kind of ledger that a connection is open to.
pub(crate) fn kind(connection: &Connection) -> rusqlite::Result<Option<LedgerKind>> {
    connection.query_row("PRAGMA application_id", [], |row| row.get(0).map(kind_of))
}

/// The version of the ledger that a connection is open to.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// What a ledger says about itself.
pub(crate) struct LedgerInfo {
    pub(crate) secret: [u8; 32],
    /// In milliseconds since 1970.
    pub(crate) created: i64,
}

impl LedgerInfo {
    /// Reads it.
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let (info, checksum) =
            connection.query_row("SELECT secret, created, checksum FROM ledger", [], |row| {
                let info = Self {
                    secret: row.get(0)?,
                    created: row.get(1)?,
                };
                Ok((info, row.get::<_, i64>(2)?))
            })?;
        // With another secret nothing would be found, and everything would be paid for again.
        if checksum == checksum_of_secret(&info.secret) {
            Ok(info)
        } else {
            Err(damaged())
        }
    }

    /// What makes the ledger's checksums.
    pub(crate) const fn checksums(&self) -> Checksums {
        Checksums::new(self.secret)
    }
}

fn checksum_of_secret(secret: &[u8; 32]) -> i64 {
    Checksums::new(*secret).of("ledger", [])
}

/// The time from which answers are new to a run that starts now and uses no older ones. Each such run has a time of its
/// own, ahead of the clock if need be: several may start within a millisecond, and clocks are set back.
pub(crate) fn fresh_from(connection: &Connection, now: i64) -> rusqlite::Result<i64> {
    connection.query_row(
        "UPDATE ledger SET fresh_from = max(?1 + 1, min(fresh_from, ?1 + ?2) + 1) RETURNING fresh_from",
        [now, MAX_AHEAD],
        |row| row.get(0),
    )
}

/// The answers of all blocks up to this one are in the index.
pub(super) fn set_indexed(connection: &Connection, last: u32) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE ledger SET indexed = max(indexed, ?)")?
        .execute([last])
        .map(drop)
}

/// Fails when a ledger is damaged, as far as that can be told without looking at each answer.
pub(crate) fn check_soundness(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    check_tables(connection)?;
    if path
        .metadata()
        .is_ok_and(|file| file.len() > CHECKED_COMPLETELY)
    {
        return Ok(());
    }
    check_pages(connection)
}

/// Fails when a ledger is damaged, however large it is: all of it is read.
pub(crate) fn check_completely(connection: &Connection) -> rusqlite::Result<()> {
    check_tables(connection)?;
    check_pages(connection)?;
    LedgerInfo::read(connection).map(drop)
}

fn check_pages(connection: &Connection) -> rusqlite::Result<()> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        Ok(())
    } else {
        Err(damaged())
    }
}

/// Fails when the tables are not as they were created: damage to them could have any effect.
fn check_tables(connection: &Connection) -> rusqlite::Result<()> {
    let expected = Connection::open_in_memory()?;
    expected.execute_batch(SCHEMA)?;
    if tables(connection)? == tables(&expected)? {
        Ok(())
    } else {
        Err(damaged())
    }
}

/// The tables as SQLite knows them.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<(String, Option<String>)>> {
    connection
        .prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}
