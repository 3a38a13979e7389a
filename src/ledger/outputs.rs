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
    /// A run over another input left it.
    OfOtherInput,
    /// It has changed since, or does not come from a run.
    Changed,
}

/// How a file was left: its size, and when it was modified in nanoseconds since 1970.
fn stamp(metadata: &Metadata) -> io::Result<(u64, u128)> {
    let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
    Ok((metadata.len(), modified.unwrap_or_default().as_nanos()))
}

/// How a file relates to the run over this input; `None` is an input without a path.
pub(super) fn state<D: Database>(
    database: &mut D,
    secret: &[u8; 32],
    file: &Path,
    input: Option<&Path>,
) -> Result<OutputState, D::Fault> {
    let (size, modified) = match fs::metadata(file).and_then(|metadata| stamp(&metadata)) {
        Ok(stamp) => stamp,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(OutputState::Absent),
        // It is there, and nothing is known about it.
        Err(_) => return Ok(OutputState::Changed),
    };
    let (path, input) = (hex(&hash(secret, Some(file))), hash(secret, input));
    let query = format!(
        "SELECT input FROM outputs WHERE path = '{path}' AND size = {size} AND modified = {modified}"
    );
    let mut state = OutputState::Changed;
    for row in database.read(&query)? {
        if row.hash(0)? == input {
            return Ok(OutputState::AsLeft);
        }
        state = OutputState::OfOtherInput;
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
        let (size, modified) = stamp(metadata).ok()?;
        let (old_size, old_modified) = { fs::metadata(file) }
            .and_then(|metadata| stamp(&metadata))
            .unwrap_or((size, modified));
        let path = hex(&hash(secret, Some(file)));
        Some(format!(
            "DELETE FROM outputs WHERE path = '{path}' AND NOT (size = {old_size} AND modified = {old_modified});
            INSERT INTO outputs VALUES ('{path}', {size}, {modified}, '{input}') ON CONFLICT DO NOTHING;"
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
