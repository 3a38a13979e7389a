//! The database: what is in it, how it is opened, and what its errors mean.
//!
//! One table of answers. No names, addresses or numbers of people are in it, and no key that would let anybody ask.

use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, params};
use tokio::time::Instant;

use super::checksum::Checksums;
use super::file::{self, Kind, What};
use super::lookup::AHEAD;
use super::request_key::RequestHasher;
use super::schema::{SCHEMA, VERSION, check_schema};
use crate::base::error::{Error, Result};
use crate::base::system::file_size_limit;

/// How long a database that another program has locked is waited for. Its longest hold is a group of answers, or a
/// person's `prune` of a large file.
const BUSY: Duration = Duration::from_secs(30);

/// Refuses what is no ledger that this program knows, without touching it. To be asked before the first connection: it
/// opens and closes the file, which on some systems would end SQLite's locks. Whose ledger there is, if any.
///
/// # Errors
/// Exit code 2: it is no ledger, of a newer version, or cannot be read.
pub(super) fn check(path: &Path) -> Result<Option<Kind>> {
    match file::look(path).map_err(|e| unreadable(path).because(e))? {
        What::Nothing => Ok(None),
        What::Ledger(kind) => Ok(Some(kind)),
        What::Other(version) => Err(Error::usage(format!(
            "`{}` is a ledger of version {version}, and this program knows {VERSION}",
            path.display()
        ))
        .hint("use the rescore that wrote it, or name another file")),
        What::Special => Err(Error::usage(format!(
            "`{}` cannot be a ledger: it is not a regular file",
            path.display()
        ))
        .hint("name a file; with `--no-ledger` a run keeps no answers")),
        What::Foreign => Err(foreign(path)),
    }
}

/// It is no ledger.
pub(super) fn foreign(path: &Path) -> Error {
    Error::usage(format!("`{}` is no ledger of rescore", path.display()))
        .hint("name another file; this one is left as it is")
}

/// Opens a ledger, or makes one of this kind of an empty file.
pub(super) fn open(path: &Path, kind: Kind, durable: bool) -> rusqlite::Result<Connection> {
    let connection = connect(path)?;
    // Where several runs make one together, SQLite does not wait for the lock with which it starts the log.
    let began = Instant::now();
    loop {
        let opened = create(&connection, kind).and_then(|()| prepare(&connection, durable));
        match opened {
            Err(error) if is_busy(&error) && began.elapsed() < BUSY => pause(),
            opened => return opened.map(|()| connection),
        }
    }
}

/// Gives other programs time to let go of the ledger.
#[allow(
    clippy::disallowed_methods,
    reason = "no call is made before it is open"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

/// Opens a ledger that is open already once more, to look things up beside what is written.
///
/// # Errors
/// Exit code 2: it cannot be opened.
pub(super) fn open_again(path: &Path) -> Result<Connection> {
    connect(path)
        .and_then(|connection| {
            connection.pragma_update(None, "query_only", true)?;
            tune(&connection)?;
            // Its log is opened with the first look, which must not come after the file's name has gone.
            any(&connection)?;
            Ok(connection)
        })
        .map_err(|error| cannot_open(path, &error))
}

/// Opens a ledger that is open already once more, to write something beside its answers.
pub(super) fn open_beside(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

/// Opens a ledger to look at it for a person. What is in its log stays there, also when nobody else has it open.
pub(super) fn open_to_look(path: &Path, wait: Duration) -> rusqlite::Result<Connection> {
    let connection = connect(path)?;
    connection.busy_timeout(wait)?;
    // Without a log, closing takes away what opening made.
    let has_log = file::log_of(path).metadata().is_ok_and(|log| log.len() > 0);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
    connection.pragma_update(None, "query_only", true)?;
    tune(&connection)?;
    Ok(connection)
}

/// Opens a ledger to remove answers, beside others that use it: what is removed is overwritten.
pub(super) fn open_to_remove(path: &Path, wait: Duration) -> rusqlite::Result<Connection> {
    let connection = connect(path)?;
    connection.busy_timeout(wait)?;
    prepare_to_remove(&connection)?;
    Ok(connection)
}

/// As [`open_to_remove`], keeping others out until it is closed; `None` when there are any.
pub(super) fn open_alone(path: &Path) -> rusqlite::Result<Option<Connection>> {
    let connection = connect(path)?;
    connection.busy_timeout(Duration::ZERO)?;
    // Before anything is read: with the lock, SQLite needs no memory that others share.
    let _: String =
        connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |row| row.get(0))?;
    match prepare_to_remove(&connection) {
        Ok(()) => Ok(Some(connection)),
        Err(error) if is_busy(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn prepare_to_remove(connection: &Connection) -> rusqlite::Result<()> {
    prepare(connection, true)?;
    connection.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))
}

/// Whether somebody else is in the way.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

fn prepare(connection: &Connection, durable: bool) -> rusqlite::Result<()> {
    // Readers and the writer do not wait for each other.
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        let words = "the file system has no shared memory, which a ledger needs".to_owned();
        return Err(rusqlite::Error::SqliteFailure(code, Some(words)));
    }
    let synchronous = if durable { "FULL" } else { "OFF" };
    connection.pragma_update(None, "synchronous", synchronous)?;
    // Pages of 4 KiB: 16 MiB of log between checkpoints; each of them syncs the database as well.
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    tune(connection)
}

/// Makes sure that there is space for the next group of answers, and fails as writing them would. The space stays in the
/// log: a change for which SQLite has no memory goes there before it is committed, and one that is taken back is written
/// over by what comes next.
pub(super) fn reserve(connection: &Connection, in_flight: NonZeroUsize) -> rusqlite::Result<()> {
    const PAGE: u32 = 4_096;
    // However many calls there can be, groups of more answers are rare.
    const MOST: u32 = 1_000;
    // Each answer may come to a page of its own, and some pages are split.
    let pages = u32::try_from(in_flight.get().saturating_add(16)).unwrap_or(MOST);
    let bytes = pages.min(MOST) * PAGE;
    // As little as can be.
    connection.pragma_update(None, "cache_size", 1)?;
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute_batch("CREATE TABLE reserved (bytes BLOB)")?;
    transaction.execute("INSERT INTO reserved VALUES (zeroblob(?))", [bytes])?;
    transaction.rollback()?;
    tune(connection)
}

/// Memory of a connection, in KiB: the upper levels of a table of a hundred million answers, and what a group of them
/// changes. Twice that makes a run 4 MiB larger, and not measurably faster.
fn tune(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -4_096)
}

/// Makes a ledger where there is none. Two processes may do this at once: the second finds the work done.
fn create(connection: &Connection, kind: Kind) -> rusqlite::Result<()> {
    let is_empty = || {
        let version: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        Ok::<_, rusqlite::Error>(version == 0)
    };
    if !is_empty()? {
        return Ok(());
    }
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Exclusive)?;
    if is_empty()? {
        transaction.execute_batch(SCHEMA)?;
        // SQLite's generator is seeded by the system's, and good for keys of this kind.
        let secret = transaction.query_row("SELECT randomblob(32)", [], |row| row.get(0))?;
        transaction.execute(
            "INSERT INTO ledger VALUES (1, ?, ?, CAST(1000 * unixepoch('subsec') AS INTEGER), 0)",
            params![secret, checksum_of_secret(&secret)],
        )?;
        transaction.pragma_update(None, "application_id", kind.application())?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

/// Whose it is.
pub(super) fn kind(connection: &Connection) -> rusqlite::Result<Option<Kind>> {
    connection.query_row("PRAGMA application_id", [], |row| row.get(0).map(Kind::of))
}

/// What a ledger says of itself.
pub(super) struct Head {
    pub(super) secret: [u8; 32],
    pub(super) begun: i64,
}

impl Head {
    pub(super) const fn checksums(&self) -> Checksums {
        Checksums::new(self.secret)
    }
}

pub(super) fn head(connection: &Connection) -> rusqlite::Result<Head> {
    let (head, checksum) =
        connection.query_row("SELECT secret, created, checksum FROM ledger", [], |row| {
            let head = Head {
                secret: row.get(0)?,
                begun: row.get(1)?,
            };
            Ok((head, row.get::<_, i64>(2)?))
        })?;
    // With another secret nothing would be found, and all be paid for again.
    if checksum == checksum_of_secret(&head.secret) {
        Ok(head)
    } else {
        Err(damaged())
    }
}

fn checksum_of_secret(secret: &[u8; 32]) -> i64 {
    Checksums::new(*secret).of("ledger", [])
}

/// From when on answers are new to a run that begins at this time and uses none from before. Each such run has a time of
/// its own, ahead of the clock if need be: several may begin within a millisecond, and clocks are set back.
pub(super) fn fresh_from(connection: &Connection, now: i64) -> rusqlite::Result<i64> {
    connection.query_row(
        "UPDATE ledger SET fresh_from = max(?1 + 1, min(fresh_from, ?1 + ?2) + 1) RETURNING fresh_from",
        [now, AHEAD],
        |row| row.get(0),
    )
}

/// Removes the answers of a context and what the service failed over.
pub(super) fn remove_leftover(connection: &Connection, context: i64) -> rusqlite::Result<()> {
    if is_only_context(connection, context)? {
        // Without a condition SQLite need not look at each.
        return connection.execute_batch("DELETE FROM answers; DELETE FROM failing_requests");
    }
    for table in ["answers", "failing_requests"] {
        connection.execute(&format!("DELETE FROM {table} WHERE context = ?"), [context])?;
    }
    Ok(())
}

/// The largest ledger that is checked whole when it is opened, in bytes: some 700,000 answers, which takes a quarter of a
/// second. In a larger one damage to a page is found when it is read, which may be after the first call.
const CHECKED_WHOLE: u64 = 64 * 1024 * 1024;

/// Fails when a ledger is damaged, as far as that can be told without looking at each answer.
pub(super) fn check_soundness(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    check_schema(connection)?;
    if path.metadata().is_ok_and(|file| file.len() > CHECKED_WHOLE) {
        return Ok(());
    }
    check_pages(connection)
}

fn check_pages(connection: &Connection) -> rusqlite::Result<()> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        Ok(())
    } else {
        Err(damaged())
    }
}

/// Whether a ledger is damaged, however large it is: all of it is read.
pub(super) fn is_damaged(path: &Path) -> bool {
    let look = || {
        let connection = connect(path)?;
        check_schema(&connection)?;
        check_pages(&connection)?;
        head(&connection)
    };
    look().is_err_and(|error| is_damage(&error))
}

/// Whether the file is not what it should be: SQLite says so, or cannot make sense of it, or we cannot.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as Sqlite;
    match error {
        Sqlite::SqliteFailure(error, _) => matches!(
            error.code,
            ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::TypeMismatch
                | ErrorCode::ConstraintViolation
                | ErrorCode::Unknown
        ),
        // All statements are fixed: it is the file that they do not fit.
        Sqlite::SqlInputError { .. }
        | Sqlite::FromSqlConversionFailure(..)
        | Sqlite::IntegralValueOutOfRange(..)
        | Sqlite::Utf8Error(..)
        | Sqlite::InvalidColumnName(..)
        | Sqlite::InvalidColumnType(..)
        | Sqlite::QueryReturnedNoRows => true,
        _ => false,
    }
}

/// The number of a context, put in where it is new.
pub(super) fn context(
    connection: &Connection,
    checksums: Checksums,
    keys: &RequestHasher,
    endpoint: &str,
) -> rusqlite::Result<i64> {
    connection.execute(
        "INSERT INTO contexts (hash, endpoint, checksum) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        params![
            keys.context(),
            endpoint,
            checksum_of_context(checksums, keys.context())
        ],
    )?;
    connection.query_row(
        "SELECT id FROM contexts WHERE hash = ?",
        params![keys.context()],
        |row| row.get(0),
    )
}

/// How many answers there are, of whatever address and service id.
pub(super) fn count_all(connection: &Connection) -> rusqlite::Result<u64> {
    let answers: i64 =
        connection.query_row("SELECT count(*) FROM answers", [], |row| row.get(0))?;
    Ok(u64::try_from(answers).unwrap_or(0))
}

/// Whether there is any answer.
pub(super) fn any(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM answers)", [], |row| {
        row.get(0)
    })
}

/// How many answers there are of a context. It looks at all of them.
pub(super) fn count(connection: &Connection, context: i64) -> rusqlite::Result<u64> {
    // Without another context all count, and SQLite need not look into each.
    if is_only_context(connection, context)? {
        return count_all(connection);
    }
    let answers: i64 = connection.query_row(
        "SELECT count(*) FROM answers WHERE context = ?",
        [context],
        |row| row.get(0),
    )?;
    Ok(u64::try_from(answers).unwrap_or(0))
}

fn is_only_context(connection: &Connection, context: i64) -> rusqlite::Result<bool> {
    const OTHER: &str = "SELECT EXISTS (SELECT 1 FROM contexts WHERE id <> ?)";
    let other: bool = connection.query_row(OTHER, [context], |row| row.get(0))?;
    Ok(!other)
}

/// The keys of every address and service id that was ever asked through this ledger.
pub(super) fn contexts(connection: &Connection) -> rusqlite::Result<Vec<RequestHasher>> {
    let checksums = head(connection)?.checksums();
    let mut statement = connection.prepare("SELECT hash, checksum FROM contexts")?;
    let mut rows = statement.query([])?;
    let mut contexts = Vec::new();
    while let Some(row) = rows.next()? {
        let hash = row.get(0)?;
        // With another hash a person's answers would not be found and so not be forgotten.
        if row.get::<_, i64>(1)? != checksum_of_context(checksums, &hash) {
            return Err(damaged());
        }
        contexts.push(RequestHasher::of_context(hash));
    }
    Ok(contexts)
}

fn checksum_of_context(checksums: Checksums, hash: &[u8; 32]) -> i64 {
    checksums.of("contexts", [ValueRef::Blob(hash)])
}

pub(super) fn unreadable(path: &Path) -> Error {
    Error::usage(format!("cannot open the ledger `{}`", path.display()))
}

/// It cannot be opened, and nothing has been sent yet. A full disk is no fault of the settings: exit code 3.
pub(super) fn cannot_open(path: &Path, error: &rusqlite::Error) -> Error {
    let cause = system(error);
    let full = matches!(
        cause.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge
    );
    let hint = match error.sqlite_error_code() {
        _ if full => "make space there; then the same command goes on",
        _ if is_damage(error) => {
            "move it and the files whose names start with its name elsewhere; answers in it are paid for again"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program holds it; run again when that is done"
        }
        _ => "name another place with `--ledger FILE`, or do without it by `--no-ledger`",
    };
    let cannot = if full {
        Error::stopped(format!("cannot write the ledger `{}`", path.display()))
    } else {
        unreadable(path)
    };
    cannot.because(cause).about(path).hint(hint)
}

/// It could be opened, and fails now. What is damaged does not get better by running the same command again.
pub(super) fn cannot_use(path: &Path, doing: &str, error: &rusqlite::Error) -> Error {
    if is_damage(error) {
        return cannot_open(path, error);
    }
    Error::stopped(format!("cannot {doing} the ledger `{}`", path.display()))
        .because(system(error))
        .about(path)
}

/// What a ledger is called that cannot be read.
pub(super) const DAMAGED: &str = "the file is damaged";

/// What is in it cannot have been written by us.
pub(super) fn damaged() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}

/// What a failure means in the system's words, and so that a full disk is known as one.
pub(super) fn system(error: &rusqlite::Error) -> io::Error {
    use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE};
    let code = error.sqlite_error().map(|error| error.extended_code);
    let grows = [
        SQLITE_IOERR_SHMSIZE,
        SQLITE_IOERR_TRUNCATE,
        SQLITE_IOERR_WRITE,
    ];
    match error.sqlite_error_code() {
        // SQLite does not tell it from a disk that fails, which is far less likely.
        _ if code.is_some_and(|code| grows.contains(&code)) && file_size_limit().is_some() => {
            io::Error::new(io::ErrorKind::FileTooLarge, "file too large")
        }
        // The log's index grows by itself, and only space can keep it from doing so.
        _ if code == Some(SQLITE_IOERR_SHMSIZE) => {
            io::Error::new(io::ErrorKind::StorageFull, "no space left on device")
        }
        Some(ErrorCode::DiskFull) => {
            io::Error::new(io::ErrorKind::StorageFull, "no space left on device")
        }
        Some(ErrorCode::SystemIoFailure) => io::Error::other("the disk failed"),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            io::Error::new(io::ErrorKind::PermissionDenied, "permission denied")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            io::Error::other("another program holds it")
        }
        _ if is_damage(error) => io::Error::other(DAMAGED),
        _ => io::Error::other(error.to_string()),
    }
}
