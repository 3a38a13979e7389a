//! The tables of a ledger, and whether a database has just these.
//!
//! It must not know what is done with them.

use rusqlite::Connection;

use super::sqlite::damaged;

/// The schema's version. What another version has written is refused, never guessed at.
pub(super) const VERSION: i32 = 1;

/// The tables.
pub(super) const SCHEMA: &str = "
    -- All times are milliseconds since 1970. A checksum is over all values of its row unless stated otherwise.

    -- One row: the secret that all keys are made with and its checksum, when the ledger was created, and the time from
    -- which answers are new to the last run that used no older ones.
    CREATE TABLE ledger (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        secret BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        created INTEGER NOT NULL,
        fresh_from INTEGER NOT NULL
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
        -- How many rows had been asked about and had no verdict at the end of the input; null before that.
        finished INTEGER,
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
    -- Requests that the service failed on while it answered others, and when it last did. The row is that of answers.
    CREATE TABLE failing_requests (
        key BLOB NOT NULL,
        row INTEGER NOT NULL,
        context INTEGER NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (key, row)
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
    CREATE TABLE answers (
        -- A keyed hash of the request.
        key BLOB NOT NULL,
        -- 0 where equal rows share the answer; the row's number where each row was asked on its own.
        row INTEGER NOT NULL,
        context INTEGER NOT NULL,
        transaction_id TEXT NOT NULL,
        -- The digits as sent.
        score TEXT NOT NULL,
        -- A row of captures, and the values of its fields: a JSON array of their JSON as text, null for an absent field.
        capture INTEGER,
        captured TEXT,
        -- When it arrived.
        at INTEGER NOT NULL,
        -- The score of the answer that this one replaced, and when that one had arrived.
        replaced TEXT,
        replaced_at INTEGER,
        -- Over all values but the context and the last time.
        checksum INTEGER NOT NULL,
        PRIMARY KEY (key, row)
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
