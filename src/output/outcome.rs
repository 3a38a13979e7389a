//! The state of a run's files when it has ended.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::error::Error;

/// The files that the writer left.
#[derive(Debug)]
pub struct Written {
    /// The output, complete or partial.
    pub(crate) output: Option<PathBuf>,
    /// The rejects, if there are any.
    pub(crate) rejects: Option<PathBuf>,
    /// The rows whose decision changed, if they were asked for.
    pub(crate) changes: Option<PathBuf>,
    /// A directory that could not be synced: the files in it are complete, but a power cut may undo
    /// their renaming.
    pub(crate) unsynced: Option<PathBuf>,
}

impl Written {
    /// No files.
    pub(crate) const NOTHING: Self = Self {
        output: None,
        rejects: None,
        changes: None,
        unsynced: None,
    };
}

/// The files could not be completed.
#[derive(Debug)]
pub struct Unfinished {
    /// Why.
    pub(crate) error: WriteError,
    /// The files that exist nevertheless.
    pub(crate) left: Written,
}

/// Writing to this output failed.
#[derive(Debug)]
pub enum WriteError {
    /// The reader of our standard output has gone away, which is not an error.
    Closed,
    /// Anything else.
    Failed(Error),
}

impl WriteError {
    pub(super) fn new(error: io::Error, stream: bool, to: &str) -> Self {
        if stream && error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Self::Failed(Error::stopped(format!("cannot write {to}")).because(error))
    }

    /// Adds the file that the error is about.
    pub(super) fn about(self, file: Option<&Path>) -> Self {
        match (self, file) {
            (Self::Failed(error), Some(file)) => Self::Failed(error.about(file)),
            (other, _) => other,
        }
    }
}

/// The final file of an output, if it is a file, or why it could not be completed.
pub(super) type FileResult = Result<Option<PathBuf>, FileFault>;

/// A file that could not be completed.
pub(super) struct FileFault {
    /// Why.
    pub(super) error: WriteError,
    /// The partial file that is left.
    pub(super) left: Option<Box<Path>>,
    /// Whether that file is complete, and only cannot get its name.
    pub(super) is_complete: bool,
}
