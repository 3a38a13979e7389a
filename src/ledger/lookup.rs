//! What a ledger knows of a request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::{Connection, Row, params};

use super::checksum::Checksums;
#[cfg(test)]
use super::failing::{FailingReads, Fails};
use super::request_key::{RequestHasher, RequestKey};
use super::run::Run;
use super::sqlite::{self, damaged};
use super::{failures, fields, millis};
use crate::base::error::{Error, Result};
use crate::telemetry::event::Unusable;
use crate::verdict::{Answer, Failure, Score, TransactionId};

/// What is known of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// What became of it, where that can be used.
    pub known: Option<Known>,
    /// How the user was judged before the run began, where this run replaces that answer or has done so: the same
    /// however often it was stopped since, and for all rows that ask the same.
    pub(crate) old: Option<Score>,
    /// Why an answer that is there is not used, where that is nobody's wish.
    pub(crate) unusable: Option<Unusable>,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Known {
    /// It was answered.
    Answer(Answer),
    /// It is not to be sent again in this run.
    Failure(Failure),
}

/// How far ahead of the clock an answer may be dated: runs that use no older answers date theirs up to an hour ahead
/// where the clock was set back in between (`sqlite::fresh_from`). Further ahead, a clock was wrong.
pub(super) const AHEAD: i64 = 60 * 60 * 1_000;

/// Looks things up, over a connection of its own.
pub struct Lookup {
    connection: Connection,
    path: PathBuf,
    checksums: Checksums,
    keys: RequestHasher,
    run: Run,
    /// Whether ages matter: then an answer from the future is not used.
    ages: bool,
    /// Answers from later have their age looked at, in milliseconds since 1970.
    not_after: i64,
    /// The further fields that the run needs of an answer, as pointers.
    wanted: Vec<String>,
    /// Where the wanted fields stand in what was captured; `None` where not all of them were, or where that is damaged.
    captures: HashMap<i64, Option<Box<[usize]>>>,
    /// Whether the run may have failures that are kept.
    failures: bool,
    #[cfg(test)]
    failing: FailingReads,
}

/// What a look-up must know of its run.
#[derive(Clone)]
pub(super) struct Reading {
    pub(super) checksums: Checksums,
    pub(super) keys: RequestHasher,
    pub(super) run: Run,
    /// Whether answers may be too old to be used.
    pub(super) ages: bool,
    pub(super) wanted: Vec<String>,
}

impl Lookup {
    pub(super) fn open(path: &Path, reading: Reading) -> Result<Self> {
        let connection = sqlite::open_again(path)?;
        let Reading {
            checksums,
            keys,
            run,
            ages,
            wanted,
        } = reading;
        let failures = failures::any(&connection, run.id())
            .map_err(|error| sqlite::cannot_open(path, &error))?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            checksums,
            keys,
            run,
            ages,
            not_after: millis(SystemTime::now()),
            wanted,
            captures: HashMap::new(),
            failures,
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
        self.run.not_before.max(self.run.begun)
    }

    /// From now on the run may have failures that are kept.
    pub(super) const fn expect_failures(&mut self) {
        self.failures = true;
    }

    /// What is known now of the request with this key and body.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn find(&mut self, key: &RequestKey, body: &[u8]) -> Result<Found> {
        self.look(key, body)
            .map_err(|error| self.cannot_read(&error))
    }

    /// Looks what follows up at the ledger's state of now, which costs less for each. To be ended soon: the log grows
    /// meanwhile.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn begin(&mut self) -> Result<()> {
        self.execute("BEGIN")
    }

    /// Ends what was begun.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn end(&mut self) -> Result<()> {
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
        sqlite::cannot_use(&self.path, "read", error)
    }

    fn look(&mut self, key: &RequestKey, body: &[u8]) -> rusqlite::Result<Found> {
        let mut found = self.answer(key)?;
        if self.failures && found.known.is_none() {
            let failure = failures::find(
                &self.connection,
                self.checksums,
                &self.keys,
                (key, body),
                self.run.id(),
            )?;
            found.known = failure.map(Known::Failure);
        }
        Ok(found)
    }

    fn answer(&mut self, key: &RequestKey) -> rusqlite::Result<Found> {
        // In the order that `checksum` has them.
        const QUERY: &str =
            "SELECT key, row, transaction_id, score, capture, captured, at, replaced, checksum
            FROM answers WHERE key = ? AND row = ?";
        #[cfg(test)]
        self.failing.read()?;
        let Self {
            connection,
            captures,
            wanted,
            ..
        } = self;
        let mut statement = connection.prepare_cached(QUERY)?;
        let mut rows = statement.query(params![key.hash, key.stored_row()])?;
        let Some(row) = rows.next()? else {
            return Ok(Found::default());
        };
        let Some(stored) = Stored::of(row, self.checksums) else {
            return Ok(Found::unusable(Unusable::Damaged));
        };
        let captured = if wanted.is_empty() {
            Some(Box::default())
        } else if let (Some(capture), Some(values)) = (stored.capture, stored.captured) {
            match places(connection, self.checksums, captures, wanted, capture)? {
                // The checksum fits, so it is not damage: we wrote something else than we read.
                Some(places) => Some(pick(places, &values).ok_or_else(damaged)?),
                None => None,
            }
        } else {
            None
        };
        let Run {
            begun,
            not_before,
            leftover,
            ..
        } = self.run;
        if leftover && stored.at < not_before {
            // It goes with this run's first answer, and must not be there before and gone afterwards.
            return Ok(Found::default());
        }
        let from_the_future = self.ages && is_ahead(stored.at, &mut self.not_after);
        // An answer that lacks a field which the run writes cannot be used either.
        let captured = captured.filter(|_| stored.at >= not_before && !from_the_future);
        let old = if stored.at >= begun {
            stored.replaced
        } else if captured.is_none() {
            Some(stored.score.clone())
        } else {
            None
        };
        let known = captured.map(|captured| {
            Known::Answer(Answer {
                transaction_id: stored.transaction_id,
                score: stored.score,
                captured,
            })
        });
        Ok(Found {
            known,
            old,
            unusable: from_the_future.then_some(Unusable::FromTheFuture),
        })
    }
}

impl Found {
    fn unusable(why: Unusable) -> Self {
        Self {
            unusable: Some(why),
            ..Self::default()
        }
    }
}

/// An answer as it is stored, found sound.
struct Stored {
    transaction_id: TransactionId,
    score: Score,
    capture: Option<i64>,
    captured: Option<String>,
    at: i64,
    replaced: Option<Score>,
}

impl Stored {
    /// `None` where it is not as it was written.
    fn of(row: &Row<'_>, checksums: Checksums) -> Option<Self> {
        if !checksums.fits(row) {
            return None;
        }
        // The columns of the query in `Lookup::answer`.
        let text = |column: usize| row.get_ref(column).ok()?.as_str().ok();
        let replaced = match row.get_ref(7).ok()?.as_str_or_null().ok()? {
            Some(digits) => Some(Score::from_json_number(digits).ok()?),
            None => None,
        };
        Some(Self {
            transaction_id: TransactionId::new(text(2)?).ok()?,
            score: Score::from_json_number(text(3)?).ok()?,
            capture: row.get(4).ok()?,
            captured: row.get(5).ok()?,
            at: row.get(6).ok()?,
            replaced,
        })
    }
}

/// Whether a time is further ahead of the clock than it may be. The clock is read again only for times after `not_after`.
fn is_ahead(at: i64, not_after: &mut i64) -> bool {
    if at > *not_after {
        *not_after = millis(SystemTime::now()).saturating_add(AHEAD);
    }
    at > *not_after
}

/// Where the wanted fields stand among what was captured under this number.
fn places<'a>(
    connection: &Connection,
    checksums: Checksums,
    known: &'a mut HashMap<i64, Option<Box<[usize]>>>,
    wanted: &[String],
    capture: i64,
) -> rusqlite::Result<Option<&'a [usize]>> {
    let places = match known.entry(capture) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => {
            let pointers = fields::list(connection, checksums, capture)?.unwrap_or_default();
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
