//! The table of index chunks: in which blocks the answer to a request may be.
//!
//! Keys are random. If each group of answers were added to the index, each answer would change a page of its own, in the log
//! and again in the file. So many are added together, slice after slice. It must not know what an answer is.

use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension, params};

use super::errors::damaged;
use crate::ledger::packed::{BlockNumber, Chunk, Fingerprint, IndexEntry, NewChunk, chunks};

/// Slices of the index that are rewritten as a whole, a power of two: of a hundred million answers, one has 4 MiB.
const SLICES: u64 = 256;

/// Slices that are rewritten in one transaction: others need not wait longer for their turn, and the log stays small.
pub(super) const AT_ONCE: u64 = 8;

/// The ranges of fingerprints that are each rewritten in one transaction, in order.
pub(super) fn turns() -> impl Iterator<Item = RangeInclusive<Fingerprint>> {
    (0..SLICES / AT_ONCE).map(|turn| Fingerprint::slice(turn, SLICES / AT_ONCE))
}

/// The blocks that may hold the answer, in order.
pub(crate) fn find(
    connection: &Connection,
    wanted: Fingerprint,
) -> rusqlite::Result<Vec<BlockNumber>> {
    const QUERY: &str =
        "SELECT entries FROM answer_index WHERE first <= ? ORDER BY first DESC LIMIT 1";
    let mut statement = connection.prepare_cached(QUERY)?;
    let mut rows = statement.query([wanted.number()])?;
    let Some(row) = rows.next()? else {
        return Ok(Vec::new());
    };
    let chunk = Chunk::new(row.get_ref(0)?.as_blob()?).ok_or_else(damaged)?;
    Ok(chunk.find(wanted).collect())
}

/// The entries within a range, in order.
pub(super) fn within(
    connection: &Connection,
    range: &RangeInclusive<Fingerprint>,
) -> rusqlite::Result<Vec<IndexEntry>> {
    // Also the chunk that begins before the range.
    const QUERY: &str = "SELECT entries FROM answer_index
        WHERE first >= coalesce((SELECT max(first) FROM answer_index WHERE first <= ?1), ?1) AND first <= ?2
        ORDER BY first";
    let mut statement = connection.prepare_cached(QUERY)?;
    let mut rows = statement.query([range.start().number(), range.end().number()])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let chunk = Chunk::new(row.get_ref(0)?.as_blob()?).ok_or_else(damaged)?;
        entries.extend(chunk.entries().filter(|it| range.contains(&it.fingerprint)));
    }
    Ok(entries)
}

/// Changes the entries within one of [`turns`].
pub(super) fn change(
    connection: &Connection,
    range: &RangeInclusive<Fingerprint>,
    mut change: impl FnMut(&mut Vec<IndexEntry>, &RangeInclusive<Fingerprint>),
) -> rusqlite::Result<()> {
    for slice in (0..SLICES).map(|slice| Fingerprint::slice(slice, SLICES)) {
        if !range.contains(slice.start()) {
            continue;
        }
        let old = within(connection, &slice)?;
        let mut new = old.clone();
        change(&mut new, &slice);
        if new != old {
            store(connection, &slice, &new)?;
        }
    }
    Ok(())
}

/// Removes an entry. Nothing of it stays, also not as the name of its chunk.
pub(super) fn remove(connection: &Connection, entry: IndexEntry) -> rusqlite::Result<()> {
    const QUERY: &str =
        "SELECT first, entries FROM answer_index WHERE first <= ? ORDER BY first DESC LIMIT 1";
    let chunk = connection
        .prepare_cached(QUERY)?
        .query_row([entry.fingerprint.number()], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .optional()?;
    let Some((first, bytes)) = chunk else {
        return Ok(());
    };
    let chunk = Chunk::new(&bytes).ok_or_else(damaged)?;
    match chunk.without(entry) {
        None => connection
            .prepare_cached("DELETE FROM answer_index WHERE first = ?")?
            .execute([first]),
        Some(NewChunk { first: new, bytes }) => connection
            .prepare_cached("UPDATE answer_index SET first = ?, entries = ? WHERE first = ?")?
            .execute(params![new.number(), bytes, first]),
    }
    .map(drop)
}

/// Stores the entries of a slice in place of those that are there. No chunk goes beyond a slice.
fn store(
    connection: &Connection,
    slice: &RangeInclusive<Fingerprint>,
    entries: &[IndexEntry],
) -> rusqlite::Result<()> {
    let bounds = [slice.start().number(), slice.end().number()];
    connection
        .prepare_cached("DELETE FROM answer_index WHERE first BETWEEN ? AND ?")?
        .execute(bounds)?;
    let mut insert = connection.prepare_cached("INSERT INTO answer_index VALUES (?, ?)")?;
    for NewChunk { first, bytes } in chunks(entries) {
        insert.execute(params![first.number(), bytes])?;
    }
    Ok(())
}

/// Removes all entries.
pub(super) fn clear(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DELETE FROM answer_index")
}
