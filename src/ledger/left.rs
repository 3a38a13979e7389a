//! How a run left its files, so that only these are replaced unasked when the same command goes on.
//!
//! Of a file there is a keyed hash of its path, its size and when it was changed last; of the run, a keyed hash of its
//! input's path. What the input holds is not noted: it may be edited, sorted or grow.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rusqlite::{Connection, params};

use super::sqlite::Head;

/// How a file stands to the run that a ledger is the own one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is not there.
    Absent,
    /// It is as the run left it.
    AsLeft,
    /// The run left it, and it has changed since.
    Changed,
    /// A run over another input left it.
    OfOtherInput,
    /// It is not from such a run.
    Foreign,
}

/// What tells a file that was written to from what it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    size: i64,
    /// In nanoseconds since 1970.
    modified: i64,
}

impl State {
    fn of(metadata: &Metadata) -> io::Result<Self> {
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH);
        let modified = modified.map_or(0, |time| time.as_nanos());
        Ok(Self {
            size: i64::try_from(metadata.len()).unwrap_or(i64::MAX),
            modified: i64::try_from(modified).unwrap_or(i64::MAX),
        })
    }
}

/// How a file stands to the run over this input; `None` is one without a path.
pub(super) fn standing(
    connection: &Connection,
    head: &Head,
    file: &Path,
    input: Option<&Path>,
) -> rusqlite::Result<Standing> {
    const QUERY: &str = "SELECT size, modified, input FROM outputs WHERE path = ?";
    let state = match fs::metadata(file).and_then(|metadata| State::of(&metadata)) {
        Ok(state) => state,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Standing::Absent),
        // It is there, and nothing is known of it.
        Err(_) => return Ok(Standing::Foreign),
    };
    let input = hash(head, input);
    let mut query = connection.prepare(QUERY)?;
    let mut rows = query.query([hash(head, Some(file))])?;
    let mut standing = Standing::Foreign;
    while let Some(row) = rows.next()? {
        let left = State {
            size: row.get(0)?,
            modified: row.get(1)?,
        };
        let its_input: [u8; 32] = row.get(2)?;
        match (left == state, its_input == input) {
            (true, true) => return Ok(Standing::AsLeft),
            (true, false) => standing = Standing::OfOtherInput,
            (false, _) if standing == Standing::Foreign => standing = Standing::Changed,
            (false, _) => {}
        }
    }
    Ok(standing)
}

/// Notes how the run over this input leaves files. Of what was noted before, the state that each file is in now stays: the
/// run may be killed before the new ones have their names.
pub(super) fn note(
    connection: &mut Connection,
    head: &Head,
    files: &[(PathBuf, Metadata)],
    input: Option<&Path>,
) -> rusqlite::Result<()> {
    const INSERT: &str =
        "INSERT OR IGNORE INTO outputs (path, size, modified, input) VALUES (?, ?, ?, ?)";
    const DELETE: &str = "DELETE FROM outputs WHERE path = ? AND NOT (size = ? AND modified = ?)";
    let input = hash(head, input);
    let transaction = connection.transaction()?;
    for (path, metadata) in files {
        // On a file system without such times, the next run must be told to replace the file.
        let Ok(State { size, modified }) = State::of(metadata) else {
            continue;
        };
        let now = fs::metadata(path).and_then(|metadata| State::of(&metadata));
        let path = hash(head, Some(path));
        let now = now.unwrap_or(State { size, modified });
        transaction.execute(DELETE, params![path, now.size, now.modified])?;
        transaction.execute(INSERT, params![path, size, modified, input])?;
    }
    transaction.commit()
}

/// A path that nobody without this ledger can know again.
fn hash(head: &Head, path: Option<&Path>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(&head.secret);
    // What stands before an address, which is hashed with this secret too, is its length.
    hasher.update(b"a file\0");
    if let Some(path) = path {
        hasher.update(real(path).as_os_str().as_encoded_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// The path from the root, whether or not there is a file yet.
fn real(path: &Path) -> PathBuf {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    match (fs::canonicalize(directory), path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}
