//! Connections to a ledger's file: how each is opened, what keeps the file in order, whether it is a ledger, and what SQLite's
//! errors mean.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, ffi};
use tokio::time::Instant;

use super::database::{Dialect, Purpose, insert_meta, tables};
use super::fault::{DbFault, DbFaultKind, OLDEST_COPIED, VERSION};
use super::sqlite_file::{self, SUFFIXES};
use crate::base::private_file::{self, with_suffix};

/// The number in the file's head that marks it as a ledger: "rscl".
const APPLICATION_ID: i32 = 0x7273_636c;

/// How long a run waits for a database that another program has locked. The longest hold is a group of answers.
const RUN_WAITS: Duration = Duration::from_secs(30);
/// How long a command of a person waits. What holds a ledger longer than a group of answers is not a run.
const COMMAND_WAITS: Duration = Duration::from_secs(5);

/// Memory of a connection, in KiB: the upper levels of the tables of fifty million answers, and what a group of them
/// changes. Twice as much makes a run 4 MiB larger, and not measurably faster.
const CACHE_KIB: i32 = 2_048;

/// The tables that are others than on a server. Answers are appended, and never changed, except for those that a run discards. Of
/// `merged`, all answers up to one are in `idx`, and none behind the other has been replaced by a later one.
const SCHEMA: &str = "
    CREATE TABLE answers (seq INTEGER PRIMARY KEY, fp INTEGER NOT NULL, account INTEGER NOT NULL,
        at INTEGER NOT NULL, price INTEGER NOT NULL, sealed BLOB NOT NULL) STRICT;
    CREATE TABLE idx (fp INTEGER, seq INTEGER, PRIMARY KEY (fp, seq)) WITHOUT ROWID, STRICT;
    CREATE TABLE merged (up_to INTEGER NOT NULL, replaced_up_to INTEGER NOT NULL) STRICT;
    INSERT INTO merged VALUES (0, 0);";

pub(super) const DIALECT: Dialect = Dialect {
    now: "cast(unixepoch('subsec') * 1000 AS INTEGER)",
    bytes: "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    after_removal: &[
        "DELETE FROM idx WHERE (fp, seq) IN (SELECT fp, seq FROM removed)",
        "UPDATE merged SET up_to = min(up_to, (SELECT coalesce(max(seq), 0) FROM answers)),
            replaced_up_to = min(replaced_up_to, (SELECT coalesce(max(seq), 0) FROM answers))",
    ],
    missing_grant: "SELECT NULL WHERE FALSE",
    after_copy: &[
        "DELETE FROM idx",
        "INSERT INTO idx SELECT fp, seq FROM answers ORDER BY fp, seq",
        "UPDATE merged SET up_to = (SELECT coalesce(max(seq), 0) FROM answers),
            replaced_up_to = (SELECT coalesce(max(seq), 0) FROM idx WHERE EXISTS
                (SELECT 1 FROM idx AS later WHERE later.fp = idx.fp AND later.seq > idx.seq))",
    ],
    snapshot: "BEGIN",
};

/// Opens an existing file at its real path.
///
/// # Errors
/// It is not a ledger, or, where it is not made, an empty file.
pub(super) fn connect(path: &Path, purpose: Purpose<'_>) -> Result<Connection, DbFault> {
    let is_alone = matches!(purpose, Purpose::Admin | Purpose::Copy);
    // The path was resolved before: a link that has taken its place since is not followed.
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let is_in_use = SUFFIXES
        .iter()
        .any(|suffix| with_suffix(path, suffix).exists());
    let connection = if matches!(purpose, Purpose::Look)
        && !is_in_use
        && private_file::not_writable(path).is_some()
    {
        // SQLite makes files beside a database also to read it, unless nobody writes to it.
        let bytes = path.as_os_str().as_encoded_bytes().iter();
        let encoded: String = bytes.map(|byte| format!("%{byte:02x}")).collect();
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(format!("file:{encoded}?immutable=1"), flags)?
    } else {
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)?
    };
    connection.busy_timeout(match purpose {
        Purpose::Look => COMMAND_WAITS,
        Purpose::Admin | Purpose::Copy => Duration::ZERO,
        _ => RUN_WAITS,
    })?;
    // Without a log, closing removes what opening created. What is not a ledger is left as it is.
    let has_log = sqlite_file::log_of(path)
        .metadata()
        .is_ok_and(|log| log.len() > 0);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
    if is_alone {
        // Before anything is read: with the lock, SQLite needs no memory that others share.
        connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
    }
    match is_ledger(&connection)? {
        true => {}
        false if matches!(purpose, Purpose::Run(_)) => create_beside_others(&connection)?,
        false if matches!(purpose, Purpose::Copy) => create(&connection)?,
        false => return Err(DbFault::missing()),
    }
    if matches!(purpose, Purpose::Look) {
        connection.pragma_update(None, "query_only", true)?;
    } else {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        prepare(&connection)?;
    }
    if is_alone {
        connection.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
    }
    // More statements than `rusqlite` keeps by itself are in use all the time.
    connection.set_prepared_statement_cache_capacity(32);
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

/// Whether there is a ledger of this version, or of an earlier one that can be copied; `false` for a database without anything.
fn is_ledger(connection: &Connection) -> Result<bool, DbFault> {
    // In one statement: another run may be making it.
    let head = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
        FROM pragma_application_id(), pragma_user_version()";
    let head = connection.query_row(head, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    match head {
        Ok((APPLICATION_ID, OLDEST_COPIED..=VERSION, _)) => Ok(true),
        Ok((0, 0, 0)) => Ok(false),
        Ok((APPLICATION_ID, version, _)) => Err(DbFault::of_version(version)),
        Err(error) if error.sqlite_error_code() != Some(ErrorCode::NotADatabase) => {
            Err(error.into())
        }
        _ => Err(DbFault::new(
            DbFaultKind::Foreign,
            "is not a rescore ledger",
        )),
    }
}

/// Makes the tables in an empty database.
fn create(connection: &Connection) -> Result<(), DbFault> {
    connection.pragma_update(None, "page_size", sqlite_file::PAGE)?;
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Exclusive)?;
    if !is_ledger(&transaction)? {
        transaction.execute_batch(&tables("INTEGER PRIMARY KEY", "INTEGER", "BLOB", "STRICT"))?;
        transaction.execute_batch(SCHEMA)?;
        let (insert, secret) = insert_meta(&DIALECT);
        transaction.execute(&insert, [secret])?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(transaction.commit()?)
}

/// Makes the tables, while other runs may be doing the same: SQLite does not wait for the lock with which it starts the log.
fn create_beside_others(connection: &Connection) -> Result<(), DbFault> {
    let started = Instant::now();
    loop {
        match create(connection).and_then(|()| prepare(connection)) {
            Err(fault) if fault.kind == DbFaultKind::Held && started.elapsed() < RUN_WAITS => {
                pause();
            }
            created => return created,
        }
    }
}

/// Gives others time to release the ledger, or space on its disk.
#[allow(
    clippy::disallowed_methods,
    reason = "no call is made before the ledger is open, and after that its own thread waits"
)]
pub(super) fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

fn prepare(connection: &Connection) -> Result<(), DbFault> {
    // With a log, readers and the writer do not wait for each other.
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let words = "the file system has no shared memory, which a ledger needs";
        return Err(DbFault::new(DbFaultKind::Other, words));
    }
    set_synced(connection, true)?;
    // After the first checkpoint the log is overwritten, and while a file does not grow, each sync costs half; but each
    // checkpoint syncs the database as well.
    Ok(connection.pragma_update(None, "wal_autocheckpoint", sqlite_file::LOG_PAGES)?)
}

/// Sets whether commits survive a power cut from now on, or may be undone by one, up to the last one that does.
pub(super) fn set_synced(connection: &Connection, synced: bool) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", if synced { "FULL" } else { "NORMAL" })
}

/// Checks all pages.
pub(super) fn check_pages(connection: &Connection) -> Result<(), DbFault> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        Ok(())
    } else {
        Err(DbFault::damaged())
    }
}

/// Whether a ledger is damaged, however large it is: all of it is read.
pub(super) fn is_damaged(path: &Path) -> bool {
    use DbFaultKind::{Damaged, Foreign, Missing};
    let Ok(real) = sqlite_file::check(path) else {
        return false;
    };
    let checked = connect(&real, Purpose::Look).and_then(|connection| check_pages(&connection));
    checked.is_err_and(|fault| matches!(fault.kind, Damaged | Foreign | Missing))
}

impl From<rusqlite::Error> for DbFault {
    fn from(error: rusqlite::Error) -> Self {
        use ErrorCode as Code;
        use ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE};
        let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
        let grows = [
            SQLITE_IOERR_SHMSIZE,
            SQLITE_IOERR_TRUNCATE,
            SQLITE_IOERR_WRITE,
        ];
        let (kind, words) = match error.sqlite_error_code() {
            // SQLite does not distinguish it from a failing disk, which is far less likely.
            _ if grows.contains(&extended) && max_file_size().is_some() => {
                (DbFaultKind::TooLarge, "file too large")
            }
            // The log's index grows without a write of ours, and only a full disk keeps it from growing.
            _ if extended == SQLITE_IOERR_SHMSIZE => return Self::no_space(),
            Some(Code::DiskFull) => return Self::no_space(),
            Some(Code::SystemIoFailure) => (DbFaultKind::Other, "the disk failed"),
            Some(Code::ReadOnly | Code::PermissionDenied) => {
                (DbFaultKind::Other, "permission denied")
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                (DbFaultKind::Held, "another program is using it")
            }
            Some(Code::DatabaseCorrupt | Code::NotADatabase | Code::Unknown) => {
                return Self::damaged();
            }
            // All statements are fixed: where they or their results do not fit, it is the file.
            None | Some(Code::TypeMismatch | Code::ConstraintViolation) => return Self::damaged(),
            _ => return Self::new(DbFaultKind::Other, error.to_string()),
        };
        Self::new(kind, words)
    }
}

/// The largest file that this process may write, in bytes (`ulimit -f`); `None` without a limit.
fn max_file_size() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Fsize).current
}
