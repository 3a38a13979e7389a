//! The table of failures: requests that a run must not send again, because their outcome is unknown, their answer is
//! useless, or the service refused them.
//!
//! They are stored until the run is finished, so that it gets past them however often it is stopped, and so that equal rows
//! share them.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::checksum::Checksums;
use crate::ledger::request_key::{KeyHash, RequestHasher, RequestKey};
use crate::ledger::sealed_failure::SealedFailure;
use crate::verdict::{Failure, Reason};

/// Stores a failure for a run.
pub(super) fn put(
    connection: &Connection,
    checksums: Checksums,
    key: &RequestKey,
    run: i64,
    failure: &SealedFailure,
) -> rusqlite::Result<()> {
    let (reason, message) = (failure.reason.word(), &failure.message);
    let checksum = checksum(checksums, key, run, reason, message);
    connection
        .prepare_cached("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)")?
        .execute(params![
            key.hash,
            key.stored_row(),
            run,
            reason,
            message,
            checksum
        ])
        .map(drop)
}

/// Removes the failures of a run.
pub(super) fn remove_of(connection: &Connection, run: i64) -> rusqlite::Result<()> {
    connection
        .execute("DELETE FROM failures WHERE run = ?", [run])
        .map(drop)
}

/// The failure that is stored for a request of a run. A damaged one counts as absent: the request is sent again.
pub(crate) fn find(
    connection: &Connection,
    checksums: Checksums,
    hasher: &RequestHasher,
    (key, body): (&RequestKey, &[u8]),
    run: i64,
) -> rusqlite::Result<Option<Failure>> {
    let found = connection
        .prepare_cached(
            "SELECT reason, message, checksum FROM failures WHERE key = ? AND row = ? AND run = ?",
        )?
        .query_row(params![key.hash, key.stored_row(), run], |row| {
            let (reason, message) = (row.get_ref(0)?, row.get_ref(1)?);
            let (Ok(reason), Ok(message)) = (reason.as_str(), message.as_blob()) else {
                return Ok(None);
            };
            let fits = row.get::<_, i64>(2)? == checksum(checksums, key, run, reason, message);
            Ok(Reason::of_word(reason)
                .filter(|_| fits)
                .map(|reason| SealedFailure {
                    reason,
                    message: message.into(),
                }))
        })
        .optional()?
        .flatten();
    Ok(found.and_then(|sealed| sealed.open(hasher, key, body)))
}

/// Whether any failure is stored for a run.
pub(crate) fn any(connection: &Connection, run: i64) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM failures WHERE run = ?)",
        [run],
        |row| row.get(0),
    )
}

/// Whether a failure is stored for a request, of any run and row.
pub(crate) fn any_to(connection: &Connection, hash: &KeyHash) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM failures WHERE key = ?")?
        .exists([hash])
}

/// Removes the failures of a request, of all runs and rows: how many there were.
pub(crate) fn remove_to(connection: &Connection, hash: &KeyHash) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM failures WHERE key = ?")?
        .execute([hash])
}

fn checksum(checksums: Checksums, key: &RequestKey, run: i64, reason: &str, message: &[u8]) -> i64 {
    let values = [
        ValueRef::Blob(&key.hash),
        ValueRef::Integer(key.stored_row()),
        ValueRef::Integer(run),
        ValueRef::Text(reason.as_bytes()),
        ValueRef::Blob(message),
    ];
    checksums.of("failures", values)
}
