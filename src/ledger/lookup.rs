//! What a ledger knows of a request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};

#[cfg(test)]
use super::failing::{FailingReads, Fails};
use super::key::Key;
use super::sqlite::{self, damaged};
use crate::error::{Error, Result};
use crate::verdict::{Answer, Score, TransactionId};

/// What is known of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The answer, where there is one that can be used.
    pub answer: Option<Answer>,
    /// How the user was judged before the run began, where this run replaces that answer or has done so: the same
    /// however often it was stopped since, and for all rows that ask the same.
    pub old: Option<Score>,
}

/// Looks things up, over a connection of its own.
pub struct Lookup {
    connection: Connection,
    path: PathBuf,
    /// Answers from before are too old, in milliseconds since 1970.
    not_before: i64,
    /// Answers from before are not of this run.
    begun: i64,
    /// The further fields that the run needs of an answer, as pointers.
    wanted: Vec<String>,
    /// Where the wanted fields stand in what was captured; `None` where not all of them were.
    captures: HashMap<i64, Option<Box<[usize]>>>,
    #[cfg(test)]
    failing: FailingReads,
}

impl Lookup {
    pub(super) fn open(
        path: &Path,
        not_before: i64,
        begun: i64,
        wanted: Vec<String>,
    ) -> Result<Self> {
        Ok(Self {
            connection: sqlite::open_again(path)?,
            path: path.to_owned(),
            not_before,
            begun,
            wanted,
            captures: HashMap::new(),
            #[cfg(test)]
            failing: FailingReads::default(),
        })
    }

    /// Fails from now on as said.
    #[cfg(test)]
    pub(crate) const fn fail(&mut self, fails: Fails) {
        self.failing = FailingReads::new(fails);
    }

    /// No answer that comes now is from before, whatever the clock does meanwhile: it is of this run, and can be used.
    pub(super) fn earliest(&self) -> i64 {
        self.not_before.max(self.begun)
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
        #[cfg(test)]
        self.failing
            .read()
            .map_err(|error| self.cannot_read(&error))?;
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
        const QUERY: &str = "SELECT transaction_id, score, capture, captured, at, replaced FROM answers WHERE key = ?";
        #[cfg(test)]
        self.failing.read()?;
        let mut statement = self.connection.prepare_cached(QUERY)?;
        let mut rows = statement.query(params![key.0])?;
        let Some(row) = rows.next()? else {
            return Ok(Found::default());
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
        // An answer that lacks a field which the run writes cannot be used either.
        let captured = captured.filter(|_| at >= self.not_before);
        let old = if at >= self.begun {
            let replaced: Option<String> = row.get(5)?;
            let score = replaced.map(|digits| Score::from_json_number(&digits));
            score.transpose().map_err(|_| damaged())?
        } else if captured.is_none() {
            Some(score.clone())
        } else {
            None
        };
        let answer = captured.map(|captured| Answer {
            transaction_id,
            score,
            captured,
        });
        Ok(Found { answer, old })
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
