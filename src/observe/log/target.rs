//! Where the log goes.

use std::path::{Path, PathBuf};

/// Where the log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogTarget {
    /// Standard error. Standard output may have the rows.
    Stderr,
    /// The end of this file.
    File(PathBuf),
}

impl LogTarget {
    /// The file, if it is one.
    #[must_use]
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Stderr => None,
            Self::File(path) => Some(path),
        }
    }
}
