//! How a run left its files, so that only these are replaced without `--overwrite` when the same command continues.
//!
//! A file is stored as a keyed hash of its path, its size and when it was last modified; the run as a keyed hash of its
//! input's path. The input's content is not stored: it may be edited, sorted or grow.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::database::{Database, hex};
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
struct FileStamp {
    size: i64,
    /// In nanoseconds since 1970.
    modified: i64,
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

/// How a file relates to the run over this input; `None` is an input without a path.
pub(super) fn state<D: Database>(
    database: &mut D,
    secret: &[u8; 32],
    file: &Path,
    input: Option<&Path>,
) -> Result<OutputState, D::Fault> {
    let now = match FileStamp::at(file) {
        Ok(stamp) => stamp,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(OutputState::Absent),
        // It is there, and nothing is known about it.
        Err(_) => return Ok(OutputState::Foreign),
    };
    let (path, input) = (hex(&hash(secret, Some(file))), hash(secret, input));
    let query = format!("SELECT size, modified, input FROM outputs WHERE path = '{path}'");
    let mut state = OutputState::Foreign;
    for row in database.read(&query)? {
        let stamp = FileStamp {
            size: row.get(0)?,
            modified: row.get(1)?,
        };
        match (stamp == now, row.hash(2)? == input) {
            (true, true) => return Ok(OutputState::AsLeft),
            (true, false) => state = OutputState::OfOtherInput,
            (false, _) if state == OutputState::Foreign => state = OutputState::Changed,
            (false, _) => {}
        }
    }
    Ok(state)
}

/// The statements that record how a run over this input is about to leave files. Of earlier records, the state that each file
/// is in now stays: the run may be killed before the new file has its name. On a file system without times of changes, nothing
/// is recorded, and the next run needs `--overwrite`.
pub(super) fn record(
    secret: &[u8; 32],
    files: &[(PathBuf, Metadata)],
    input: Option<&Path>,
) -> String {
    let input = hex(&hash(secret, input));
    let statements = |(file, metadata): &(PathBuf, Metadata)| {
        let left = FileStamp::of(metadata).ok()?;
        let now = FileStamp::at(file).unwrap_or(left);
        let path = hex(&hash(secret, Some(file)));
        Some(format!(
            "DELETE FROM outputs WHERE path = '{path}' AND NOT (size = {} AND modified = {});
            INSERT INTO outputs VALUES ('{path}', {}, {}, '{input}') ON CONFLICT DO NOTHING;",
            now.size, now.modified, left.size, left.modified
        ))
    };
    files.iter().filter_map(statements).collect()
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
