//! The file of a ledger: what may be at its path, connections to it and how each is set up, the
//! space on its disk that is reserved for the answers to calls in flight, and what SQLite's errors
//! mean. It must not know how answers are stored and found.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, ffi};
use tokio::time::Instant;

use super::database::{Dialect, Purpose, insert_meta, pause, tables};
use super::fault::{DbFault, DbFaultKind, HINT_SHARE, OLDEST_COPIED, VERSION};
use crate::base::error::{Error, Result as RunResult};
use crate::base::numbers::grouped;
use crate::base::private_file::{self, directory_of, with_suffix};
use crate::base::text::display;

/// What SQLite puts behind the name of a database for the files beside it.
pub(crate) const SUFFIXES: &[&str] = &["-wal", "-shm", "-journal"];
/// What to do about a path at which no ledger can be.
pub(super) const HINT_OTHER_PATH: &str =
    "name a file on a local disk with `--ledger FILE` or `RESCORE_LEDGER`";

/// The number in the file's head that marks it as a ledger: "rscl".
const APPLICATION_ID: i32 = 0x7273_636c;

/// How long a run waits for a database that another program has locked. The longest hold is a
/// group of answers.
const RUN_LOCK_WAIT: Duration = Duration::from_secs(30);
/// How long a person's command waits. What holds a ledger longer than a group of answers is not a
/// run.
const COMMAND_LOCK_WAIT: Duration = Duration::from_secs(5);

/// The pause in which others may release the ledger, or space on its disk.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Memory of a connection, in KiB: the upper levels of the tables of fifty million answers, and
/// what a group of them changes. Twice as much makes a run 4 MiB larger, and not measurably
/// faster.
const CACHE_KIB: i32 = 2_048;
/// How many statements a connection keeps parsed: all that are in use during a run.
const CACHED_STATEMENTS: usize = 32;

/// A page of the database, in bytes. Each group of answers rewrites half a dozen pages for a few
/// bytes in each: with pages of 4 KiB it writes 1.7 times as much.
const PAGE_BYTES: usize = 2_048;
/// With more pages in its log, SQLite copies them into the database and starts the log again.
/// Above a thousand calls in flight, this much space may not be enough.
const LOG_PAGES: usize = 2_000;
/// Pages that an answer takes if it comes alone: one or two of its own, and some of those that
/// every group changes.
const PAGES_PER_CALL: usize = 4;
/// Pages that are needed however few calls there are.
const RESERVED_PAGES: usize = 32;

/// The tables that differ from a server's. Answers are appended, and never changed, except for
/// those that a run discards. Of `merged`, all answers up to one are in `idx`, and none behind the
/// other has been replaced by a later one.
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
        "DELETE FROM idx WHERE NOT EXISTS (SELECT 1 FROM answers WHERE answers.seq = idx.seq)",
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

/// Checks that whatever is at the path, if anything is, can be a ledger: its real path.
///
/// # Errors
/// Exit code 2: something else is there, or its folder is missing or on another machine.
pub(super) fn check(path: &Path) -> RunResult<PathBuf> {
    let directory = fs::canonicalize(directory_of(path)).map_err(|e| cannot_write(path, e))?;
    if let Some(name) = network_of(&directory) {
        let shown = path.display();
        return Err(Error::usage(format!(
            "the ledger `{shown}` would be on a network share ({name})"
        ))
        .hint(HINT_OTHER_PATH)
        .detail("locks cannot be trusted there, so two runs could pay for the same answer")
        .detail("several machines can share one on a server: `postgresql://USER@HOST/DATABASE`"));
    }
    let Some(name) = path.file_name() else {
        return Err(cannot_write(
            path,
            io::Error::other("it is not the name of a file"),
        ));
    };
    let real = directory.join(name);
    for suffix in [""].iter().chain(SUFFIXES) {
        private_file::check(&with_suffix(&real, suffix)).map_err(|e| {
            let error = cannot_write(&with_suffix(path, suffix), e);
            // Under two names it would have two logs, and two runs would pay twice.
            error.detail("a ledger has one name, and no link leads to it")
        })?;
    }
    // An empty file that somebody has made for a group is a new ledger.
    let metadata = real.metadata().ok();
    if let Some(why) = metadata.as_ref().and_then(private_file::not_trusted) {
        let shown = path.display();
        let error = Error::usage(format!("the ledger `{shown}` is not trusted: {why}"));
        return Err(error.hint(format!(
            "if you trust the answers in it, give it to a group: `chmod 660 {shown}` and `chgrp GROUP {shown}`"
        )));
    }
    Ok(real)
}

/// The error for a ledger that cannot be written, before anything was sent.
pub(super) fn cannot_write(path: &Path, error: io::Error) -> Error {
    let cannot = Error::usage(format!("cannot write the ledger `{}`", path.display()))
        .because(error)
        .about(path);
    let cannot = match private_file::not_writable(path) {
        Some(why) if path.exists() => cannot.detail(why).hint(HINT_SHARE),
        Some(why) => cannot.detail(why),
        None => cannot,
    };
    private_file::cannot_make(path, cannot)
}

/// The kind of network share that a folder is on, if it is on one.
#[cfg(target_os = "linux")]
fn network_of(directory: &Path) -> Option<&'static str> {
    let kind = rustix::fs::statfs(directory).ok()?.f_type;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "its type differs between systems, and the number has 32 bits"
    )]
    network(kind as u32)
}

/// Other systems do not tell; docs/operations.md says so.
#[cfg(not(target_os = "linux"))]
const fn network_of(_: &Path) -> Option<&'static str> {
    None
}

/// The name of a file system that other machines may write to, by its number in Linux's `magic.h`.
#[cfg(target_os = "linux")]
const fn network(kind: u32) -> Option<&'static str> {
    match kind {
        0x6969 => Some("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Some("SMB"),
        0x6573_5546 => Some("FUSE"),
        0x0102_1997 => Some("9P"),
        0x5346_414f => Some("AFS"),
        0x00c3_6400 => Some("Ceph"),
        0x0bd0_0bd0 => Some("Lustre"),
        _ => None,
    }
}

/// Opens an existing file at its real path.
///
/// # Errors
/// It is not a ledger, or it is an empty file and this purpose makes no ledger of it.
pub(super) fn connect(path: &Path, purpose: Purpose<'_>) -> Result<Connection, DbFault> {
    let is_look = matches!(purpose, Purpose::Look);
    let is_exclusive = matches!(purpose, Purpose::Admin | Purpose::Copy);
    // The path was resolved before: a link that has taken its place since is not followed.
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let is_in_use = || {
        let mut suffixes = SUFFIXES.iter();
        suffixes.any(|suffix| with_suffix(path, suffix).exists())
    };
    let connection = if is_look && !is_in_use() && private_file::not_writable(path).is_some() {
        // SQLite makes files beside a database also to read it, unless nobody writes to it.
        let bytes = path.as_os_str().as_encoded_bytes().iter();
        let encoded: String = bytes.map(|byte| format!("%{byte:02x}")).collect();
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(format!("file:{encoded}?immutable=1"), flags)?
    } else {
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)?
    };
    connection.busy_timeout(match purpose {
        Purpose::Look => COMMAND_LOCK_WAIT,
        Purpose::Admin | Purpose::Copy => Duration::ZERO,
        Purpose::Run { .. } | Purpose::SecondConnection(_) => RUN_LOCK_WAIT,
    })?;
    // What is not a ledger is left as it is: without a log, closing removes only what opening has
    // made.
    let log = with_suffix(path, "-wal").metadata();
    let has_log = log.is_ok_and(|log| log.len() > 0);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, has_log)?;
    if is_exclusive {
        // Before anything is read: with the lock, SQLite needs no shared memory.
        connection.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(()))?;
    }
    if !is_ledger(&connection)? {
        match purpose {
            Purpose::Run { .. } => create_beside_others(&connection)?,
            Purpose::Copy => create(&connection)?,
            _ => return Err(DbFault::missing()),
        }
    }
    if is_look {
        connection.pragma_update(None, "query_only", true)?;
    } else {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        prepare(&connection)?;
    }
    if is_exclusive {
        connection.query_row("PRAGMA secure_delete = ON", [], |_| Ok(()))?;
    }
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

/// Whether the database is a ledger of this version, or of an earlier one that can be copied;
/// `false` if it is empty.
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
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
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

/// Makes the tables, while other runs may be doing the same: SQLite does not wait for the lock
/// with which it starts the log.
fn create_beside_others(connection: &Connection) -> Result<(), DbFault> {
    let started = Instant::now();
    loop {
        match create(connection).and_then(|()| prepare(connection)) {
            Err(fault) if fault.kind == DbFaultKind::Held && started.elapsed() < RUN_LOCK_WAIT => {
                pause(RETRY_PAUSE);
            }
            created => return created,
        }
    }
}

/// Sets up the log.
fn prepare(connection: &Connection) -> Result<(), DbFault> {
    // With a log, readers and the writer do not wait for each other.
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        let words = "the file system has no shared memory, which a ledger needs";
        return Err(DbFault::new(DbFaultKind::Other, words));
    }
    set_synced(connection, true)?;
    // After the first checkpoint the log is overwritten, and while a file does not grow, each sync
    // costs half; but each checkpoint syncs the database as well.
    Ok(connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?)
}

/// Sets whether commits survive a power cut from now on, or one may undo them, back to the last
/// commit that does.
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
    let Ok(real) = check(path) else {
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
            // SQLite makes the log's index larger in advance, and only a full disk prevents that.
            _ if extended == SQLITE_IOERR_SHMSIZE => return Self::no_space(),
            Some(Code::DiskFull) => return Self::no_space(),
            Some(Code::SystemIoFailure) => (DbFaultKind::Other, "the disk failed"),
            Some(Code::ReadOnly | Code::PermissionDenied) => {
                (DbFaultKind::Other, "permission denied")
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
                (DbFaultKind::Held, "another program is using it")
            }
            // All statements are fixed: if they or their results do not fit, the file is to blame.
            Some(
                Code::DatabaseCorrupt
                | Code::NotADatabase
                | Code::Unknown
                | Code::TypeMismatch
                | Code::ConstraintViolation,
            )
            | None => return Self::damaged(),
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

/// Checks that the disk of a ledger has room for this many bytes.
///
/// # Errors
/// It has not.
pub(super) fn check_space(ledger: &Path, needed: u64) -> Result<(), DbFault> {
    let disk = rustix::fs::statvfs(directory_of(ledger)).ok();
    let free = disk.map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    if free >= needed {
        return Ok(());
    }
    let (needed, free) = (grouped(needed.into()), grouped(free.into()));
    let directory = display(directory_of(ledger));
    let words = format!(
        "no space left on device: this takes up to {needed} bytes in `{directory}`, where {free} are free"
    );
    Err(DbFault::new(DbFaultKind::NoSpace, words))
}

/// A file that only takes space. When the disk is full, the space is given back, and the answers
/// to calls in flight are stored in it. The file has no name, so a kill leaves nothing of it.
pub(super) struct SpaceReserve(File);

impl SpaceReserve {
    /// Takes space beside a ledger, for the answers to this many calls; `None` if no such file can
    /// be made.
    ///
    /// # Errors
    /// The disk has not enough.
    pub(super) fn take(ledger: &Path, in_flight: NonZeroUsize) -> Result<Option<Self>, DbFault> {
        let pages = in_flight.get().saturating_mul(PAGES_PER_CALL);
        let pages = pages.saturating_add(RESERVED_PAGES).min(LOG_PAGES);
        let needed = (pages * PAGE_BYTES) as u64;
        let file = tempfile::tempfile_in(directory_of(ledger));
        let filled = file.and_then(|file| Self::fill(file, needed));
        match filled.map_err(|error| (error.kind(), error)) {
            Ok(reserve) => Ok(Some(reserve)),
            Err((ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _)) => {
                // The disk may have room again by now, or the quota may be the limit.
                check_space(ledger, needed)?;
                Err(DbFault::no_space())
            }
            Err((ErrorKind::FileTooLarge, error)) => {
                Err(DbFault::new(DbFaultKind::TooLarge, error.to_string()))
            }
            Err(_) => Ok(None),
        }
    }

    fn fill(mut file: File, bytes: u64) -> io::Result<Self> {
        // Written, as ext2 and others have no `fallocate`; and not zeros, which take no space if a
        // file system compresses.
        let noise = blake3::Hasher::new().finalize_xof();
        io::copy(&mut noise.take(bytes), &mut file)?;
        Ok(Self(file))
    }

    /// Gives the space back.
    pub(super) fn release(self) {
        // Some file systems free a removed file only after some time, but the end of a shortened
        // file immediately. If this fails, so does the next write.
        let _ = self.0.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_with_what_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = directory.path().join("x.ledger");
        assert!(check_space(&ledger, 1).is_ok());
        let words = check_space(&ledger, 1 << 60).unwrap_err().words;
        assert!(words.contains("1,152,921,504,606,846,976 bytes"), "{words}");
        assert!(
            words.contains(&format!("in `{}`", directory.path().display())),
            "{words}"
        );
        assert!(words.ends_with(" are free"), "{words}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn network_shares_are_recognised_and_local_disks_are_not() {
        for (kind, expected) in [
            (0x6969, Some("NFS")),
            (0xfe53_4d42, Some("SMB")),
            (0x6573_5546, Some("FUSE")),
            // ext4, XFS, Btrfs, tmpfs, overlay and ZFS.
            (0xef53, None),
            (0x5846_5342, None),
            (0x9123_683e, None),
            (0x0102_1994, None),
            (0x794c_7630, None),
            (0x2fc1_2fc1, None),
        ] {
            assert_eq!(network(kind), expected, "{kind:x}");
        }
    }

    #[test]
    fn a_ledger_has_one_name_and_no_link_leads_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        assert!(check(&at("a.ledger")).is_ok());
        fs::write(at("a.ledger"), "").unwrap();
        assert!(check(&at("a.ledger")).is_ok());
        std::os::unix::fs::symlink(at("a.ledger"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        std::os::unix::fs::symlink(at("a.ledger"), at("b.ledger-wal")).unwrap();
        for name in ["link", "dangling", "b.ledger", "."] {
            let error = check(&at(name)).unwrap_err();
            assert_eq!(error.exit().code(), 2, "{name}");
        }
        fs::hard_link(at("a.ledger"), at("second")).unwrap();
        for name in ["a.ledger", "second"] {
            assert!(check(&at(name)).unwrap_err().report().contains("hard link"));
        }
        let missing = check(&at("missing/a.ledger")).unwrap_err();
        assert!(missing.report().contains("create the directory"));
    }
}
