//! Places that files will be written to: what may be written over there, and that nobody else is at it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::file::Sink;
use super::name::{Identity, Old};
use crate::base::error::{Error, Result};
use crate::base::own_file;

/// A place that a file will be written to.
#[derive(Debug, Clone)]
pub struct Target {
    /// As it was given, for messages.
    shown: PathBuf,
    /// With links followed: the partial file must lie beside the real one, on its file system.
    real: PathBuf,
    replace: Replace,
    /// A device or pipe is written straight away: it can be neither renamed nor half-written.
    special: bool,
}

/// What stands behind a file's name until it is whole.
pub(crate) const PARTIAL: &str = ".partial";

/// The name that a file has until it is whole.
#[must_use]
pub(crate) fn partial_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(PARTIAL);
    name.into()
}

/// What a run may write over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// Nothing: answers in it may have been paid for.
    Nothing,
    /// What an unfinished run left: its answers are in a ledger.
    Partial,
    /// That, and the file itself.
    Whole,
}

impl Target {
    /// Checks the place, so that a run fails before its first call and not after its last. `replace` is asked what may be
    /// written over at the path with links followed.
    ///
    /// # Errors
    /// Exit code 2: it exists and may not be overwritten, or its directory is missing.
    pub fn new(path: &Path, replace: impl FnOnce(&Path) -> Replace) -> Result<Self> {
        let shown = path.to_owned();
        let cannot = || Error::usage(format!("cannot write `{}`", path.display()));
        let metadata = fs::metadata(path).ok();
        if metadata.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(cannot().detail("it is a directory"));
        }
        let special = metadata
            .as_ref()
            .is_some_and(|metadata| !metadata.is_file());
        let real = if special {
            // `/dev/stdout` leads to a pipe, which has no path that could be followed.
            path.to_owned()
        } else {
            follow(path).map_err(|e| cannot().because(e))?
        };
        let replace = replace(&real);
        let target = Self {
            shown,
            real,
            replace,
            special,
        };
        target.refuse_existing()?;
        target.refuse_partial()?;
        Ok(target)
    }

    /// The same place with another leave, checked once more: much may have come to an end since it was checked first.
    ///
    /// # Errors
    /// As [`Target::new`].
    pub(crate) fn again(&self, replace: Replace) -> Result<Self> {
        let target = Self {
            replace,
            ..self.clone()
        };
        target.refuse_existing()?;
        target.refuse_partial()?;
        Ok(target)
    }

    /// Fails when there is a file that may not be written over.
    fn refuse_existing(&self) -> Result<()> {
        if self.special || self.replace == Replace::Whole || !self.real.exists() {
            return Ok(());
        }
        Err(
            Error::usage(format!("`{}` exists already", self.shown.display()))
                .hint("`--overwrite` replaces it once the new one is whole"),
        )
    }

    /// Fails when there is a partial file whose answers nobody else may have.
    fn refuse_partial(&self) -> Result<()> {
        let partial = partial_of(&self.real);
        if self.special {
            return Ok(());
        }
        // Whatever may be written over: it leads to what is not ours.
        own_file::check(&partial).map_err(|e| cannot_open(&partial, e))?;
        if self.replace != Replace::Nothing || !holds_rows(&partial) {
            return Ok(());
        }
        refuse_locked(&partial)?;
        Err(in_the_way(&partial))
    }

    /// Whether it is a device or a pipe rather than a file.
    #[must_use]
    pub(crate) const fn is_special(&self) -> bool {
        self.special
    }

    /// The path with links followed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// Who can read the file that is there, which is to be replaced.
    #[must_use]
    pub(crate) fn mode(&self) -> Option<u32> {
        let old = Old::at(&self.real).filter(|_| !self.special);
        old.map(|old| old.mode)
    }

    /// Opens the partial file. Nobody but its owner may read it who is not in `mode`, nor who could not read the file that
    /// it replaces.
    ///
    /// # Errors
    /// Exit code 2: it cannot be created, or another run is writing it.
    pub fn open(&self, mode: u32) -> Result<Sink> {
        let cannot = || Error::usage(format!("cannot write `{}`", self.shown.display()));
        if self.special {
            let file = OpenOptions::new()
                .write(true)
                .open(&self.real)
                .map_err(|e| cannot().because(e))?;
            return Ok(Sink::of(file, format!("`{}`", self.shown.display())));
        }
        let partial = partial_of(&self.real);
        // Narrow from the start: what is wide for a moment can be opened in it.
        let others = if self.real.exists() { 0 } else { mode & OTHERS };
        let file = self.open_locked(&partial, OWNER | others)?;
        // Whoever had the lock before us may have finished meanwhile.
        if let Err(exists) = self.refuse_existing() {
            if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                // That it stays is harmless: nothing is in it.
                let _ = fs::remove_file(&partial);
            }
            return Err(exists);
        }
        file.set_len(0).map_err(|e| cannot().because(e))?;
        let old = Old::at(&self.real);
        let metadata = file.metadata().map_err(|e| cannot().because(e))?;
        let mode = match old {
            Some(old) => old.mode & (mode | 0o700),
            None => own_file::mode_of(&metadata) & (mode | OWNER) | OWNER,
        };
        // For its owner it stays one that can be written, so that a run that is stopped can go on with it.
        own_file::set_mode(&file, mode | OWNER).map_err(|e| cannot_open(&partial, e))?;
        Sink::partial(file, partial, &self.real, old, mode).map_err(|e| cannot().because(e))
    }

    /// Opens the partial file for this run alone, without touching what is in it.
    fn open_locked(&self, partial: &Path, mode: u32) -> Result<File> {
        let only_new = self.replace == Replace::Nothing && !partial.exists();
        loop {
            // Not truncated before the lock is held: another run may be writing it.
            let file =
                own_file::open(partial, mode, only_new).map_err(|e| cannot_open(partial, e))?;
            lock(&file, partial)?;
            // A run that ended between our opening and locking it has given it its own name: then it is the output.
            if still_ours(&file, partial).is_ok() {
                // Another run may have come and gone since it was looked at.
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
        "`{}` of an unfinished run is in the way",
        partial.display()
    ))
    .detail("it holds rows whose answers may have been paid for")
    .hint("move it away, or start over with `--overwrite`")
}

/// Whether a partial file is there and not empty: a run that was killed as it started leaves an empty one.
fn holds_rows(partial: &Path) -> bool {
    fs::metadata(partial).is_ok_and(|metadata| metadata.len() > 0)
}

/// What its owner may do with a file of ours.
const OWNER: u32 = 0o600;
/// What others may be allowed to do with it: none of ours is a program.
const OTHERS: u32 = 0o066;

/// The partial file cannot be opened.
fn cannot_open(partial: &Path, error: io::Error) -> Error {
    let not_ours = own_file::is_not_ours(&error);
    let cannot = Error::usage(format!("cannot write `{}`", partial.display())).because(error);
    if not_ours {
        return cannot.hint(own_file::HINT);
    }
    cannot
}

/// Takes the lock that a run holds on its partial file for as long as it lives.
fn lock(file: &File, partial: &Path) -> Result<()> {
    // Some network file systems have no locks: there, that the file was created anew must do.
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::usage(format!(
            "another run is writing `{}`",
            partial.display()
        ))),
        _ => Ok(()),
    }
}

/// Fails when a run that is alive writes this partial file: it must not be called a left-over.
fn refuse_locked(partial: &Path) -> Result<()> {
    match File::open(partial) {
        Ok(file) => lock(&file, partial),
        // Who may not even read it will hear so on opening it.
        Err(_) => Ok(()),
    }
}

/// The path that a chain of links ends at, whether or not there is a file yet.
fn follow(path: &Path) -> io::Result<PathBuf> {
    // The kernel follows as many.
    const MOST_LINKS: usize = 40;
    let mut at = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&at) else {
            if fs::metadata(directory_of(&at))?.is_dir() {
                return Ok(at);
            }
            return Err(io::ErrorKind::NotADirectory.into());
        };
        at = at.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::other("too many links"))
}

pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Whether two paths are one regular file, also through links, or will be once it exists.
#[must_use]
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    // Nobody is harmed by two names for `/dev/null`.
    let special = |path: &Path| fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    if special(a) || special(b) {
        return false;
    }
    let place = |path: &Path| {
        let path = follow(path).ok()?;
        Some((
            fs::canonicalize(directory_of(&path)).ok()?,
            path.file_name()?.to_owned(),
        ))
    };
    same_inode(a, b) || place(a).is_some_and(|a| place(b) == Some(a))
}

fn same_inode(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => cfg!(unix) && Identity::of(&a) == Identity::of(&b),
        _ => false,
    }
}

/// Fails when the path no longer leads to this open file: somebody moved it away and another one stands there.
pub(super) fn still_ours(file: &File, path: &Path) -> io::Result<()> {
    if Identity::of(&file.metadata()?) == Identity::of(&fs::symlink_metadata(path)?) {
        Ok(())
    } else {
        Err(io::Error::other("somebody else's file stands there now"))
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Another thread looks as often as it can: what is wide for a moment is found in a few of these.
    #[test]
    fn what_replaces_a_private_file_is_not_wide_for_a_moment() {
        const TIMES: usize = 500;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let (partial, over) = (partial_of(&path), AtomicBool::new(false));
        let look = || {
            let mut widest = 0;
            while !over.load(Ordering::Relaxed) {
                let metadata = fs::metadata(&partial);
                widest |= metadata.map_or(0, |metadata| own_file::mode_of(&metadata));
            }
            widest
        };
        std::thread::scope(|scope| {
            let looking = scope.spawn(look);
            for _ in 0..TIMES {
                let target = Target::new(&path, |_| Replace::Whole).unwrap();
                target.open(0o666).unwrap().discard();
            }
            over.store(true, Ordering::Relaxed);
            assert_eq!(looking.join().unwrap() & !OWNER, 0);
        });
    }
}
