//! Files that a run has read and written: their names and sizes.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// What a run has read.
#[derive(Debug, Default)]
pub(crate) struct ReadFile {
    /// Its name; `None` for standard input.
    pub(crate) path: Option<PathBuf>,
    /// Its size, or the bytes that were read of standard input.
    pub(crate) bytes: Option<u64>,
}

/// What a run has written.
#[derive(Debug)]
pub(crate) struct WrittenFile {
    /// Its name.
    pub(crate) path: PathBuf,
    /// Its size; `None` if it is not a regular file.
    pub(crate) bytes: Option<u64>,
}

impl WrittenFile {
    /// The file at this path, unless it was removed or moved during the run, perhaps with its directory.
    pub(crate) fn at(path: PathBuf) -> Option<Self> {
        path.symlink_metadata().ok()?;
        let there = fs::metadata(&path).ok().filter(fs::Metadata::is_file);
        Some(Self {
            path,
            bytes: there.map(|there| there.len()),
        })
    }
}

/// A file for programs.
#[derive(Debug, Serialize)]
pub(super) struct FileJson<'a> {
    path: Option<Cow<'a, str>>,
    bytes: Option<u64>,
}

impl<'a> FileJson<'a> {
    /// What was read.
    pub(super) fn read(file: &'a ReadFile) -> Self {
        Self::new(file.path.as_deref(), file.bytes)
    }

    /// What was written.
    pub(super) fn written(file: &'a WrittenFile) -> Self {
        Self::new(Some(&file.path), file.bytes)
    }

    fn new(path: Option<&'a Path>, bytes: Option<u64>) -> Self {
        Self {
            path: path.map(Path::to_string_lossy),
            bytes,
        }
    }
}
