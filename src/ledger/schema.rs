//! The tables of a ledger, and whether a database has just these.
//!
//! It must not know what is done with them.

use rusqlite::Connection;

use super::sqlite::damaged;

/// The schema's version. What another version has written is refused, never guessed at.
pub(super) const VERSION: i32 = 4;

/// The tables.
pub(super) const SCHEMA: &str = "
    -- All times are milliseconds since 1970. Checksums are over all values of a row but as said.
    -- One row: the secret that all keys are made with and its checksum, when the ledger was made, and the time from which
    -- on answers are new to the last run that used none from before.
    CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        secret BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        begun INTEGER NOT NULL,
        fresh_from INTEGER NOT NULL
    ) STRICT;
    -- Files as runs left them: keyed hashes of their paths and of the runs' inputs, and when they were changed last
    -- (nanoseconds since 1970).
    CREATE TABLE files (
        path BLOB NOT NULL,
        size INTEGER NOT NULL,
        modified INTEGER NOT NULL,
        input BLOB NOT NULL,
        PRIMARY KEY (path, size, modified, input)
    ) STRICT, WITHOUT ROWID;
    -- Who was asked: a hash of address and service id, and the address for people to read.
    CREATE TABLE contexts (
        id INTEGER PRIMARY KEY,
        hash BLOB NOT NULL UNIQUE,
        endpoint TEXT NOT NULL,
        -- Over the hash.
        checksum INTEGER NOT NULL
    ) STRICT;
    -- Which further fields runs wanted of an answer, as pointers, and when the last time.
    CREATE TABLE fields (pointer TEXT PRIMARY KEY, wanted INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    -- Which of them were kept of an answer: a JSON array of pointers.
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
        begun INTEGER NOT NULL,
        -- Answers from before are not used.
        not_before INTEGER NOT NULL,
        -- Whether answers of an earlier run are still there, which the first answer of this one replaces.
        leftover INTEGER NOT NULL,
        -- How many rows had been asked and had no verdict when it reached the end; null before that.
        finished INTEGER,
        checksum INTEGER NOT NULL
    ) STRICT;
    -- Requests that a run is not to send again: the outcome is unknown, the answer useless, or the service refused them.
    CREATE TABLE failures (
        key BLOB NOT NULL,
        run INTEGER NOT NULL,
        reason TEXT NOT NULL,
        -- The message, sealed: it can be read only with the request at hand.
        message BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (key, run)
    ) STRICT, WITHOUT ROWID;
    -- Requests over which the service failed while it answered others, and when it did so last.
    CREATE TABLE poison (
        key BLOB PRIMARY KEY,
        context INTEGER NOT NULL,
        at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    -- How much the service was found to bear: calls a second and calls in flight, each with how often it refused above
    -- and accepted below, and when it showed that.
    CREATE TABLE limits (
        context INTEGER PRIMARY KEY,
        rate REAL,
        rate_times INTEGER,
        in_flight REAL,
        in_flight_times INTEGER,
        at INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE answers (
        key BLOB PRIMARY KEY,
        context INTEGER NOT NULL,
        transaction_id TEXT NOT NULL,
        -- The digits as sent.
        score TEXT NOT NULL,
        -- The values of a row of captures: a JSON array of their JSON as text, null where a field was absent.
        capture INTEGER,
        captured TEXT,
        -- When it came.
        at INTEGER NOT NULL,
        -- The score of the answer that it took the place of, and when that had come.
        replaced TEXT,
        replaced_at INTEGER,
        -- Over all but the context and the last time.
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// Fails when the tables are not as they were made: what is damaged there has any effect.
pub(super) fn check_schema(connection: &Connection) -> rusqlite::Result<()> {
    if schema_of(connection)? == expected_schema()? {
        Ok(())
    } else {
        Err(damaged())
    }
}

/// The tables as SQLite knows them.
fn schema_of(connection: &Connection) -> rusqlite::Result<Vec<(String, Option<String>)>> {
    connection
        .prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

fn expected_schema() -> rusqlite::Result<Vec<(String, Option<String>)>> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch(SCHEMA)?;
    schema_of(&connection)
}
