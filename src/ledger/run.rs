//! A run that may be stopped and go on: what was said of a user before it began.
//!
//! A new answer takes the place of an old one, and keeps the old one's score beside it. Whoever compares wants the last
//! answer from before the run began, whether the run has replaced it already or not: so it matters when the run began,
//! and not how often it was stopped. The ledger therefore notes by its output a run that keeps answers, and forgets it
//! when it reaches the end of its input. What is found noted was stopped, and goes on with the next run to that output.
//!
//! Only one score is kept. When runs to two outputs each replace an answer while a third one is stopped, that one
//! compares with the first's.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::key::{Key, Keys};

/// A run, over all its stops.
pub(super) struct Run {
    name: Key,
    /// In milliseconds since 1970.
    begun: i64,
    /// The ledger knows of it.
    noted: bool,
}

impl Run {
    /// A run to this output, or to standard output, that begins now.
    pub(super) fn begin(keys: &Keys, output: Option<&Path>, now: i64) -> Self {
        Self {
            name: keys.run(output),
            begun: now,
            noted: false,
        }
    }

    /// The run to this output, or to standard output, that was stopped; or else one that begins now.
    pub(super) fn open(
        connection: &Connection,
        keys: &Keys,
        output: Option<&Path>,
        now: i64,
    ) -> rusqlite::Result<Self> {
        let run = Self::begin(keys, output, now);
        let name = run.name.0;
        let begun: Option<i64> = connection
            .query_row("SELECT begun FROM runs WHERE name = ?", [name], |row| {
                row.get(0)
            })
            .optional()?;
        Ok(Self {
            // Not in the future, whatever the clock did: answers of this run must not seem to be from before it.
            begun: begun.map_or(now, |begun| begun.min(now)),
            noted: begun.is_some(),
            ..run
        })
    }

    pub(super) const fn begun(&self) -> i64 {
        self.begun
    }

    /// Notes it together with its first answers, which costs no sync of its own. Without any there is nothing to go on
    /// with.
    pub(super) fn note(&self, connection: &Connection) -> rusqlite::Result<()> {
        if self.noted {
            return Ok(());
        }
        connection
            .prepare_cached("INSERT INTO runs VALUES (?, ?) ON CONFLICT DO NOTHING")?
            .execute(params![self.name.0, self.begun])
            .map(drop)
    }

    /// What was noted is durable.
    pub(super) const fn is_noted(&mut self) {
        self.noted = true;
    }

    /// It has come to its end: the next one to the same output is another one.
    pub(super) fn end(&self, connection: &Connection) -> rusqlite::Result<()> {
        if !self.noted {
            return Ok(());
        }
        connection
            .execute("DELETE FROM runs WHERE name = ?", [self.name.0])
            .map(drop)
    }
}
