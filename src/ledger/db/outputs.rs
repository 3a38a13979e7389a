//! The table of outputs: how a run left its files, so that only these are replaced without `--overwrite` when the same
//! command continues.
//!
//! A file is stored as a keyed hash of its path, its size and when it was last modified; the run as a keyed hash of its
//! input's path. The input's content is not stored: it may be edited, sorted or grow.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rusqlite::{Connection, params};

use super::connect::writing;
use super::schema::LedgerInfo;
use crate::base::directory::directory_of;

/// How a file relates to the run that the ledger belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputState {
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

/// What changes when a file is written to.
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
}

/// How a file relates to the run over this input; `None` is an input without a path.
pub(crate) fn state(
    connection: &Connection,
    info: &LedgerInfo,
    file: &Path,
    input: Option<&Path>,
) -> rusqlite::Result<OutputState> {
    const QUERY: &str = "SELECT size, modified, input FROM outputs WHERE path = ?";
    let now = match fs::metadata(file).and_then(|metadata| FileStamp::of(&metadata)) {
        Ok(state) => state,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(OutputState::Absent),
        // It is there, and nothing is known about it.
        Err(_) => return Ok(OutputState::Foreign),
    };
    let input = hash(info, input);
    let mut query = connection.prepare(QUERY)?;
    let mut rows = query.query([hash(info, Some(file))])?;
    let mut state = OutputState::Foreign;
    while let Some(row) = rows.next()? {
        let left = FileStamp {
            size: row.get(0)?,
            modified: row.get(1)?,
        };
        let its_input: [u8; 32] = row.get(2)?;
        match (left == now, its_input == input) {
            (true, true) => return Ok(OutputState::AsLeft),
            (true, false) => state = OutputState::OfOtherInput,
            (false, _) if state == OutputState::Foreign => state = OutputState::Changed,
            (false, _) => {}
        }
    }
    Ok(state)
}

/// Records how the run over this input leaves files. Of earlier records, the state that each file is in now stays: the run
/// may be killed before the new files have their names.
pub(crate) fn record(
    connection: &Connection,
    info: &LedgerInfo,
    files: &[(PathBuf, Metadata)],
    input: Option<&Path>,
) -> rusqlite::Result<()> {
    const INSERT: &str =
        "INSERT OR IGNORE INTO outputs (path, size, modified, input) VALUES (?, ?, ?, ?)";
    const DELETE: &str = "DELETE FROM outputs WHERE path = ? AND NOT (size = ? AND modified = ?)";
    let input = hash(info, input);
    let transaction = writing(connection)?;
    for (path, metadata) in files {
        // On a file system without such times, the next run needs `--overwrite`.
        let Ok(FileStamp { size, modified }) = FileStamp::of(metadata) else {
            continue;
        };
        let now = fs::metadata(path).and_then(|metadata| FileStamp::of(&metadata));
        let path = hash(info, Some(path));
        let now = now.unwrap_or(FileStamp { size, modified });
        transaction.execute(DELETE, params![path, now.size, now.modified])?;
        transaction.execute(INSERT, params![path, size, modified, input])?;
    }
    transaction.commit()
}

/// A hash of a path that nobody without this ledger can recognise.
fn hash(info: &LedgerInfo, path: Option<&Path>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(&info.secret);
    // An address, which is hashed with this secret too, has its length in front.
    hasher.update(b"a file\0");
    if let Some(path) = path {
        hasher.update(real(path).as_os_str().as_encoded_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// The absolute path, whether or not there is a file yet.
fn real(path: &Path) -> PathBuf {
    match (fs::canonicalize(directory_of(path)), path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}
