//! The table of answers: storing, finding, counting and removing them.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::checksum::Checksums;
use super::contexts;
use crate::ledger::request_key::{KeyHash, RequestKey};
use crate::verdict::{Answer, Score, TransactionId};

/// What an answer keeps of the one that it replaces: the score of one from before the run; of one that arrived since, what
/// that one kept itself; of a damaged one, nothing.
macro_rules! replaced {
    ($old:literal, $kept:literal) => {
        concat!(
            "iif(checksum = answer_checksum(key, row, transaction_id, score, capture, captured, at, replaced), iif(at < ?9, ",
            $old,
            ", ",
            $kept,
            "), NULL)"
        )
    };
}

const PUT: &str = concat!(
    "INSERT INTO answers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL, NULL, ?10)
    ON CONFLICT (key, row) DO UPDATE SET
        checksum = answer_checksum(key, row, excluded.transaction_id, excluded.score, excluded.capture, excluded.captured, excluded.at, ",
    replaced!("score", "replaced"),
    "),
        replaced = ",
    replaced!("score", "replaced"),
    ",
        replaced_at = ",
    replaced!("at", "replaced_at"),
    ",
        transaction_id = excluded.transaction_id,
        score = excluded.score,
        capture = excluded.capture,
        captured = excluded.captured,
        at = excluded.at"
);

/// Stores the answers of one run.
pub(super) struct AnswerTable {
    pub(super) checksums: Checksums,
    pub(super) context: i64,
    /// The number of the list of fields that answers are stored with.
    pub(super) capture: Option<i64>,
    /// When the run started.
    pub(super) started: i64,
}

impl AnswerTable {
    /// Stores an answer, in place of an older one.
    pub(super) fn put(
        &self,
        connection: &Connection,
        key: &RequestKey,
        answer: &Answer,
        at: i64,
    ) -> rusqlite::Result<()> {
        let captured = self
            .capture
            .and_then(|_| serde_json::to_string(&answer.captured).ok());
        let (id, score) = (answer.transaction_id.as_str(), answer.score.digits());
        let checksum = self.checksums.of_answer([
            ValueRef::Blob(&key.hash),
            ValueRef::Integer(key.stored_row()),
            id.into(),
            score.into(),
            self.capture.map_or(ValueRef::Null, ValueRef::Integer),
            captured.as_deref().into(),
            ValueRef::Integer(at),
            ValueRef::Null,
        ]);
        connection
            .prepare_cached(PUT)?
            .execute(params![
                key.hash,
                key.stored_row(),
                self.context,
                id,
                score,
                self.capture,
                captured,
                at,
                self.started,
                checksum
            ])
            .map(drop)
    }
}

/// What is stored for a request.
pub(crate) enum AnswerState {
    /// Nothing.
    Absent,
    /// Something that is not as it was written.
    Damaged,
    /// An answer.
    Sound(StoredAnswer),
}

/// An answer as it was written.
pub(crate) struct StoredAnswer {
    pub(crate) transaction_id: TransactionId,
    pub(crate) score: Score,
    /// The number of the list of captured fields.
    pub(crate) capture: Option<i64>,
    /// Their values, as a JSON array.
    pub(crate) captured: Option<String>,
    /// When it arrived, in milliseconds since 1970.
    pub(crate) at: i64,
    /// The score of the answer that it replaced.
    pub(crate) replaced: Option<Score>,
}

impl StoredAnswer {
    /// By the columns of the query in [`find`]; `None` where the row is not as it was written.
    fn of(key: &RequestKey, row: &Row<'_>, checksums: Checksums) -> Option<Self> {
        if !checksums.fits(key, row) {
            return None;
        }
        let text = |column: usize| row.get_ref(column).ok()?.as_str().ok();
        let replaced = match row.get_ref(5).ok()?.as_str_or_null().ok()? {
            Some(digits) => Some(Score::from_json_number(digits).ok()?),
            None => None,
        };
        Some(Self {
            transaction_id: TransactionId::new(text(0)?).ok()?,
            score: Score::from_json_number(text(1)?).ok()?,
            capture: row.get(2).ok()?,
            captured: row.get(3).ok()?,
            at: row.get(4).ok()?,
            replaced,
        })
    }
}

/// The answer to a request.
pub(crate) fn find(
    connection: &Connection,
    checksums: Checksums,
    key: &RequestKey,
) -> rusqlite::Result<AnswerState> {
    // In the order that `checksum` has them, after the key.
    const QUERY: &str = "SELECT transaction_id, score, capture, captured, at, replaced, checksum
        FROM answers WHERE key = ? AND row = ?";
    let mut statement = connection.prepare_cached(QUERY)?;
    let mut rows = statement.query(params![key.hash, key.stored_row()])?;
    let Some(row) = rows.next()? else {
        return Ok(AnswerState::Absent);
    };
    Ok(StoredAnswer::of(key, row, checksums).map_or(AnswerState::Damaged, AnswerState::Sound))
}

/// Whether there is any answer.
pub(crate) fn any(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM answers)", [], |row| {
        row.get(0)
    })
}

/// How many answers there are, of any address and service ID.
pub(crate) fn count_all(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT count(*) FROM answers", [], count)
}

/// How many answers there are of a context. It looks at all of them.
pub(crate) fn count_of(connection: &Connection, context: i64) -> rusqlite::Result<u64> {
    // Without another context all of them count, and SQLite need not look into each.
    if contexts::is_only(connection, context)? {
        return count_all(connection);
    }
    connection.query_row(
        "SELECT count(*) FROM answers WHERE context = ?",
        [context],
        count,
    )
}

/// Answers by the number of their list of captured fields.
pub(crate) struct CountsByCapture {
    /// Each list with its answers.
    pub(crate) counts: Vec<(Option<i64>, u64)>,
    /// Whether all answers were looked at.
    pub(crate) whole: bool,
}

/// Counts the answers of a context that are no older by their lists of captured fields. It looks at so many answers at
/// most: as keys are hashes, these are a fair sample.
pub(crate) fn count_by_capture(
    connection: &Connection,
    context: i64,
    not_before: i64,
    at_most: u32,
) -> rusqlite::Result<CountsByCapture> {
    const QUERY: &str = "SELECT capture, sum(context = ?1 AND at >= ?2), count(*)
        FROM (SELECT context, capture, at FROM answers LIMIT ?3) GROUP BY capture";
    let mut statement = connection.prepare(QUERY)?;
    let mut rows = statement.query(params![context, not_before, at_most])?;
    let (mut counts, mut seen) = (Vec::new(), 0_i64);
    while let Some(row) = rows.next()? {
        let answers: i64 = row.get(1)?;
        seen += row.get::<_, i64>(2)?;
        if answers > 0 {
            counts.push((row.get(0)?, answers.unsigned_abs()));
        }
    }
    Ok(CountsByCapture {
        counts,
        whole: seen < i64::from(at_most),
    })
}

/// How many answers there are to a request, of all rows.
pub(crate) fn count_to(connection: &Connection, hash: &KeyHash) -> rusqlite::Result<u64> {
    connection
        .prepare_cached("SELECT count(*) FROM answers WHERE key = ?")?
        .query_row([hash], count)
}

fn count(row: &Row<'_>) -> rusqlite::Result<u64> {
    row.get(0).map(|count: i64| count.unsigned_abs())
}

/// Calls `each` with the context and the time of each answer, in one pass over the table.
pub(crate) fn for_each(
    connection: &Connection,
    mut each: impl FnMut(i64, i64),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("SELECT context, at FROM answers")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(row.get(0)?, row.get(1)?);
    }
    Ok(())
}

/// Removes the answers of a context.
pub(super) fn remove_of(connection: &Connection, context: i64) -> rusqlite::Result<()> {
    if contexts::is_only(connection, context)? {
        // Without a condition SQLite need not look at each.
        return connection.execute_batch("DELETE FROM answers");
    }
    connection
        .execute("DELETE FROM answers WHERE context = ?", [context])
        .map(drop)
}

/// Removes the answers to a request, of all rows: how many there were.
pub(crate) fn remove_to(connection: &Connection, hash: &KeyHash) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM answers WHERE key = ?")?
        .execute([hash])
}

/// A part of the table that is small enough to be changed in one transaction, by its first and last key.
pub(crate) struct Piece {
    /// Keys of this piece are greater than this one. No key is empty, so every one is greater than an empty one.
    after: Vec<u8>,
    /// The last one; `None` where the piece goes to the end.
    last: Option<Vec<u8>>,
}

impl Piece {
    /// The piece of so many answers that follows a piece; the first one after `None`.
    pub(crate) fn next(
        connection: &Connection,
        previous: Option<Self>,
        answers: u32,
    ) -> rusqlite::Result<Option<Self>> {
        const LAST: &str = "SELECT key FROM answers WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?";
        let after = match previous {
            None => Vec::new(),
            Some(Self {
                last: Some(last), ..
            }) => last,
            Some(Self { last: None, .. }) => return Ok(None),
        };
        let last = connection
            .prepare_cached(LAST)?
            .query_row(params![after, answers.saturating_sub(1)], |row| row.get(0))
            .optional()?;
        Ok(Some(Self { after, last }))
    }

    /// Removes the answers of this piece that are older, and from the others the scores of older ones that they replaced:
    /// how many answers were removed.
    pub(crate) fn remove_before(
        &self,
        connection: &Connection,
        before: i64,
    ) -> rusqlite::Result<usize> {
        const DELETE: &str = "DELETE FROM answers WHERE key > ? AND key <= ? AND at < ?";
        // A damaged answer stays damaged.
        const BLANK: &str = "UPDATE answers SET replaced = NULL, replaced_at = NULL,
            checksum = iif(
                checksum = answer_checksum(key, row, transaction_id, score, capture, captured, at, replaced),
                answer_checksum(key, row, transaction_id, score, capture, captured, at, NULL),
                checksum)
            WHERE key > ? AND key <= ? AND replaced_at < ?";
        // Longer than any key.
        const ABOVE_ALL: [u8; 17] = [u8::MAX; 17];
        let piece = params![
            self.after,
            self.last.as_deref().unwrap_or(&ABOVE_ALL),
            before
        ];
        connection.prepare_cached(BLANK)?.execute(piece)?;
        connection.prepare_cached(DELETE)?.execute(piece)
    }
}
