//! Files that appear whole or not at all, and standard output.
//!
//! A file is written as `NAME.partial` beside its target, and takes its name only when everything is on disk.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::write::GzEncoder;
use tokio::time::Instant;

use super::WriteError;
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
            return Ok(Sink {
                to: Some(To::Stream(Box::new(file))),
                whole: 0,
                name: format!("`{}`", self.shown.display()),
            });
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
        let encoder = Encoder::new(file, &self.real).map_err(|e| cannot().because(e))?;
        let name = format!("`{}`", partial.display());
        Ok(Sink {
            to: Some(To::File {
                encoder,
                target: self.real.clone(),
                partial,
            }),
            whole: 0,
            name,
        })
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

fn directory_of(path: &Path) -> &Path {
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
fn still_ours(file: &File, path: &Path) -> io::Result<()> {
    if identity(&file.metadata()?) == identity(&fs::metadata(path)?) {
        Ok(())
    } else {
        Err(io::Error::other("somebody else's file stands there now"))
    }
}

#[cfg(not(unix))]
fn still_ours(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

/// The file that an output ended as, if it is one; beside an error, what is left of it.
pub(super) type Ended = Result<Option<PathBuf>, (WriteError, Option<PathBuf>)>;

/// A file that is whole but for its name, and how it is.
pub type Sealed = (PathBuf, fs::Metadata);

/// An open output.
pub struct Sink {
    /// `None` once it has ended.
    to: Option<To>,
    /// Bytes that were written whole.
    whole: u64,
    name: String,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sink").field(&self.name).finish()
    }
}

enum To {
    Stream(Box<dyn Write + Send>),
    File {
        encoder: Encoder,
        target: PathBuf,
        partial: PathBuf,
    },
}

impl Sink {
    /// Standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self {
            to: Some(To::Stream(Box::new(io::stdout()))),
            whole: 0,
            name: "standard output".to_owned(),
        }
    }

    /// Any writer, for tests and benchmarks.
    #[must_use]
    pub fn stream(writer: impl Write + Send + 'static) -> Self {
        Self {
            to: Some(To::Stream(Box::new(writer))),
            whole: 0,
            name: "the output".to_owned(),
        }
    }

    const fn is_stream(&self) -> bool {
        matches!(self.to, Some(To::Stream(_)))
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let written = match &mut self.to {
            Some(To::Stream(stream)) => stream.write_all(bytes).and_then(|()| stream.flush()),
            Some(To::File { encoder, .. }) => encoder.write(bytes),
            None => Ok(()),
        };
        written.map_err(|e| WriteError::new(e, self.is_stream(), &self.name))?;
        self.whole += bytes.len() as u64;
        Ok(())
    }

    /// Makes the file whole and durable under its partial name: how it will be under its own.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn seal(&mut self) -> Result<Option<Sealed>, WriteError> {
        let Some(To::File {
            encoder, target, ..
        }) = &mut self.to
        else {
            return Ok(None);
        };
        let mut seal = || {
            let file = encoder.end()?;
            file.sync_all()?;
            file.metadata()
        };
        match seal() {
            Ok(metadata) => Ok(Some((target.clone(), metadata))),
            Err(e) => Err(WriteError::new(e, false, &self.name)),
        }
    }

    /// Makes the file whole, durable and known by its own name.
    ///
    /// # Errors
    /// It cannot be; beside the error, the partial file that is left.
    pub(super) fn commit(mut self) -> Ended {
        let Some(To::File {
            encoder,
            target,
            partial,
        }) = self.to.take()
        else {
            return Ok(None);
        };
        let finish = || {
            let file = encoder.finish()?;
            file.sync_all()?;
            still_ours(&file, &partial)?;
            fs::rename(&partial, &target)?;
            sync_directory(directory_of(&target))
        };
        match finish() {
            Ok(()) => Ok(Some(target)),
            Err(e) => Err((WriteError::new(e, false, &self.name), Some(partial))),
        }
    }

    /// Makes durable what there is, under the partial name.
    ///
    /// # Errors
    /// It cannot be; beside the error, the partial file that is left.
    pub(super) fn keep_partial(mut self) -> Ended {
        let Some(To::File {
            encoder, partial, ..
        }) = self.to.take()
        else {
            return Ok(None);
        };
        let finish = || {
            let file = encoder.finish()?;
            file.sync_all()?;
            still_ours(&file, &partial)
        };
        match finish() {
            Ok(()) => Ok(Some(partial)),
            Err(e) => Err((WriteError::new(e, false, &self.name), Some(partial))),
        }
    }

    /// Leaves a partial file that could not be written on, without the row that it was cut off in.
    pub(super) fn give_up(mut self) -> Option<PathBuf> {
        let Some(To::File {
            encoder, partial, ..
        }) = self.to.take()
        else {
            return None;
        };
        if let Encoder::Plain(file) = encoder {
            // On a disk that fails this may fail as well: then the file ends within a row.
            let _ = file.set_len(self.whole);
        }
        Some(partial)
    }

    /// Removes a partial file that holds nothing of worth.
    pub(super) fn discard(mut self) {
        self.whole = 0;
    }
}

impl Drop for Sink {
    /// A file that was opened and got nothing, as when another one could not be opened, must not be in the next run's way.
    fn drop(&mut self) {
        if let (
            0,
            Some(To::File {
                partial, encoder, ..
            }),
        ) = (self.whole, self.to.take())
        {
            drop(encoder);
            // That it could not be removed is no news.
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

enum Encoder {
    Plain(File),
    Gzip(GzEncoder<File>, Instant),
    Zstd(zstd::Encoder<'static, File>, Instant),
}

/// How long rows may stay in a compressor: a killed program loses them, and a flush costs compression.
const HELD_BACK: Duration = Duration::from_secs(1);

impl Encoder {
    /// By the name's end. The levels are the libraries' defaults: what `gzip` and `zstd` use.
    fn new(file: File, path: &Path) -> io::Result<Self> {
        let now = Instant::now();
        Ok(
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("gz") => Self::Gzip(GzEncoder::new(file, flate2::Compression::default()), now),
                Some("zst") => Self::Zstd(
                    zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?,
                    now,
                ),
                _ => Self::Plain(file),
            },
        )
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (encoder, flushed): (&mut dyn Write, _) = match self {
            Self::Plain(file) => return file.write_all(bytes),
            Self::Gzip(encoder, flushed) => (encoder, flushed),
            Self::Zstd(encoder, flushed) => (encoder, flushed),
        };
        encoder.write_all(bytes)?;
        if flushed.elapsed() >= HELD_BACK {
            encoder.flush()?;
            *flushed = Instant::now();
        }
        Ok(())
    }

    /// Writes what a compressor holds back; nothing may follow.
    fn end(&mut self) -> io::Result<&File> {
        match self {
            Self::Plain(file) => Ok(file),
            Self::Gzip(encoder, _) => {
                encoder.try_finish()?;
                Ok(encoder.get_ref())
            }
            Self::Zstd(encoder, _) => {
                encoder.do_finish()?;
                Ok(encoder.get_ref())
            }
        }
    }

    fn finish(self) -> io::Result<File> {
        match self {
            Self::Plain(file) => Ok(file),
            Self::Gzip(encoder, _) => encoder.finish(),
            Self::Zstd(encoder, _) => encoder.finish(),
        }
    }
}
