//! Which further fields answers are kept with: those that the run wants, and those that runs before it wanted.
//!
//! An answer that lacks a wanted field is asked for again, and the new one takes its place. If each run kept its own
//! fields alone, two that want different ones would take each other's away, and pay at every turn. What two answers say
//! is never put together instead: a field belongs to the transaction that it came with.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::checksum::Checksums;
use super::sqlite;
use crate::raw_json::Pointer;

/// So many fields of all runs are remembered, those that were wanted last: far more than anybody looks at, and an end to
/// how large answers grow. A run that wants more is kept with all of its own.
const REMEMBERED: u32 = 64;

/// The fields that new answers are kept with.
pub(super) struct Fields {
    /// What the run wants, in its order, and then what others do.
    pub(super) pointers: Box<[Pointer]>,
    /// The number of this list; `None` when it is empty.
    pub(super) list: Option<i64>,
}

impl Fields {
    /// Remembers what the run wants, and finds what else is wanted.
    pub(super) fn open(
        connection: &Connection,
        checksums: Checksums,
        wanted: &[Pointer],
        now: i64,
    ) -> rusqlite::Result<Self> {
        if !wanted.is_empty() {
            remember(connection, wanted, now)?;
        }
        let mut pointers = wanted.to_vec();
        for remembered in remembered(connection)? {
            if !pointers.contains(&remembered) {
                pointers.push(remembered);
            }
        }
        let list = if pointers.is_empty() {
            None
        } else {
            Some(number(connection, checksums, &pointers)?)
        };
        Ok(Self {
            pointers: pointers.into(),
            list,
        })
    }
}

fn remember(connection: &Connection, wanted: &[Pointer], now: i64) -> rusqlite::Result<()> {
    const PUT: &str = "INSERT INTO fields VALUES (?, ?)
        ON CONFLICT DO UPDATE SET requested = max(requested, excluded.requested)";
    const FORGET: &str = "DELETE FROM fields WHERE pointer NOT IN
        (SELECT pointer FROM fields ORDER BY requested DESC, pointer LIMIT ?)";
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    for pointer in wanted {
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
        pointers.push(pointer.map_err(|_| sqlite::damaged())?);
    }
    Ok(pointers)
}

/// The number of a list, put in where it is new.
fn number(
    connection: &Connection,
    checksums: Checksums,
    pointers: &[Pointer],
) -> rusqlite::Result<i64> {
    const LAST: &str = "SELECT coalesce(max(id), 0) FROM captures";
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
        return Ok(known);
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    if let Some(known) = known()? {
        return Ok(known);
    }
    let last: i64 = transaction.query_row(LAST, [], |row| row.get(0))?;
    let number = last + 1;
    transaction.execute(
        "INSERT INTO captures VALUES (?, ?, ?)",
        params![number, pointers, checksum(checksums, number, &pointers)],
    )?;
    transaction.commit()?;
    Ok(number)
}

/// The list of a number; `None` where it is damaged or not there.
pub(super) fn list(
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
    use super::super::file::Kind;
    use super::*;

    fn pointers<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Vec<Pointer> {
        let pointers = texts.into_iter().map(|text| Pointer::parse(text.as_ref()));
        pointers.map(Result::unwrap).collect()
    }

    /// The fields that answers are kept with for runs that want these, one after the other.
    fn kept(wanted: &[Vec<Pointer>]) -> Vec<Vec<Pointer>> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("answers.ledger");
        std::fs::write(&path, "").unwrap();
        let connection = sqlite::open(&path, Kind::Shared, true).unwrap();
        let checksums = sqlite::head(&connection).unwrap().checksums();
        let fields = (1..).zip(wanted).map(|(now, wanted)| {
            let Fields { pointers, list } =
                Fields::open(&connection, checksums, wanted, now).unwrap();
            assert_eq!(list.is_some(), !pointers.is_empty());
            pointers.into()
        });
        fields.collect()
    }

    #[test]
    fn answers_are_kept_with_what_this_run_wants_and_then_what_others_did() {
        let wanted = [&[][..], &["/c", "/a/b", "/c"], &["/b~1~0", "/a/b"], &[]].map(pointers);
        let expected = [
            &[][..],
            &["/c", "/a/b", "/c"],
            &["/b~1~0", "/a/b", "/c"],
            &["/a/b", "/b~1~0", "/c"],
        ];
        assert_eq!(kept(&wanted), expected.map(pointers));
    }

    #[test]
    fn those_that_were_wanted_last_are_remembered_and_not_too_many() {
        let some = |range: std::ops::Range<u32>| pointers(range.map(|n| format!("/{n:03}")));
        let wanted = [
            some(0..40),
            some(40..80),
            some(30..35),
            some(100..200),
            vec![],
        ];
        let kept = kept(&wanted);
        assert_eq!(kept[1], [some(40..80), some(0..24)].concat());
        // What is wanted again is as good as new.
        assert_eq!(kept[2].len(), 64);
        assert_eq!(kept[3][..100], some(100..200), "a run has all of its own");
        assert_eq!(kept[4], some(100..164));
    }
}
