//! What SQLite's errors mean, in the program's words.

use std::io;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::base::error::Error;
use crate::base::own_file;
use crate::base::rlimit::max_file_size;

/// What to do with a damaged ledger. A run's own can also be replaced by starting over, where nothing was sent yet.
const DAMAGED: &str = "move it and the files whose names start with its name elsewhere; answers in it are paid for again";

/// What to do about another program that does not let go of a ledger for so long that the run has given up.
const HELD: &str =
    "end the other program, or let it go on if it was suspended; then the same command continues";

/// Whether another connection is in the way.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

/// Whether the file is not what it should be: SQLite says so, or cannot make sense of it, or we cannot.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
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

/// The error for content that this program cannot have written.
pub(crate) fn damaged() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}

/// A failure in the operating system's words, and so that a full disk or a damaged file is recognised as one.
pub(crate) fn as_io_error(error: &rusqlite::Error) -> io::Error {
    use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE};
    let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
    let grows = [
        SQLITE_IOERR_SHMSIZE,
        SQLITE_IOERR_TRUNCATE,
        SQLITE_IOERR_WRITE,
    ];
    let (kind, words) = match (error.sqlite_error_code(), extended) {
        // SQLite does not distinguish it from a failing disk, which is far less likely.
        _ if grows.contains(&extended) && max_file_size().is_some() => {
            (io::ErrorKind::FileTooLarge, "file too large")
        }
        // The log's index grows without a write of ours, and only a full disk keeps it from growing.
        (Some(ErrorCode::DiskFull), _) | (_, SQLITE_IOERR_SHMSIZE) => {
            (io::ErrorKind::StorageFull, "no space left on device")
        }
        (Some(ErrorCode::SystemIoFailure), _) => (io::ErrorKind::Other, "the disk failed"),
        (Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied), _) => {
            (io::ErrorKind::PermissionDenied, "permission denied")
        }
        _ if is_busy(error) => (io::ErrorKind::ResourceBusy, "another program is using it"),
        _ if is_damage(error) => (io::ErrorKind::InvalidData, "the file is damaged"),
        _ => return io::Error::other(error.to_string()),
    };
    io::Error::new(kind, words)
}

/// The error for a ledger that cannot be opened, without its cause. SQLite makes files beside it also to read it.
pub(crate) fn unreadable(path: &Path) -> Error {
    let cannot = Error::usage(format!("cannot open the ledger `{}`", path.display()));
    match own_file::not_writable(path).filter(|_| path.exists()) {
        Some(why) => cannot
            .detail(why)
            .detail("a ledger needs files beside it, also to be read"),
        None => cannot,
    }
}

/// The error for a ledger whose disk is full, before anything has been sent.
pub(crate) fn no_space(path: &Path, cause: io::Error) -> Error {
    Error::stopped(format!("cannot write the ledger `{}`", path.display()))
        .because(cause)
        .about(path)
        .hint("free space there; then the same command continues")
}

/// The error for a ledger that cannot be opened, before anything has been sent. A full disk is not a fault of the
/// settings: exit code 3. Another program that is using it will end: exit code 75.
pub(crate) fn cannot_open(path: &Path, error: &rusqlite::Error) -> Error {
    let cause = as_io_error(error);
    let cannot = match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge => return no_space(path, cause),
        io::ErrorKind::InvalidData => unreadable(path).hint(DAMAGED),
        io::ErrorKind::ResourceBusy => {
            Error::busy(format!("cannot open the ledger `{}`", path.display()))
                .hint("run the same command again when the other program is done")
        }
        _ => unreadable(path),
    };
    cannot.because(cause).about(path)
}

/// The error for a ledger that was open and fails now. Running the same command again does not repair a damaged one.
pub(crate) fn cannot_use(path: &Path, doing: &str, error: &rusqlite::Error) -> Error {
    if is_damage(error) {
        return cannot_open(path, error);
    }
    Error::stopped(format!("cannot {doing} the ledger `{}`", path.display()))
        .because(as_io_error(error))
        .about(path)
}

/// The error for answers that cannot be stored. The cause is repeated, as all calls that wait for their answers get it.
pub(crate) fn cannot_keep(path: &Path, cause: &io::Error) -> Error {
    let cannot = Error::stopped(format!("cannot keep answers in `{}`", path.display()))
        .because(io::Error::new(cause.kind(), cause.to_string()))
        .about(path);
    match cause.kind() {
        io::ErrorKind::InvalidData => cannot.hint(DAMAGED),
        io::ErrorKind::ResourceBusy => cannot.hint(HELD),
        _ => cannot,
    }
}

/// The error for a file that is not a ledger.
pub(crate) fn foreign(path: &Path) -> Error {
    Error::usage(format!("`{}` is not a rescore ledger", path.display()))
        .detail("it is left as it is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_that_another_program_holds_has_a_hint_and_a_disk_that_fails_none() {
        let hint = |code| {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            let error = cannot_keep(Path::new("a.ledger"), &as_io_error(&error));
            error.hint_text().map(str::to_owned)
        };
        assert_eq!(hint(rusqlite::ffi::SQLITE_BUSY).as_deref(), Some(HELD));
        assert_eq!(hint(rusqlite::ffi::SQLITE_IOERR), None);
    }
}
