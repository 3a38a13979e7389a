//! Recognising a file, whatever its name is.

use std::fs::{self, Metadata};
use std::path::Path;

/// The identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    /// That of the file with this metadata.
    #[must_use]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(metadata.dev(), metadata.ino())
    }

    /// That of the file that the path leads to. It is not opened: on some systems, closing it would end SQLite's locks.
    #[must_use]
    pub(crate) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}
