//! The accounts that answers come from: address and service ID as one hash, and the address in plain text.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::checksum::Checksums;
use super::errors::damaged;
use crate::ledger::request_key::RequestHasher;

/// The number of a context, which is added where it is new.
pub(crate) fn id(
    connection: &Connection,
    checksums: Checksums,
    hasher: &RequestHasher,
    endpoint: &str,
) -> rusqlite::Result<i64> {
    connection.execute(
        "INSERT INTO contexts (hash, endpoint, checksum) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        params![
            hasher.context(),
            endpoint,
            checksum(checksums, hasher.context())
        ],
    )?;
    connection.query_row(
        "SELECT id FROM contexts WHERE hash = ?",
        params![hasher.context()],
        |row| row.get(0),
    )
}

/// Whether there is no other context.
pub(super) fn is_only(connection: &Connection, context: i64) -> rusqlite::Result<bool> {
    const OTHER: &str = "SELECT EXISTS (SELECT 1 FROM contexts WHERE id <> ?)";
    let other: bool = connection.query_row(OTHER, [context], |row| row.get(0))?;
    Ok(!other)
}

/// What a ledger has of an address and a service ID.
pub(crate) struct LedgerContext {
    pub(crate) id: i64,
    /// Makes its keys.
    pub(crate) hasher: RequestHasher,
    pub(crate) endpoint: String,
}

/// All addresses and service IDs that were ever asked through this ledger.
pub(crate) fn all(
    connection: &Connection,
    checksums: Checksums,
) -> rusqlite::Result<Vec<LedgerContext>> {
    let mut statement = connection.prepare("SELECT id, hash, endpoint, checksum FROM contexts")?;
    let mut rows = statement.query([])?;
    let mut contexts = Vec::new();
    while let Some(row) = rows.next()? {
        let hash = row.get(1)?;
        // With another hash a person's answers would not be found, and so would stay.
        if row.get::<_, i64>(3)? != checksum(checksums, &hash) {
            return Err(damaged());
        }
        contexts.push(LedgerContext {
            id: row.get(0)?,
            hasher: RequestHasher::of_context(hash),
            endpoint: row.get(2)?,
        });
    }
    Ok(contexts)
}

/// What makes the keys of each of them.
pub(crate) fn hashers(
    connection: &Connection,
    checksums: Checksums,
) -> rusqlite::Result<Vec<RequestHasher>> {
    let contexts = all(connection, checksums)?;
    Ok(contexts.into_iter().map(|it| it.hasher).collect())
}

/// The number and the address of each context.
pub(crate) fn endpoints(connection: &Connection) -> rusqlite::Result<Vec<(i64, String)>> {
    connection
        .prepare("SELECT id, endpoint FROM contexts")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

fn checksum(checksums: Checksums, hash: &[u8; 32]) -> i64 {
    checksums.of("contexts", [ValueRef::Blob(hash)])
}
