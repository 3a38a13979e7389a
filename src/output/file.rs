//! Files that appear whole or not at all, and standard output.
//!
//! A file is written as `NAME.partial` beside its target, and takes its name only when everything is on disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::write::GzEncoder;
use tokio::time::Instant;

use super::WriteError;
use super::name::{self, Old};
use super::target::still_ours;
use crate::base::error::Error;
use crate::base::own_file;
use crate::layout::Packing;

/// The file that an output ended as, if it is one; beside an error, what is left of it.
pub(super) type Ended = Result<Option<PathBuf>, (WriteError, Option<PathBuf>)>;

/// A file that is whole but for its name, and how it is.
pub(crate) type Sealed = (PathBuf, fs::Metadata);

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
        /// What it replaces.
        old: Option<Old>,
        /// Who may read it under its own name.
        mode: u32,
    },
}

impl Sink {
    /// Standard output.
    #[must_use]
    pub(crate) fn stdout() -> Self {
        Self::of(io::stdout(), "standard output".to_owned())
    }

    /// Any writer, for tests and benchmarks.
    #[must_use]
    pub fn stream(writer: impl Write + Send + 'static) -> Self {
        Self::of(writer, "the output".to_owned())
    }

    /// A writer that people know by this name.
    pub(super) fn of(writer: impl Write + Send + 'static, name: String) -> Self {
        Self {
            to: Some(To::Stream(Box::new(writer))),
            whole: 0,
            name,
        }
    }

    /// A partial file that becomes the target in the place of `old`, compressed by that one's name.
    pub(super) fn partial(
        file: File,
        partial: PathBuf,
        target: &Path,
        old: Option<Old>,
        mode: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            name: format!("`{}`", partial.display()),
            whole: 0,
            to: Some(To::File {
                encoder: Encoder::new(file, target)?,
                target: target.to_owned(),
                partial,
                old,
                mode,
            }),
        })
    }

    const fn is_stream(&self) -> bool {
        matches!(self.to, Some(To::Stream(_)))
    }

    /// The partial file, where there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.to {
            Some(To::File { partial, .. }) => Some(partial),
            _ => None,
        }
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

    /// Makes the file whole, durable and known by its own name; that this one is durable is for [`name::sync`].
    ///
    /// # Errors
    /// It cannot be; beside the error, the partial file that is left.
    pub(super) fn commit(mut self) -> Ended {
        let Some(To::File {
            encoder,
            target,
            partial,
            old,
            mode,
        }) = self.to.take()
        else {
            return Ok(None);
        };
        let whole = || {
            let file = encoder.finish()?;
            file.sync_all()?;
            still_ours(&file, &partial)?;
            Ok(file)
        };
        let file = match whole() {
            Ok(file) => file,
            Err(e) => return Err((WriteError::new(e, false, &self.name), Some(partial))),
        };
        match name::give(&partial, &target, old) {
            Ok(()) => {
                // Nothing but the owner's own leave to write is left to take away, as of a file that was read-only.
                let _ = own_file::set_mode(&file, mode);
                Ok(Some(target))
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let error = Error::stopped(format!(
                    "`{}` has appeared since the run started and is not replaced; `{}` is complete",
                    target.display(),
                    partial.display()
                ));
                Err((
                    WriteError::Failed(error.hint("rename one of them")),
                    Some(partial),
                ))
            }
            Err(e) => Err((WriteError::new(e, false, &self.name), Some(partial))),
        }
    }

    /// Removes the partial file, which got no row, and the file that would have been replaced: its rows would be taken for
    /// this run's.
    ///
    /// # Errors
    /// The old file cannot be removed.
    pub(super) fn remove(mut self) -> Ended {
        self.whole = 0;
        let Some(To::File { target, old, .. }) = &self.to else {
            return Ok(None);
        };
        match name::remove(target, *old) {
            Ok(()) => Ok(None),
            Err(e) => {
                let message = format!("cannot remove the old `{}`", target.display());
                Err((WriteError::Failed(Error::stopped(message).because(e)), None))
            }
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
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(match Packing::split(&name).1 {
            Some(Packing::Gzip) => {
                Self::Gzip(GzEncoder::new(file, flate2::Compression::default()), now)
            }
            Some(Packing::Zstd) => {
                let level = zstd::DEFAULT_COMPRESSION_LEVEL;
                Self::Zstd(zstd::Encoder::new(file, level)?, now)
            }
            None => Self::Plain(file),
        })
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
