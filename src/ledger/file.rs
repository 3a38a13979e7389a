//! The ledger's files: their names, creating and removing them.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::base::error::{Error, Result};
use crate::base::own_file;

/// Whose a ledger is. It never changes, and is written in the file's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LedgerKind {
    /// A run's own, which removes it when it ends.
    Own,
    /// One that runs share and that none of them removes.
    Shared,
}

/// Nobody else may read a ledger: SQLite gives its log the same rights.
pub(super) const PRIVATE: u32 = 0o600;

/// The rights that an empty file keeps when it becomes a ledger that runs share.
const GROUP: u32 = 0o660;

/// The suffixes that SQLite gives the files that belong to a database, and none for the database itself.
const DATABASE: [&str; 4] = ["", "-wal", "-shm", "-journal"];
/// The suffix of the file whose lock a run holds.
const LOCK: &str = "-lock";

/// The suffixes of the files that come and go with a ledger.
pub(crate) const SUFFIXES: &[&str] = &["-wal", "-shm", "-journal", LOCK];

/// The name of a ledger's file with this suffix.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The log in which SQLite collects changes before it copies them into the database.
pub(super) fn log_of(ledger: &Path) -> PathBuf {
    with_suffix(ledger, "-wal")
}

/// The file whose lock a run holds.
pub(super) fn lock_of(ledger: &Path) -> PathBuf {
    with_suffix(ledger, LOCK)
}

/// The run's own ledger for an output of this name.
#[must_use]
pub(crate) fn ledger_of(output: &Path) -> PathBuf {
    with_suffix(output, ".ledger")
}

/// The output that a run's own ledger of this name belongs to.
#[must_use]
pub(super) fn output_of(ledger: &Path) -> Option<PathBuf> {
    let is_own = ledger.extension().is_some_and(|end| end == "ledger");
    is_own.then(|| ledger.with_extension(""))
}

/// Creates the file where there is none. A shared ledger may be named by a link; a run's own is named by us.
pub(super) fn create(path: &Path, kind: LedgerKind) -> io::Result<()> {
    match kind {
        LedgerKind::Own => own_file::open(path, PRIVATE, false).map(drop),
        LedgerKind::Shared => {
            let mut options = OpenOptions::new();
            options.create(true).append(true);
            let file = own_file::with_mode(&mut options, PRIVATE).open(path)?;
            let metadata = file.metadata()?;
            if metadata.len() == 0 {
                // Made by hand, so its group may be meant to share it. Of another user's file this is left to its owner.
                let _ = own_file::set_mode(&file, own_file::mode_of(&metadata) & GROUP);
            }
            Ok(())
        }
    }
}

/// Fails when one of the names of a run's own ledger is taken by something that leads elsewhere: SQLite would write there.
///
/// # Errors
/// Exit code 2: it names the file.
pub(super) fn check_own(path: &Path) -> Result<()> {
    for suffix in DATABASE {
        let path = with_suffix(path, suffix);
        own_file::check(&path).map_err(|e| cannot_write(&path, e))?;
    }
    Ok(())
}

/// Removes a ledger with everything that SQLite keeps beside it. The database is removed first: a log without it is ignored.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for suffix in DATABASE {
        match fs::remove_file(with_suffix(path, suffix)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// How many bytes a ledger takes on the disk, its log included.
pub(super) fn bytes(path: &Path) -> u64 {
    let length = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    length(path) + length(&log_of(path))
}

/// What to do where a user may not write.
pub(super) const ELSEWHERE: &str =
    "run it as a user who may write there, or name a file in another place";

/// The error for one of the ledger's files that cannot be written.
pub(super) fn cannot_write(path: &Path, error: io::Error) -> Error {
    let not_ours = own_file::is_not_ours(&error);
    let cannot = Error::usage(format!("cannot write `{}`", path.display()))
        .because(error)
        .about(path);
    match own_file::not_writable(path) {
        _ if not_ours => cannot.hint(own_file::HINT),
        Some(why) => cannot.detail(why).hint(ELSEWHERE),
        None => cannot,
    }
}
