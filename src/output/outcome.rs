//! What is left of a run's files when it has ended.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::error::Error;

/// What the writer left behind.
#[derive(Debug)]
pub struct Written {
    /// The output, or what there is of it.
    pub(crate) output: Option<PathBuf>,
    /// The rejects, where there are any.
    pub(crate) rejects: Option<PathBuf>,
    /// The rows whose decision changed, where they were asked for.
    pub(crate) changes: Option<PathBuf>,
    /// A directory of theirs that could not be synced: they are whole, and a power cut may undo their names.
    pub(crate) unsynced: Option<PathBuf>,
}

impl Written {
    /// Nothing at all.
    pub(crate) const NOTHING: Self = Self {
        output: None,
        rejects: None,
        changes: None,
        unsynced: None,
    };
}

/// The files could not be ended as they should.
#[derive(Debug)]
pub struct Unfinished {
    /// Why.
    pub(crate) error: WriteError,
    /// What there is nevertheless.
    pub(crate) left: Written,
}

/// Writing to this output failed.
#[derive(Debug)]
pub enum WriteError {
    /// Whoever read our standard output has gone: no error of anybody.
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

    /// It is about this file.
    pub(super) fn about(self, file: Option<&Path>) -> Self {
        match (self, file) {
            (Self::Failed(error), Some(file)) => Self::Failed(error.about(file)),
            (other, _) => other,
        }
    }
}

/// The file that an output ended as, if it is a file, or why it could not be ended.
pub(super) type FileEnd = Result<Option<PathBuf>, FileFault>;

/// A file that could not be ended.
pub(super) struct FileFault {
    /// Why.
    pub(super) error: WriteError,
    /// What is left of the file.
    pub(super) left: Option<PathBuf>,
}
