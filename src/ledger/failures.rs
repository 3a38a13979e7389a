//! Requests that a run is not to send again: their outcome is unknown, their answer useless, or the service refused them.
//!
//! They are kept for as long as the run is not finished, so that it gets past them however often it is stopped, and so
//! that equal rows share them. The message for the rejects may hold the service's words about a person: it is sealed with
//! what was asked, and can be read only with that person's data at hand, as an answer can be found only so.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::checksum::Checksums;
use super::request_key::{RequestHasher, RequestKey};
use crate::verdict::{Failure, Reason};

/// A failure as it is kept.
#[derive(Debug)]
pub(super) struct SealedFailure {
    reason: Reason,
    message: Box<[u8]>,
}

impl SealedFailure {
    /// Seals the failure of a request with this body.
    pub(super) fn new(
        keys: &RequestHasher,
        key: &RequestKey,
        body: &[u8],
        failure: &Failure,
    ) -> Self {
        let mut message: Box<[u8]> = failure.message.as_bytes().into();
        keys.seal(key, body, &mut message);
        Self {
            reason: failure.reason,
            message,
        }
    }

    /// Opens it again with the request's body; `None` where it is not what was sealed.
    fn open(mut self, keys: &RequestHasher, key: &RequestKey, body: &[u8]) -> Option<Failure> {
        keys.seal(key, body, &mut self.message);
        let message = String::from_utf8(self.message.into()).ok()?;
        Some(Failure::new(self.reason, message))
    }

    /// Keeps it for a run.
    pub(super) fn put(
        &self,
        connection: &Connection,
        checksums: Checksums,
        key: &RequestKey,
        run: i64,
    ) -> rusqlite::Result<()> {
        let reason = self.reason.word();
        let checksum = checksum(checksums, key, run, reason, &self.message);
        connection
            .prepare_cached("INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?)")?
            .execute(params![
                key.hash,
                key.stored_row(),
                run,
                reason,
                self.message,
                checksum
            ])
            .map(drop)
    }
}

/// The failure that is kept of a request for a run. One that is damaged is not there: the request is sent again.
pub(super) fn find(
    connection: &Connection,
    checksums: Checksums,
    keys: &RequestHasher,
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
    Ok(found.and_then(|sealed| sealed.open(keys, key, body)))
}

/// Whether anything is kept for a run.
pub(super) fn any(connection: &Connection, run: i64) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM failures WHERE run = ?)",
        [run],
        |row| row.get(0),
    )
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
