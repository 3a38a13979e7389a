//! The table of outputs: how runs left their files.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::connect::writing;
use crate::ledger::outputs::{self, FileStamp, LeftFile, OutputState};

/// How a file relates to the run over this input; `None` is an input without a path.
pub(super) fn state(
    connection: &Connection,
    secret: &[u8; 32],
    file: &Path,
    input: Option<&Path>,
) -> rusqlite::Result<OutputState> {
    outputs::state(secret, file, input, |path| {
        connection
            .prepare("SELECT size, modified, input FROM outputs WHERE path = ?")?
            .query_map([path], |row| {
                let stamp = FileStamp {
                    size: row.get(0)?,
                    modified: row.get(1)?,
                };
                Ok((stamp, row.get(2)?))
            })?
            .collect()
    })
}

/// Records how the run over this input leaves files. Of earlier records, the state that each file is in now stays.
pub(super) fn record(
    connection: &Connection,
    secret: &[u8; 32],
    files: &[(PathBuf, Metadata)],
    input: Option<&Path>,
) -> rusqlite::Result<()> {
    let input = outputs::hash(secret, input);
    let transaction = writing(connection)?;
    for LeftFile { path, stamp, now } in outputs::left_files(secret, files) {
        transaction.execute(
            "DELETE FROM outputs WHERE path = ? AND NOT (size = ? AND modified = ?)",
            params![path, now.size, now.modified],
        )?;
        transaction.execute(
            "INSERT OR IGNORE INTO outputs VALUES (?, ?, ?, ?)",
            params![path, stamp.size, stamp.modified, input],
        )?;
    }
    transaction.commit()
}
