//! The paths that files will be written to: where links lead, what may be overwritten, and whether another run is writing the
//! file.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf, is_separator};

use super::file::{OldFile, OutputFile, check_path};
use crate::base::error::{Error, Result};
use crate::base::private_file::{self, FileId, OWNER, Readers, directory_of, with_suffix};

/// The suffix of a file's name until the file is complete.
pub(crate) const PARTIAL: &str = ".partial";

/// The name of a file until it is complete.
pub(crate) fn partial_of(path: &Path) -> PathBuf {
    with_suffix(path, PARTIAL)
}

/// The path that a file will be written to.
#[derive(Debug, Clone)]
pub struct Target {
    /// The path as the user gave it, for messages.
    typed: PathBuf,
    /// The path with links followed: the partial file must be beside the real one, on the same file
    /// system.
    real: PathBuf,
    replace: Replace,
    /// Whether it is a device or a pipe. Those are written directly, as they can be neither renamed
    /// nor left incomplete.
    is_special: bool,
}

/// What a run may overwrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// Nothing: answers in it may have been paid for.
    Nothing,
    /// The partial file of an unfinished run: its answers are in a ledger.
    Partial,
    /// The partial file and the file itself.
    Whole,
}

impl Replace {
    /// What a command without a ledger may replace: everything with `--overwrite`.
    pub(crate) const fn by(overwrite: bool) -> Self {
        if overwrite {
            Self::Whole
        } else {
            Self::Nothing
        }
    }
}

impl Target {
    /// Checks the path, so that a run fails before its first call and not after its last.
    ///
    /// # Errors
    /// Exit code 2: it exists and may not be overwritten, or its directory does not exist. Exit code
    /// 75: another run is writing it.
    pub fn new(path: &Path, replace: Replace) -> Result<Self> {
        let cannot = || Error::usage(format!("cannot write `{}`", path.display()));
        let metadata = fs::metadata(path).ok();
        if metadata.as_ref().is_some_and(fs::Metadata::is_dir) || names_directory(path) {
            return Err(cannot().detail("it is a directory"));
        }
        let is_special = metadata.is_some_and(|metadata| !metadata.is_file());
        let real = if is_special {
            // `/dev/stdout` leads to a pipe, which has no path to follow.
            path.to_owned()
        } else {
            follow(path).map_err(|e| {
                let end = end_of_links(path).unwrap_or_else(|_| path.to_owned());
                let mut error = cannot().because(e);
                if end != path {
                    error = error.detail(format!("it is a link to `{}`", end.display()));
                }
                private_file::cannot_make(&end, error)
            })?
        };
        let target = Self {
            typed: path.to_owned(),
            replace,
            real,
            is_special,
        };
        target.refuse_existing()?;
        target.refuse_partial()?;
        Ok(target)
    }

    /// Fails if there is a file that may not be overwritten.
    fn refuse_existing(&self) -> Result<()> {
        if self.is_special || !self.real.exists() {
            return Ok(());
        }
        if is_database(&self.real) {
            return Err(Error::usage(format!(
                "`{}` is a database, such as a ledger, and is not replaced",
                self.typed.display()
            ))
            .detail("a ledger has answers that were paid for")
            .hint("name another file"));
        }
        if self.replace == Replace::Whole {
            // It may be another run's partial file.
            return refuse_locked(&self.real);
        }
        Err(
            Error::usage(format!("`{}` already exists", self.typed.display()))
                .hint("`--overwrite` replaces it when the new one is complete"),
        )
    }

    /// Fails if there is a partial file whose answers may exist nowhere else.
    fn refuse_partial(&self) -> Result<()> {
        let partial = partial_of(&self.real);
        if self.is_special {
            return Ok(());
        }
        // Checked in any case: a link here would lead to another person's file.
        private_file::check(&partial).map_err(|e| cannot_open(&partial, e))?;
        if self.replace != Replace::Nothing || !holds_rows(&partial) {
            return Ok(());
        }
        refuse_locked(&partial)?;
        Err(in_the_way(&partial))
    }

    /// Whether it is a device or a pipe rather than a file.
    pub(crate) const fn is_special(&self) -> bool {
        self.is_special
    }

    /// The path with links followed.
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// The path of the file until it is complete; `None` if it is written directly.
    pub(crate) fn partial(&self) -> Option<PathBuf> {
        (!self.is_special).then(|| partial_of(&self.real))
    }

    /// The readers among these who can read the file that will be replaced.
    pub(crate) fn narrow(&self, readers: Readers) -> Readers {
        let old = OldFile::at(&self.real).filter(|_| !self.is_special);
        old.map_or(readers, |old| readers.and(old.readers))
    }

    /// Opens the partial file. Apart from its owner, only these may read it, as far as they could
    /// read the file that it replaces.
    ///
    /// # Errors
    /// Exit code 2: it cannot be created. Exit code 75: another run is writing it.
    pub fn open(&self, readers: Readers) -> Result<OutputFile> {
        self.open_now(readers)
            .map_err(|error| error.about(&self.real))
    }

    fn open_now(&self, readers: Readers) -> Result<OutputFile> {
        let cannot = || Error::usage(format!("cannot write `{}`", self.typed.display()));
        if self.is_special {
            let file = File::options().write(true).open(&self.real);
            let name = format!("`{}`", self.typed.display());
            return Ok(OutputFile::direct(
                file.map_err(|e| cannot().because(e))?,
                name,
            ));
        }
        let partial = partial_of(&self.real);
        let file = self.open_locked(&partial)?;
        // The run that held the lock before may have finished by now.
        if let Err(exists) = self.refuse_existing() {
            if !holds_rows(&partial) {
                // If it stays, it does no harm, as it is empty.
                let _ = fs::remove_file(&partial);
            }
            return Err(exists);
        }
        file.set_len(0).map_err(|e| cannot().because(e))?;
        let old = OldFile::at(&self.real);
        let readers = match old {
            Some(old) => old.readers.and(readers),
            None => readers
                .of_new(&self.real)
                .map_err(|e| cannot().because(e))?,
        };
        // The owner can always write it, so that a stopped run can be resumed with it.
        let mode = readers.admit(&file, OWNER);
        let mode = mode.map_err(|e| cannot_open(&partial, e))?;
        OutputFile::partial(file, partial, &self.real, old, mode).map_err(|e| cannot().because(e))
    }

    /// Opens the partial file for this run alone, without changing its content.
    fn open_locked(&self, partial: &Path) -> Result<File> {
        let only_new = self.replace == Replace::Nothing && !partial.exists();
        loop {
            // Not truncated before the lock is held, as another run may be writing it. Open for appending, so that a part that
            // another program cuts off does not come back as zero bytes. Closed to others, as whoever opens it once can read
            // all that is written later.
            let file = private_file::append(partial, OWNER, only_new)
                .map_err(|e| cannot_open(partial, e))?;
            lock(&file, partial)?;
            // A run that ended between opening and locking has given the file its final name: it is the output now.
            if check_path(&file, partial).is_ok() {
                // Another run may have come and gone since the first check.
                if self.replace == Replace::Nothing && holds_rows(partial) {
                    return Err(in_the_way(partial));
                }
                return Ok(file);
            }
        }
    }
}

fn in_the_way(partial: &Path) -> Error {
    Error::usage(format!(
        "`{}` from an unfinished run is in the way",
        partial.display()
    ))
    .detail("the answers to its rows are in the ledger of that run, if it had one: a run that uses them pays only for the rest")
    .hint("move it away, or replace it with `--overwrite`")
    .about(partial)
}

/// Whether a partial file exists and is not empty: a run that was killed as it started leaves an empty one.
fn holds_rows(partial: &Path) -> bool {
    fs::metadata(partial).is_ok_and(|metadata| metadata.len() > 0)
}

/// The partial file cannot be opened.
fn cannot_open(partial: &Path, error: io::Error) -> Error {
    let is_foreign = private_file::is_foreign_file(&error);
    let cannot = Error::usage(format!("cannot write `{}`", partial.display())).because(error);
    if is_foreign {
        return cannot.hint(private_file::HINT);
    }
    cannot
}

/// Takes the lock that a run has on its partial file as long as it lives.
fn lock(file: &File, partial: &Path) -> Result<()> {
    // Some network file systems have no locks: there, only a newly created file is safe.
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::busy(format!(
            "another run is writing `{}`",
            partial.display()
        ))
        .hint("run the same command again when it has ended")),
        _ => Ok(()),
    }
}

/// Fails if a live run is writing this file: it must neither be called unfinished nor be replaced.
fn refuse_locked(partial: &Path) -> Result<()> {
    match File::open(partial) {
        Ok(file) => lock(&file, partial),
        // If it may not even be read, opening it will say so.
        Err(_) => Ok(()),
    }
}

/// Whether the path ends in a separator, so that no file can have it.
fn names_directory(path: &Path) -> bool {
    let last = path.as_os_str().as_encoded_bytes().last();
    last.is_some_and(|last| is_separator(char::from(*last)))
}

/// The path at the end of a chain of links, in a directory that exists, whether or not a file exists there.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let end = end_of_links(path)?;
    if fs::metadata(directory_of(&end))?.is_dir() {
        Ok(end)
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// The path at the end of a chain of links, whatever is there.
///
/// # Errors
/// There are too many.
pub(crate) fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    // The kernel's limit.
    const MAX_LINKS: usize = 40;
    let mut end = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&end) else {
            return Ok(end);
        };
        end = end.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::other("too many links"))
}

/// Whether two paths lead to the same regular file, also through links, or will once it exists.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    // Two names for `/dev/null` do no harm.
    let is_special = |path: &Path| fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    if is_special(a) || is_special(b) {
        return false;
    }
    let real = |path: &Path| {
        let path = follow(path).ok()?;
        let directory = fs::canonicalize(directory_of(&path)).ok()?;
        Some(directory.join(path.file_name()?))
    };
    // Equal names also lead to one file if their directory does not exist yet.
    a.components().eq(b.components())
        || FileId::at(a).is_some_and(|a| FileId::at(b) == Some(a))
        || real(a).is_some_and(|a| real(b) == Some(a))
}

/// What every SQLite database starts with: <https://www.sqlite.org/fileformat2.html#the_database_header>.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Whether there is a SQLite database, as ledgers in files are; one that cannot be read counts as none.
fn is_database(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *MAGIC
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Another thread checks as often as it can: permissions that are wide for a moment show in a
    /// few of these.
    #[test]
    fn what_replaces_a_private_file_is_never_readable_by_others() {
        const TIMES: usize = 200;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let (partial, over) = (partial_of(&path), AtomicBool::new(false));
        let watch = || {
            let mut widest = 0;
            while !over.load(Ordering::Relaxed) {
                let metadata = fs::metadata(&partial);
                widest |= metadata.map_or(0, |metadata| private_file::mode_of(&metadata));
            }
            widest
        };
        std::thread::scope(|scope| {
            let watching = scope.spawn(watch);
            for _ in 0..TIMES {
                let target = Target::new(&path, Replace::Whole).unwrap();
                drop(target.open(Readers::EVERYBODY).unwrap());
            }
            over.store(true, Ordering::Relaxed);
            assert_eq!(watching.join().unwrap() & !OWNER, 0);
        });
    }
}
