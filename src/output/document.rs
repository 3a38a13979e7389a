//! A file that is written as a whole, such as a report: it gets its name when it is complete, and otherwise never exists.
//!
//! It is opened before it is known what will be in it, so that a run fails before its first call and not after its last.
//! This file must not know what is written.

use std::fs;
use std::path::PathBuf;

use super::name;
use super::outcome::{FileFault, WriteError};
use super::sink::{Sealed, Sink};
use super::target::Target;
use crate::base::directory::directory_of;
use crate::base::error::{Error, Result};

/// An open file without content, or standard output.
pub(crate) struct Document {
    sink: Sink,
    /// Gets its state when it is complete, before it has its name.
    note: Option<Note>,
}

type Note = Box<dyn FnOnce(&[Sealed])>;

impl Document {
    /// Opens the target. Only those who may read a file with these permissions may read it.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub(crate) fn open(target: &Target, mode: u32) -> Result<Self> {
        target
            .open(mode)
            .map(Self::of)
            .map_err(|error| error.about(target.path()))
    }

    /// Standard output.
    ///
    /// # Errors
    /// Exit code 3: it is not open for writing.
    pub(crate) fn stdout() -> Result<Self> {
        Sink::stdout().map(Self::of)
    }

    const fn of(sink: Sink) -> Self {
        Self { sink, note: None }
    }

    /// The same. When it is complete, and before it has its name, `note` gets its state.
    pub(crate) fn noting(self, note: impl FnOnce(&[Sealed]) + 'static) -> Self {
        Self {
            note: Some(Box::new(note)),
            ..self
        }
    }

    /// Writes all of it, and gives the file its name. If that fails, nothing is left, unless it only cannot get its name: then
    /// the error says where the complete file is.
    ///
    /// # Errors
    /// Exit code 3: it cannot be written.
    pub(crate) fn complete(self, text: &str) -> Result<Option<PathBuf>> {
        let Self { mut sink, note } = self;
        let sealed = sink.write(text.as_bytes()).and_then(|()| sink.seal());
        match sealed {
            Ok(sealed) => {
                if let (Some(sealed), Some(note)) = (sealed, note) {
                    note(&[sealed]);
                }
            }
            Err(error) => {
                sink.discard();
                return Err(error_of(error));
            }
        }
        match sink.commit() {
            Ok(path) => {
                // If it fails, the file is there, and only a power cut may undo that.
                let _ = path.as_deref().map(directory_of).map(name::sync);
                Ok(path)
            }
            Err(FileFault {
                error,
                left,
                is_complete,
            }) => {
                // It can be made again, and must not be in the way then.
                let _ = left.filter(|_| !is_complete).map(fs::remove_file);
                Err(error_of(error))
            }
        }
    }
}

fn error_of(error: WriteError) -> Error {
    match error {
        WriteError::Closed => Error::stopped("standard output was closed"),
        WriteError::Failed(error) => error,
    }
}
