//! Places that files will be written to: what may be written over there, and that nobody else is at it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::file::Sink;
use crate::error::{Error, Result};

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

/// The name that a file has until it is whole.
#[must_use]
pub fn partial_of(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
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
    pub fn again(&self, replace: Replace) -> Result<Self> {
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
        if self.special || self.replace != Replace::Nothing || !partial.exists() {
            return Ok(());
        }
        refuse_locked(&partial)?;
        Err(Error::usage(format!(
            "`{}` of an unfinished run is in the way",
            partial.display()
        ))
        .detail("it holds rows whose answers were paid for")
        .hint("move it away, or start over with `--overwrite`"))
    }

    /// Whether it is a device or a pipe rather than a file.
    #[must_use]
    pub const fn is_special(&self) -> bool {
        self.special
    }

    /// The path with links followed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// Opens the partial file.
    ///
    /// # Errors
    /// Exit code 2: it cannot be created, or another run is writing it.
    pub fn open(&self) -> Result<Sink> {
        let cannot = || Error::usage(format!("cannot write `{}`", self.shown.display()));
        if self.special {
            let file = OpenOptions::new()
                .write(true)
                .open(&self.real)
                .map_err(|e| cannot().because(e))?;
            return Ok(Sink::of(file, format!("`{}`", self.shown.display())));
        }
        let partial = partial_of(&self.real);
        let file = self.open_locked(&partial)?;
        // Whoever had the lock before us may have finished meanwhile.
        if let Err(exists) = self.refuse_existing() {
            if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                // That it stays is harmless: nothing is in it.
                let _ = fs::remove_file(&partial);
            }
            return Err(exists);
        }
        file.set_len(0).map_err(|e| cannot().because(e))?;
        if let Ok(metadata) = fs::metadata(&self.real) {
            // A replaced file keeps who may read it.
            file.set_permissions(metadata.permissions())
                .map_err(|e| cannot().because(e))?;
        }
        Sink::partial(file, partial, &self.real).map_err(|e| cannot().because(e))
    }

    /// Opens the partial file for this run alone, without touching what is in it.
    fn open_locked(&self, partial: &Path) -> Result<File> {
        let mut options = OpenOptions::new();
        // Not truncated before the lock is held: another run may be writing it.
        options
            .write(true)
            .create(true)
            .truncate(false)
            .create_new(self.replace == Replace::Nothing);
        loop {
            let file = options.open(partial).map_err(|e| {
                Error::usage(format!("cannot write `{}`", self.shown.display())).because(e)
            })?;
            lock(&file, partial)?;
            // A run that ended between our opening and locking it has given it its own name: then it is the output.
            if still_ours(&file, partial).is_ok() {
                return Ok(file);
            }
        }
    }

    /// Removes a file of this name that an earlier run left.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub fn remove_old(&self) -> Result<()> {
        if self.special {
            return Ok(());
        }
        match fs::remove_file(&self.real) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                let message = format!("cannot remove the old `{}`", self.shown.display());
                Err(Error::stopped(message).because(e))
            }
            _ => Ok(()),
        }
    }
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
pub fn is_same_file(a: &Path, b: &Path) -> bool {
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

/// What tells files apart, whatever their names.
#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(unix)]
fn same_inode(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => identity(&a) == identity(&b),
        _ => false,
    }
}

#[cfg(not(unix))]
fn same_inode(_: &Path, _: &Path) -> bool {
    false
}

/// Fails when the path no longer leads to this open file: somebody moved it away and another one stands there.
#[cfg(unix)]
pub(super) fn still_ours(file: &File, path: &Path) -> io::Result<()> {
    if identity(&file.metadata()?) == identity(&fs::metadata(path)?) {
        Ok(())
    } else {
        Err(io::Error::other("somebody else's file stands there now"))
    }
}

#[cfg(not(unix))]
pub(super) fn still_ours(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}
