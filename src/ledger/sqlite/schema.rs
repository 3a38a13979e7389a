//! The tables of a ledger in a file, and whether a file is one.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::errors::{self, damaged};
use crate::base::error::Result;
use crate::base::sqlite_file::MAGIC;
use crate::ledger::clock;
use crate::ledger::database::{self, VERSION, of_another_version};
use crate::ledger::key::random_secret;

/// The number in the file's head that marks it as a ledger: "rscl".
const APPLICATION_ID: i32 = 0x7273_636c;
/// Those of ledgers before version 3: "rsco" and "rscs".
const EARLIER_IDS: [i32; 2] = [0x7273_636f, 0x7273_6373];

/// A file up to this size is checked completely when it is opened, which takes a tenth of a second.
const CHECKED_COMPLETELY: u64 = 64 * 1024 * 1024;

const SCHEMA: &str = "
    CREATE TABLE meta (
        -- What keys are made with, and a hash of it: with another one nothing would be found.
        secret BLOB NOT NULL,
        created INTEGER NOT NULL,
        -- All answers up to this one are in `idx`.
        merged_up_to INTEGER NOT NULL,
        -- No answer behind this one has been replaced by a later one.
        replaced_up_to INTEGER NOT NULL
    ) STRICT;
    -- Appended, and never changed.
    CREATE TABLE answers (
        seq INTEGER PRIMARY KEY,
        fp INTEGER NOT NULL,
        account INTEGER NOT NULL,
        at INTEGER NOT NULL,
        sealed BLOB NOT NULL
    ) STRICT;
    CREATE TABLE idx (fp INTEGER, seq INTEGER, PRIMARY KEY (fp, seq)) WITHOUT ROWID, STRICT;
    -- Requests that a start of a run calls for.
    CREATE TABLE claims (fp INTEGER PRIMARY KEY, run INTEGER NOT NULL, start INTEGER NOT NULL) STRICT;
";

/// The statements that make all tables.
fn all_tables() -> String {
    database::tables("INTEGER PRIMARY KEY", "INTEGER", "STRICT") + SCHEMA
}

/// Makes the tables in an empty file.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    let is_empty = || {
        let version: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        Ok::<_, rusqlite::Error>(version == 0)
    };
    if !is_empty()? {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Exclusive)?;
    if is_empty()? {
        transaction.execute_batch(&all_tables())?;
        let secret = with_check(&random_secret());
        let meta = params![secret, clock::now()];
        transaction.execute("INSERT INTO meta VALUES (?, ?, 0, 0)", meta)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// A secret with a hash of itself behind it.
fn with_check(secret: &[u8; 32]) -> Vec<u8> {
    [*secret, *blake3::hash(secret).as_bytes()].concat()
}

/// What a ledger says about itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meta {
    pub(super) secret: [u8; 32],
    /// In milliseconds since 1970.
    pub(super) created: i64,
    pub(super) merged: i64,
    pub(super) replaced: i64,
}

impl Meta {
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let (checked, meta) = connection
            .prepare_cached("SELECT secret, created, merged_up_to, replaced_up_to FROM meta")?
            .query_row([], |row| {
                let checked: Vec<u8> = row.get(0)?;
                let secret = { checked.get(..32) }.and_then(|it| it.try_into().ok());
                let meta = Self {
                    secret: secret.unwrap_or_default(),
                    created: row.get(1)?,
                    merged: row.get(2)?,
                    replaced: row.get(3)?,
                };
                Ok((checked, meta))
            })?;
        if with_check(&meta.secret) == checked {
            Ok(meta)
        } else {
            Err(damaged())
        }
    }
}

/// Refuses a file that is not a ledger of this version, without changing it; whether there is a ledger. `shown` is its path as the
/// user gave it. To be called before the first connection: it opens and closes the file, which on some systems would end SQLite's
/// locks.
///
/// # Errors
/// Exit code 2: it is not a ledger, is of another version, or cannot be read.
pub(super) fn check_head(path: &Path, shown: &Path) -> Result<bool> {
    // Where SQLite's head of a file has them, beside `MAGIC`.
    const LENGTH: u64 = 100;
    const USER_VERSION: usize = 60;
    const APPLICATION: usize = 68;
    let unreadable = |e| errors::unreadable(shown).because(e);
    let mut head = Vec::new();
    match File::open(path) {
        Ok(file) => file
            .take(LENGTH)
            .read_to_end(&mut head)
            .map_err(unreadable)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(unreadable(e)),
    };
    let number = |at: usize| {
        let bytes = head.get(at..at + 4)?;
        Some(i32::from_be_bytes(bytes.try_into().ok()?))
    };
    let (id, version) = (number(APPLICATION), number(USER_VERSION));
    let is_database = head.starts_with(MAGIC);
    if head.is_empty() || (is_database && id == Some(0) && version == Some(0) && is_blank(path)) {
        return Ok(false);
    }
    match (id, version) {
        (Some(APPLICATION_ID), Some(VERSION)) if is_database => Ok(true),
        (Some(id), Some(version))
            if is_database && (id == APPLICATION_ID || EARLIER_IDS.contains(&id)) =>
        {
            Err(of_another_version(shown.display(), version)
                .detail("once it is moved away, a run makes a new one"))
        }
        _ => Err(errors::foreign(shown)),
    }
}

/// Whether a database is one that a run has just made and not filled: a page without a table.
fn is_blank(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() <= 4_096)
        && Connection::open(path).is_ok_and(|it| tables(&it).is_ok_and(|tables| tables.is_empty()))
}

/// Checks that the tables are there, and all pages of a file that is not large.
pub(super) fn check_soundness(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    let expected = Connection::open_in_memory()?;
    expected.execute_batch(&all_tables())?;
    let meta = Meta::read(connection);
    if tables(connection)? != tables(&expected)? || meta?.merged > last(connection)? {
        return Err(damaged());
    }
    if path
        .metadata()
        .is_ok_and(|file| file.len() > CHECKED_COMPLETELY)
    {
        return Ok(());
    }
    check_pages(connection)
}

/// The last answer.
pub(super) fn last(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM answers")?
        .query_row([], |row| row.get(0))
}

/// Checks all pages.
pub(super) fn check_pages(connection: &Connection) -> rusqlite::Result<()> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        Ok(())
    } else {
        Err(damaged())
    }
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<(String, Option<String>)>> {
    connection
        .prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}
