//! A run as the ledger knows it: whether it goes on, and since when.
//!
//! A run is known by its output. It is noted when it starts and forgotten when it reaches the end of its input with a
//! verdict for every row; one that left rows without a verdict is noted as finished instead. So what is found noted
//! was either stopped early, and the next run to that output goes on with it; or it is finished, and the next run is
//! another one, unless it is asked to retry the failed rows.
//!
//! It matters when a run began, and not how often it was stopped: a comparison with older answers is with the last one
//! from before the run. A new answer takes the place of an old one and keeps the old one's score beside it. Only
//! one score is kept: when runs to two outputs each replace an answer while a third one is stopped, that one compares
//! with the first's.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::checksum::Checksums;
use super::request_key::{Hash, RequestHasher};
use super::{Reuse, sqlite};

/// What the ledger has noted of the run to an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    /// Nothing: none was stopped, and none left rows without a verdict.
    Nothing,
    /// It was stopped early.
    Stopped,
    /// It reached the end of its input.
    Finished {
        /// Rows that had been asked and got no verdict.
        failed: u64,
    },
}

/// A run, over all its stops.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    name: Hash,
    /// Its number; `None` until it is noted.
    id: Option<i64>,
    /// In milliseconds since 1970.
    pub(super) begun: i64,
    /// Answers from before are not used, in milliseconds since 1970.
    pub(super) not_before: i64,
    /// Answers of an earlier run are still there, which the first answer of this one replaces.
    pub(super) leftover: bool,
}

impl Run {
    /// A run to this output, or to standard output, that begins at `begun`.
    pub(super) fn begin(
        keys: &RequestHasher,
        output: Option<&Path>,
        begun: i64,
        not_before: i64,
    ) -> Self {
        Self {
            name: keys.run(output),
            id: None,
            begun,
            not_before,
            leftover: false,
        }
    }

    /// The run to this output, or to standard output, that is noted, and what became of it.
    pub(super) fn find(
        connection: &Connection,
        checksums: Checksums,
        keys: &RequestHasher,
        output: Option<&Path>,
    ) -> rusqlite::Result<Option<(Self, Past)>> {
        const QUERY: &str =
            "SELECT id, started, not_before, leftover, finished, checksum FROM runs WHERE name = ?";
        let name = keys.run(output);
        let read = |row: &Row<'_>| {
            let run = Self {
                name,
                id: Some(row.get(0)?),
                begun: row.get(1)?,
                not_before: row.get(2)?,
                leftover: row.get(3)?,
            };
            let finished: Option<i64> = row.get(4)?;
            Ok((run, finished, row.get::<_, i64>(5)?))
        };
        let found = connection.query_row(QUERY, [name], read).optional()?;
        let Some((run, finished, checksum)) = found else {
            return Ok(None);
        };
        if checksum != run.checksum(checksums, finished) {
            return Err(sqlite::damaged());
        }
        let past = finished.map_or(Past::Stopped, |failed| Past::Finished {
            failed: failed.unsigned_abs(),
        });
        Ok(Some((run, past)))
    }

    /// The same run as it goes on now.
    pub(super) fn again(self, reuse: Reuse, own: bool, now: i64, not_before: i64) -> Self {
        let run = Self {
            // It did not begin in the future, whatever the clock did: answers of this run must not seem to be from before.
            begun: self.begun.min(now),
            not_before: self.not_before.max(not_before),
            ..self
        };
        match reuse {
            // It asks everybody once more, also whom it was not to ask again.
            Reuse::Nothing => Self { id: None, ..run },
            // It uses the answers of an earlier one after all, which it has not replaced yet.
            Reuse::Retry if own && run.leftover => Self {
                leftover: false,
                not_before: i64::MIN,
                ..run
            },
            Reuse::All | Reuse::Younger(_) | Reuse::Retry => run,
        }
    }

    /// It takes the place of an earlier run, whose answers are still there: from now on none of them is used.
    pub(super) fn replace_leftover(
        &mut self,
        connection: &Connection,
        now: i64,
    ) -> rusqlite::Result<()> {
        self.not_before = sqlite::fresh_from(connection, now)?;
        self.begun = self.not_before;
        self.leftover = true;
        Ok(())
    }

    /// Notes that it is under way, in the place of whatever was noted by this name.
    pub(super) fn note(
        &mut self,
        connection: &Connection,
        checksums: Checksums,
    ) -> rusqlite::Result<()> {
        const NOTE: &str = "INSERT INTO runs (name, started, not_before, leftover, finished, checksum)
            VALUES (?, ?, ?, ?, NULL, ?)
            ON CONFLICT (name) DO UPDATE SET started = excluded.started, not_before = excluded.not_before,
                leftover = excluded.leftover, finished = NULL, checksum = excluded.checksum
            RETURNING id";
        let values = params![
            self.name,
            self.begun,
            self.not_before,
            self.leftover,
            self.checksum(checksums, None)
        ];
        let id: i64 = connection.query_row(NOTE, values, |row| row.get(0))?;
        if self.id.replace(id).is_none() {
            // What another run to this output is not to send again is nothing to this one.
            connection.execute("DELETE FROM failures WHERE run = ?", [id])?;
        }
        Ok(())
    }

    /// Removes the answers of the earlier run, together with the first answer of this one.
    pub(super) fn drop_leftover(
        &mut self,
        connection: &Connection,
        checksums: Checksums,
        context: i64,
    ) -> rusqlite::Result<()> {
        if !self.leftover {
            return Ok(());
        }
        sqlite::remove_leftover(connection, context)?;
        self.leftover = false;
        self.note(connection, checksums)
    }

    /// The run's number; 0, which none has, until it is noted.
    pub(super) fn id(&self) -> i64 {
        self.id.unwrap_or_default()
    }

    /// It has reached the end of its input, and so many rows that were asked got no verdict: the next one to the same
    /// output is another one.
    pub(super) fn finish(
        &self,
        connection: &Connection,
        checksums: Checksums,
        failed: u64,
    ) -> rusqlite::Result<()> {
        let Some(id) = self.id else {
            return Ok(());
        };
        connection.execute("DELETE FROM failures WHERE run = ?", [id])?;
        let failed = i64::try_from(failed).unwrap_or(i64::MAX);
        connection
            .execute(
                "UPDATE runs SET finished = ?, checksum = ? WHERE id = ?",
                params![failed, self.checksum(checksums, Some(failed)), id],
            )
            .map(drop)
    }

    /// It has reached the end of its input, and every row has its verdict: there is nothing to come back to.
    pub(super) fn forget(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Some(id) = self.id else {
            return Ok(());
        };
        connection.execute("DELETE FROM failures WHERE run = ?", [id])?;
        connection
            .execute("DELETE FROM runs WHERE id = ?", [id])
            .map(drop)
    }

    fn checksum(&self, checksums: Checksums, finished: Option<i64>) -> i64 {
        let values = [
            ValueRef::Blob(&self.name),
            ValueRef::Integer(self.begun),
            ValueRef::Integer(self.not_before),
            ValueRef::Integer(self.leftover.into()),
            finished.map_or(ValueRef::Null, ValueRef::Integer),
        ];
        checksums.of("runs", values)
    }
}
