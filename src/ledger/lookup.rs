//! What a ledger knows of a request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};

use super::key::Key;
use super::sqlite;
use crate::error::{Error, Result};
use crate::verdict::{Answer, Score, TransactionId};

/// What is known of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// Nothing that could be used.
    Nothing,
    /// An answer that is too old to be used; it still tells how the user was judged then.
    Aged(Answer),
    /// The answer.
    Current(Answer),
}

/// Looks things up, over a connection of its own.
pub struct Lookup {
    connection: Connection,
    path: PathBuf,
    /// Answers from before are too old, in seconds since 1970.
    not_before: i64,
    /// The further fields that the run needs of an answer, as pointers.
    wanted: Vec<String>,
    /// Where the wanted fields stand in what was captured; `None` where not all of them were.
    captures: HashMap<i64, Option<Box<[usize]>>>,
}

impl Lookup {
    pub(super) fn open(path: &Path, not_before: i64, wanted: Vec<String>) -> Result<Self> {
        Ok(Self {
            connection: sqlite::open_again(path)?,
            path: path.to_owned(),
            not_before,
            wanted,
            captures: HashMap::new(),
        })
    }

    /// Answers from before are too old.
    pub(super) const fn not_before(&self) -> i64 {
        self.not_before
    }

    /// What is known of the request now.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn find(&mut self, key: &Key) -> Result<Found> {
        self.look(key).map_err(|error| self.cannot_read(&error))
    }

    /// Looks what follows up at the ledger's state of now, which costs less for each. To be ended soon: the log grows
    /// meanwhile.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn begin(&mut self) -> Result<()> {
        self.execute("BEGIN")
    }

    /// Ends what was begun.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn end(&mut self) -> Result<()> {
        self.execute("COMMIT")
    }

    fn execute(&mut self, statement: &str) -> Result<()> {
        self.connection
            .prepare_cached(statement)
            .and_then(|mut statement| statement.execute([]))
            .map(drop)
            .map_err(|error| self.cannot_read(&error))
    }

    fn cannot_read(&self, error: &rusqlite::Error) -> Error {
        Error::stopped(format!("cannot read the ledger `{}`", self.path.display()))
            .because(sqlite::system(error))
    }

    fn look(&mut self, key: &Key) -> rusqlite::Result<Found> {
        const QUERY: &str =
            "SELECT transaction_id, score, capture, captured, at FROM answers WHERE key = ?";
        let mut statement = self.connection.prepare_cached(QUERY)?;
        let mut rows = statement.query(params![key.0])?;
        let Some(row) = rows.next()? else {
            return Ok(Found::Nothing);
        };
        let text = |column: usize| row.get_ref(column)?.as_str().map_err(Into::into);
        let transaction_id: rusqlite::Result<&str> = text(0);
        let (Ok(transaction_id), Ok(score)) = (
            TransactionId::new(transaction_id?),
            Score::from_json_number(text(1)?),
        ) else {
            return Err(damaged());
        };
        let captured = if self.wanted.is_empty() {
            Some(Box::default())
        } else {
            let capture: Option<i64> = row.get(2)?;
            let values: Option<String> = row.get(3)?;
            let places = match capture {
                Some(capture) => {
                    places(&self.connection, &mut self.captures, &self.wanted, capture)?
                }
                None => None,
            };
            match (places, values) {
                (Some(places), Some(values)) => Some(pick(places, &values).ok_or_else(damaged)?),
                _ => None,
            }
        };
        let at: i64 = row.get(4)?;
        let whole = captured.is_some();
        let answer = Answer {
            transaction_id,
            score,
            captured: captured.unwrap_or_default(),
        };
        // An answer that lacks a field which the run writes cannot be used either.
        Ok(if whole && at >= self.not_before {
            Found::Current(answer)
        } else {
            Found::Aged(answer)
        })
    }
}

/// Where the wanted fields stand among what was captured under this number.
fn places<'a>(
    connection: &Connection,
    known: &'a mut HashMap<i64, Option<Box<[usize]>>>,
    wanted: &[String],
    capture: i64,
) -> rusqlite::Result<Option<&'a [usize]>> {
    let places = match known.entry(capture) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => {
            const QUERY: &str = "SELECT pointers FROM captures WHERE id = ?";
            let pointers: Option<String> = connection
                .query_row(QUERY, [capture], |row| row.get(0))
                .optional()?;
            let pointers: Vec<String> = pointers
                .and_then(|pointers| serde_json::from_str(&pointers).ok())
                .ok_or_else(damaged)?;
            let place = |wanted: &String| pointers.iter().position(|pointer| pointer == wanted);
            unknown.insert(wanted.iter().map(place).collect())
        }
    };
    Ok(places.as_deref())
}

/// The values at these places of what was captured.
fn pick(places: &[usize], values: &str) -> Option<Box<[Option<Box<str>>]>> {
    let values: Vec<Option<Box<str>>> = serde_json::from_str(values).ok()?;
    places
        .iter()
        .map(|place| values.get(*place).cloned())
        .collect()
}

fn damaged() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, None)
}
