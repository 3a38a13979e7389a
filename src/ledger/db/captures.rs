//! The additional fields that answers are stored with: those that the run asks for, and those that other runs ask for.
//!
//! An answer that lacks a field is asked for again, and the new one replaces it. If each run stored only its own fields,
//! two runs with different ones would discard each other's, and pay every time. Fields of two answers are never combined
//! instead: a field belongs to the transaction that it came with.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};

use super::answer_blocks::{CountsByCapture, count_by_capture};
use super::checksum::Checksums;
use super::connect::{self, writing};
use super::errors::damaged;
use crate::ledger::kept_fields::{KeptFields, REMEMBERED};
use crate::raw_json::Pointer;

/// Blocks that are looked at before a run to see whether their answers lack fields, of some ten answers each: well below a
/// second, even on a busy machine.
const LOOKED_AT: u32 = 10_000;

/// Answers that lack fields which a run needs: their rows are sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LackingAnswers {
    /// How many; `None` if the ledger is too large to count them.
    pub(crate) answers: Option<u64>,
    /// The pointers of the fields that some of them lack.
    pub(crate) fields: Vec<String>,
}

impl LackingAnswers {
    /// Looks for such answers among those of a context that are no older; `None` if none was seen.
    pub(crate) fn find(
        connection: &Connection,
        checksums: Checksums,
        requested: &[Pointer],
        context: i64,
        not_before: i64,
    ) -> rusqlite::Result<Option<Self>> {
        if requested.is_empty() {
            return Ok(None);
        }
        let requested: Vec<_> = requested.iter().map(Pointer::to_string).collect();
        let CountsByCapture { counts, whole } =
            count_by_capture(connection, context, not_before, LOOKED_AT)?;
        let (mut lacking, mut answers) = (vec![false; requested.len()], 0);
        for (capture, of_list) in counts {
            let list = capture.map(|number| list(connection, checksums, number));
            let has = list.transpose()?.flatten().unwrap_or_default();
            let mut any = false;
            for (field, lacks) in requested.iter().zip(&mut lacking) {
                if !has.contains(field) {
                    (*lacks, any) = (true, true);
                }
            }
            answers += if any { of_list } else { 0 };
        }
        let fields = requested.into_iter().zip(lacking);
        let fields = fields.filter_map(|(field, lacks)| lacks.then_some(field));
        Ok((answers > 0).then(|| Self {
            answers: whole.then_some(answers),
            fields: fields.collect(),
        }))
    }
}

/// The fields that new answers are stored with, by their numbers; `None` is the list without any.
pub(crate) type CapturedFields = KeptFields<Option<i64>>;

/// Remembers the fields of a run, and finds those of other runs.
pub(crate) fn open(
    connection: &Connection,
    checksums: Checksums,
    requested: &[Pointer],
    now: i64,
) -> rusqlite::Result<CapturedFields> {
    if !requested.is_empty() {
        remember(connection, requested, now)?;
    }
    let mut fields = CapturedFields::new(requested.to_vec());
    fields.learn(remembered(connection)?);
    let all = fields.to_keep().borrow().len();
    fields.number(all, |list| number(connection, checksums, list))?;
    Ok(fields)
}

/// Looks for fields that other runs ask for while this one is under way.
#[derive(Default)]
pub(super) struct NewFields {
    /// The version of the database that was seen last.
    version: Option<i64>,
}

impl NewFields {
    /// Adds new ones, within a transaction.
    pub(super) fn look(
        &mut self,
        connection: &Connection,
        fields: &CapturedFields,
    ) -> rusqlite::Result<()> {
        let version = connect::data_version(connection)?;
        if self.version != Some(version) {
            fields.learn(remembered(connection)?);
            self.version = Some(version);
        }
        Ok(())
    }
}

fn remember(connection: &Connection, requested: &[Pointer], now: i64) -> rusqlite::Result<()> {
    const PUT: &str = "INSERT INTO fields VALUES (?, ?)
        ON CONFLICT DO UPDATE SET requested = max(requested, excluded.requested)";
    const FORGET: &str = "DELETE FROM fields WHERE pointer NOT IN
        (SELECT pointer FROM fields ORDER BY requested DESC, pointer LIMIT ?)";
    let transaction = writing(connection)?;
    for pointer in requested {
        transaction.execute(PUT, params![pointer.to_string(), now])?;
    }
    transaction.execute(FORGET, [REMEMBERED])?;
    transaction.commit()
}

fn remembered(connection: &Connection) -> rusqlite::Result<Vec<Pointer>> {
    let mut statement = connection.prepare("SELECT pointer FROM fields ORDER BY pointer")?;
    let mut rows = statement.query([])?;
    let mut pointers = Vec::new();
    while let Some(row) = rows.next()? {
        let pointer = Pointer::parse(row.get_ref(0)?.as_str()?);
        pointers.push(pointer.map_err(|_| damaged())?);
    }
    Ok(pointers)
}

/// The number of a list, which is added where it is new; `None` for one without fields.
pub(super) fn number(
    connection: &Connection,
    checksums: Checksums,
    pointers: &[Pointer],
) -> rusqlite::Result<Option<i64>> {
    const LAST: &str = "SELECT coalesce(max(id), 0) FROM captures";
    if pointers.is_empty() {
        return Ok(None);
    }
    let pointers: Vec<_> = pointers.iter().map(Pointer::to_string).collect();
    let pointers = serde_json::Value::from(pointers).to_string();
    let known = || {
        connection
            .query_row(
                "SELECT id FROM captures WHERE pointers = ?",
                [&pointers],
                |row| row.get(0),
            )
            .optional()
    };
    if let Some(known) = known()? {
        return Ok(Some(known));
    }
    let transaction = writing(connection)?;
    if let Some(known) = known()? {
        return Ok(Some(known));
    }
    let last: i64 = transaction.query_row(LAST, [], |row| row.get(0))?;
    let number = last + 1;
    transaction.execute(
        "INSERT INTO captures VALUES (?, ?, ?)",
        params![number, pointers, checksum(checksums, number, &pointers)],
    )?;
    transaction.commit()?;
    Ok(Some(number))
}

/// The list of a number; `None` where it is damaged or absent.
pub(crate) fn list(
    connection: &Connection,
    checksums: Checksums,
    number: i64,
) -> rusqlite::Result<Option<Vec<String>>> {
    let found = connection
        .query_row(
            "SELECT pointers, checksum FROM captures WHERE id = ?",
            [number],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)),
        )
        .optional()?;
    Ok(found
        .filter(|(pointers, sum)| *sum == checksum(checksums, number, pointers))
        .and_then(|(pointers, _)| serde_json::from_str(&pointers).ok()))
}

/// Removes fields that no run has asked for since this time.
pub(crate) fn remove_before(connection: &Connection, before: i64) -> rusqlite::Result<()> {
    connection
        .execute("DELETE FROM fields WHERE requested < ?", [before])
        .map(drop)
}

fn checksum(checksums: Checksums, number: i64, pointers: &str) -> i64 {
    let values = [
        ValueRef::Integer(number),
        ValueRef::Text(pointers.as_bytes()),
    ];
    checksums.of("captures", values)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::super::connect::{Connect, Mode};
    use super::super::schema::LedgerInfo;
    use super::*;
    use crate::ledger::file::LedgerKind;

    fn pointers<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Vec<Pointer> {
        let pointers = texts.into_iter().map(|text| Pointer::parse(text.as_ref()));
        pointers.map(Result::unwrap).collect()
    }

    /// The fields that answers are stored with for runs that ask for these, one after the other.
    fn stored(requested: &[Vec<Pointer>]) -> Vec<Vec<Pointer>> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("answers.ledger");
        std::fs::write(&path, "").unwrap();
        let connection = Connect::to(Mode::Create(LedgerKind::Shared))
            .open(&path)
            .unwrap();
        let checksums = LedgerInfo::read(&connection).unwrap().checksums();
        let fields = (1..).zip(requested).map(|(now, requested)| {
            let mut fields = open(&connection, checksums, requested, now).unwrap();
            let pointers = fields.to_keep().borrow().clone();
            let known = |_: &[Pointer]| Err(());
            let list = fields.number(pointers.len(), known).unwrap();
            assert_eq!(list.is_some(), !pointers.is_empty());
            pointers
        });
        fields.collect()
    }

    #[test]
    fn answers_are_stored_with_the_fields_of_this_run_and_then_those_of_others() {
        let requested = [&[][..], &["/c", "/a/b", "/c"], &["/b~1~0", "/a/b"], &[]].map(pointers);
        let expected = [
            &[][..],
            &["/c", "/a/b", "/c"],
            &["/b~1~0", "/a/b", "/c"],
            &["/a/b", "/b~1~0", "/c"],
        ];
        assert_eq!(stored(&requested), expected.map(pointers));
    }

    #[test]
    fn the_most_recent_fields_are_remembered_and_not_too_many() {
        let some = |range: std::ops::Range<u32>| pointers(range.map(|n| format!("/{n:03}")));
        let requested = [
            some(0..40),
            some(40..80),
            some(30..35),
            some(100..200),
            vec![],
        ];
        let stored = stored(&requested);
        assert_eq!(stored[1], [some(40..80), some(0..24)].concat());
        // Asking for a field again makes it recent.
        assert_eq!(stored[2].len(), 64);
        assert_eq!(stored[3][..100], some(100..200), "a run has all of its own");
        assert_eq!(stored[4], some(100..164));
    }
}
