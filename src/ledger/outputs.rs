//! How a run left its files, so that only these are replaced without `--overwrite` when the same command continues.
//!
//! A file is stored as a keyed hash of its path, its size and when it was last modified; the run as a keyed hash of its
//! input's path. The input's content is not stored: it may be edited, sorted or grow.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::key::{PathHash, hash_of_path};
use crate::base::directory::directory_of;

/// How a file relates to the run that continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputState {
    /// There is no such file.
    Absent,
    /// It is as the run left it.
    AsLeft,
    /// The run left it, and it has changed since.
    Changed,
    /// A run over another input left it.
    OfOtherInput,
    /// It does not come from such a run.
    Foreign,
}

/// How a file was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    pub(super) size: i64,
    /// In nanoseconds since 1970.
    pub(super) modified: i64,
}

/// A file that a run is about to leave.
pub(super) struct LeftFile {
    pub(super) path: PathHash,
    pub(super) stamp: FileStamp,
    /// As it is now: the run may be killed before the new file has its name.
    pub(super) now: FileStamp,
}

impl FileStamp {
    fn of(metadata: &Metadata) -> io::Result<Self> {
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
        let modified = modified.map_or(0, |time| time.as_nanos());
        Ok(Self {
            size: i64::try_from(metadata.len()).unwrap_or(i64::MAX),
            modified: i64::try_from(modified).unwrap_or(i64::MAX),
        })
    }

    fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).and_then(|metadata| Self::of(&metadata))
    }
}

/// How a file relates to the run over this input; `None` is an input without a path. `left` gives how runs left files at a path,
/// each with the input of the run.
///
/// # Errors
/// `left` failed.
pub(super) fn state<E>(
    secret: &[u8; 32],
    file: &Path,
    input: Option<&Path>,
    left: impl FnOnce(PathHash) -> Result<Vec<(FileStamp, PathHash)>, E>,
) -> Result<OutputState, E> {
    let now = match FileStamp::at(file) {
        Ok(stamp) => stamp,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(OutputState::Absent),
        // It is there, and nothing is known about it.
        Err(_) => return Ok(OutputState::Foreign),
    };
    let input = hash(secret, input);
    let mut state = OutputState::Foreign;
    for (stamp, its_input) in left(hash(secret, Some(file)))? {
        match (stamp == now, its_input == input) {
            (true, true) => return Ok(OutputState::AsLeft),
            (true, false) => state = OutputState::OfOtherInput,
            (false, _) if state == OutputState::Foreign => state = OutputState::Changed,
            (false, _) => {}
        }
    }
    Ok(state)
}

/// Files as a run is about to leave them. On a file system without times of changes, the next run needs `--overwrite`.
pub(super) fn left_files(secret: &[u8; 32], files: &[(PathBuf, Metadata)]) -> Vec<LeftFile> {
    let left = |(path, metadata): &(PathBuf, Metadata)| {
        let stamp = FileStamp::of(metadata).ok()?;
        Some(LeftFile {
            path: hash(secret, Some(path)),
            stamp,
            now: FileStamp::at(path).unwrap_or(stamp),
        })
    };
    files.iter().filter_map(left).collect()
}

/// A hash of a path, whether or not there is a file yet; of nothing for an input without one.
pub(super) fn hash(secret: &[u8; 32], path: Option<&Path>) -> PathHash {
    let Some(path) = path else {
        return [0; 32];
    };
    match (fs::canonicalize(directory_of(path)), path.file_name()) {
        (Ok(directory), Some(name)) => hash_of_path(secret, &directory.join(name)),
        _ => hash_of_path(secret, path),
    }
}
