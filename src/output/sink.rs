//! Files that appear complete or not at all, and standard output.
//!
//! A file is written as `NAME.partial` beside its target, and gets its final name only when
//! everything is on disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::encoder::Encoder;
use super::name::{self, OldFile, still_ours};
use super::outcome::{FileFault, FileResult, WriteError};
use crate::base::error::{Error, Result};
use crate::base::{own_file, stdout};

/// A file that is complete except for its name: its final path and its metadata.
pub(crate) type Sealed = (PathBuf, fs::Metadata);

/// An open output.
pub struct Sink {
    /// `None` once it has ended.
    to: Option<Destination>,
    /// The number of bytes in complete rows.
    whole: u64,
    name: String,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sink").field(&self.name).finish()
    }
}

enum Destination {
    Stream(Box<dyn Write + Send>),
    File {
        encoder: Encoder,
        target: PathBuf,
        partial: PathBuf,
        /// The file that it replaces.
        old: Option<OldFile>,
        /// The permissions under its final name.
        mode: u32,
    },
}

impl Sink {
    /// Standard output.
    ///
    /// # Errors
    /// Exit code 3: it is not open for writing.
    pub(crate) fn stdout() -> Result<Self> {
        stdout::check()?;
        Ok(Self::of(io::stdout(), "standard output".to_owned()))
    }

    /// Any writer, for tests and benchmarks.
    #[must_use]
    pub fn stream(writer: impl Write + Send + 'static) -> Self {
        Self::of(writer, "the output".to_owned())
    }

    /// A writer with this name in messages.
    pub(super) fn of(writer: impl Write + Send + 'static, name: String) -> Self {
        Self {
            to: Some(Destination::Stream(Box::new(writer))),
            whole: 0,
            name,
        }
    }

    /// A partial file that becomes the target and replaces `old`. It is compressed as the target's
    /// name says.
    pub(super) fn partial(
        file: File,
        partial: PathBuf,
        target: &Path,
        old: Option<OldFile>,
        mode: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            name: format!("`{}`", partial.display()),
            whole: 0,
            to: Some(Destination::File {
                encoder: Encoder::new(file, target)?,
                target: target.to_owned(),
                partial,
                old,
                mode,
            }),
        })
    }

    const fn is_stream(&self) -> bool {
        matches!(self.to, Some(Destination::Stream(_)))
    }

    /// The partial file, if there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.to {
            Some(Destination::File { partial, .. }) => Some(partial),
            _ => None,
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let written = match &mut self.to {
            Some(Destination::Stream(stream)) => {
                stream.write_all(bytes).and_then(|()| stream.flush())
            }
            Some(Destination::File { encoder, .. }) => encoder.write(bytes),
            None => Ok(()),
        };
        written.map_err(|e| WriteError::new(e, self.is_stream(), &self.name))?;
        self.whole += bytes.len() as u64;
        Ok(())
    }

    /// Completes the file durably under its partial name, and returns its state.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn seal(&mut self) -> Result<Option<Sealed>, WriteError> {
        let Some(Destination::File {
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

    /// Completes the file durably and gives it its final name. Making the name durable is up to
    /// [`name::sync`].
    ///
    /// # Errors
    /// It cannot be written; with the error comes the partial file that is left.
    pub(super) fn commit(mut self) -> FileResult {
        let Some(Destination::File {
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
            Err(e) => return Err(self.fault(e, partial)),
        };
        match name::give(&partial, &target, old) {
            Ok(()) => {
                // At most the owner's write permission is left to be removed, if the old file was
                // read-only.
                let _ = own_file::set_mode(&file, mode);
                Ok(Some(target))
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let error = Error::stopped(format!(
                    "`{}` appeared after the run started and is not replaced; the complete output is in `{}`",
                    target.display(),
                    partial.display()
                ));
                Err(FileFault {
                    error: WriteError::Failed(error.hint("rename one of them")),
                    left: Some(partial.into()),
                    is_complete: true,
                })
            }
            Err(e) => {
                let error = Error::stopped(format!(
                    "`{}` is complete, but cannot be renamed to `{}`",
                    partial.display(),
                    target.display()
                ));
                Err(FileFault {
                    error: WriteError::Failed(
                        error.because(e).hint("rename it once that is possible"),
                    ),
                    left: Some(partial.into()),
                    is_complete: true,
                })
            }
        }
    }

    /// Removes the partial file, which has no rows, and the file that it would have replaced: its
    /// rows would be mistaken for this run's.
    ///
    /// # Errors
    /// The old file cannot be removed.
    pub(super) fn remove(mut self) -> FileResult {
        self.whole = 0;
        let Some(Destination::File { target, old, .. }) = &self.to else {
            return Ok(None);
        };
        match name::remove(target, *old) {
            Ok(()) => Ok(None),
            Err(e) => {
                let message = format!("cannot remove the old `{}`", target.display());
                Err(FileFault {
                    error: WriteError::Failed(Error::stopped(message).because(e)),
                    left: None,
                    is_complete: false,
                })
            }
        }
    }

    /// Makes the rows so far durable, under the partial name.
    ///
    /// # Errors
    /// It cannot be written; with the error comes the partial file that is left.
    pub(super) fn keep_partial(mut self) -> FileResult {
        let Some(Destination::File {
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
            Err(e) => Err(self.fault(e, partial)),
        }
    }

    /// Leaves a partial file that could not be written any further, without its last, incomplete
    /// row.
    pub(super) fn give_up(mut self) -> Option<PathBuf> {
        let Some(Destination::File {
            encoder, partial, ..
        }) = self.to.take()
        else {
            return None;
        };
        if let Encoder::Plain(file) = encoder {
            // On a failing disk this may fail, too. Then the file ends within a row.
            let _ = file.set_len(self.whole);
        }
        Some(partial)
    }

    fn fault(&self, error: io::Error, partial: PathBuf) -> FileFault {
        FileFault {
            error: WriteError::new(error, false, &self.name),
            left: Some(partial.into()),
            is_complete: false,
        }
    }

    /// Removes the partial file, whatever is in it.
    pub(super) fn discard(mut self) {
        self.whole = 0;
    }
}

impl Drop for Sink {
    /// A file that was opened and stayed empty, for instance because another one could not be
    /// opened, must not be in the way of the next run.
    fn drop(&mut self) {
        if let (
            0,
            Some(Destination::File {
                partial, encoder, ..
            }),
        ) = (self.whole, self.to.take())
        {
            drop(encoder);
            // If it cannot be removed, nothing is lost.
            let _ = fs::remove_file(partial);
        }
    }
}
