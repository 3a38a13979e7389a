//! The table of runs: whether a run can be continued, and when it started.
//!
//! A run is recognised by its output. It is recorded when it starts and removed when it reaches the end of its input with
//! a verdict for every row; one that left rows without a verdict is recorded as finished instead. So a run that is found
//! here was either stopped early, and the next run to that output continues it; or it is finished, and the next run is
//! another one, unless it is asked to retry the failed rows.
//!
//! What matters is when a run started, and not how often it was stopped: older answers are compared with the last one from
//! before the run. A new answer replaces an old one and keeps the old one's score. Only one score is kept: when runs to two
//! outputs each replace an answer while a third one is stopped, that one compares with the first's.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::answers;
use super::checksum::Checksums;
use super::errors::damaged;
use super::failures;
use super::schema::fresh_from;
use crate::ledger::request_key::KeyHash;
use crate::ledger::store::FinishedRun;

/// What the ledger has recorded about the previous run to an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PreviousRun {
    /// Nothing: none was stopped, and none left rows without a verdict.
    #[default]
    None,
    /// It was stopped early.
    Stopped,
    /// It reached the end of its input.
    Finished {
        /// Rows that were asked about and got no verdict.
        failed: u64,
        /// Rows without a verdict that no call was made for.
        unsent: u64,
    },
}

/// A run, over all its stops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunRecord {
    name: KeyHash,
    /// Its number; `None` until it is recorded.
    id: Option<i64>,
    /// In milliseconds since 1970.
    pub(crate) started: i64,
    /// Older answers are not used, in milliseconds since 1970.
    pub(crate) not_before: i64,
    /// Answers of an earlier run are still there, to be replaced by the first answer of this one.
    pub(crate) leftover: bool,
    /// In the ledger of one run: the most calls whose answers a kill can lose; 0 once the run has ended.
    pub(crate) calls: u32,
    /// Only failed rows are left of the inputs that could be used, as others could not be.
    pub(crate) only_failed: bool,
}

impl RunRecord {
    /// A run of this name that starts at this time.
    pub(crate) const fn new(name: KeyHash, started: i64, not_before: i64) -> Self {
        Self {
            name,
            id: None,
            started,
            not_before,
            leftover: false,
            calls: 0,
            only_failed: false,
        }
    }

    /// The run of this name that is recorded, and how it ended.
    pub(crate) fn find(
        connection: &Connection,
        checksums: Checksums,
        name: KeyHash,
    ) -> rusqlite::Result<Option<(Self, PreviousRun)>> {
        const QUERY: &str =
            "SELECT id, started, not_before, leftover, finished, checksum, calls, unsent,
            only_failed FROM runs WHERE name = ?";
        let read = |row: &Row<'_>| {
            let run = Self {
                name,
                id: Some(row.get(0)?),
                started: row.get(1)?,
                not_before: row.get(2)?,
                leftover: row.get(3)?,
                calls: row.get(6)?,
                only_failed: row.get(8)?,
            };
            let failed: Option<i64> = row.get(4)?;
            let finished = match failed {
                Some(failed) => Some((failed, row.get(7)?)),
                None => None,
            };
            Ok((run, finished, row.get::<_, i64>(5)?))
        };
        let found = connection.query_row(QUERY, [name], read).optional()?;
        let Some((run, finished, checksum)) = found else {
            return Ok(None);
        };
        if checksum != run.checksum(checksums, finished) {
            return Err(damaged());
        }
        let previous = finished.map_or(PreviousRun::Stopped, |(failed, unsent)| {
            PreviousRun::Finished {
                failed: failed.unsigned_abs(),
                unsent: unsent.unsigned_abs(),
            }
        });
        Ok(Some((run, previous)))
    }

    /// Answers that arrive now are dated no earlier, whatever the clock does meanwhile: they are of this run, and usable.
    pub(crate) fn earliest(&self) -> i64 {
        self.not_before.max(self.started)
    }

    /// From when it is recorded, it has no failures.
    pub(crate) const fn discard_failures(&mut self) {
        self.id = None;
    }

    /// It replaces an earlier run, whose answers are still there: from now on none of them is used.
    pub(super) fn replace_leftover(
        &mut self,
        connection: &Connection,
        now: i64,
    ) -> rusqlite::Result<()> {
        self.not_before = fresh_from(connection, now)?;
        self.started = self.not_before;
        self.leftover = true;
        Ok(())
    }

    /// Records that it is under way, in place of the previous run of this name.
    pub(crate) fn record(
        &mut self,
        connection: &Connection,
        checksums: Checksums,
    ) -> rusqlite::Result<()> {
        const RECORD: &str =
            "INSERT INTO runs (name, started, not_before, leftover, finished, unsent, calls,
                only_failed, checksum)
            VALUES (?, ?, ?, ?, NULL, 0, ?, 0, ?)
            ON CONFLICT (name) DO UPDATE SET started = excluded.started, not_before = excluded.not_before,
                leftover = excluded.leftover, finished = NULL, unsent = 0, calls = excluded.calls,
                only_failed = 0, checksum = excluded.checksum
            RETURNING id";
        self.only_failed = false;
        let values = params![
            self.name,
            self.started,
            self.not_before,
            self.leftover,
            self.calls,
            self.checksum(checksums, None)
        ];
        let id: i64 = connection.query_row(RECORD, values, |row| row.get(0))?;
        if self.id.replace(id).is_none() {
            // What another run to this output must not send again means nothing to this one.
            failures::remove_of(connection, id)?;
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
        answers::remove_of(connection, checksums, context)?;
        self.leftover = false;
        self.record(connection, checksums)
    }

    /// Records its counts and how it ended, unless it has reached the end of its input. Where `prune` or `forget` has removed it
    /// meanwhile, another run may have its number.
    pub(super) fn record_stop(
        &self,
        connection: &Connection,
        checksums: Checksums,
    ) -> rusqlite::Result<()> {
        const STOP: &str = "UPDATE runs SET calls = ?, only_failed = ?, checksum = ?
            WHERE id = ? AND name = ? AND started = ?";
        let checksum = self.checksum(checksums, None);
        connection
            .prepare_cached(STOP)?
            .execute(params![
                self.calls,
                self.only_failed,
                checksum,
                self.id,
                self.name,
                self.started
            ])
            .map(drop)
    }

    /// The run's number; 0, which none has, until it is recorded.
    pub(crate) fn id(&self) -> i64 {
        self.id.unwrap_or_default()
    }

    /// The number of its record, if it is still there: where `prune` or `forget` has removed it, another run may have its number.
    fn recorded(&self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        connection
            .prepare_cached("SELECT id FROM runs WHERE id = ? AND name = ? AND started = ?")?
            .query_row(params![self.id, self.name, self.started], |row| row.get(0))
            .optional()
    }

    /// It has reached the end of its input, and these rows got no verdict: the next run to the same output is another one. Of
    /// several runs to standard output at the same time, the record is the latest one's.
    pub(super) fn finish(
        &self,
        connection: &Connection,
        checksums: Checksums,
        finished: FinishedRun,
    ) -> rusqlite::Result<()> {
        let Some(id) = self.recorded(connection)? else {
            return Ok(());
        };
        failures::remove_of(connection, id)?;
        let FinishedRun { failed, unsent } = finished;
        let said = Self {
            calls: 0,
            only_failed: false,
            ..*self
        };
        let [failed, unsent] = [failed, unsent].map(|rows| i64::try_from(rows).unwrap_or(i64::MAX));
        connection
            .execute(
                "UPDATE runs SET finished = ?, unsent = ?, calls = 0, only_failed = 0,
                    checksum = ?
                WHERE id = ? AND started = ? AND not_before = ? AND leftover = ?",
                params![
                    failed,
                    unsent,
                    said.checksum(checksums, Some((failed, unsent))),
                    id,
                    self.started,
                    self.not_before,
                    self.leftover
                ],
            )
            .map(drop)
    }

    /// It has reached the end of its input, and every row has its verdict: there is nothing to continue.
    pub(super) fn forget(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Some(id) = self.recorded(connection)? else {
            return Ok(());
        };
        failures::remove_of(connection, id)?;
        connection
            .execute("DELETE FROM runs WHERE id = ?", [id])
            .map(drop)
    }

    fn checksum(&self, checksums: Checksums, finished: Option<(i64, i64)>) -> i64 {
        let unsent = finished.map_or(0, |(_, unsent)| unsent);
        let values = [
            ValueRef::Blob(&self.name),
            ValueRef::Integer(self.started),
            ValueRef::Integer(self.not_before),
            ValueRef::Integer(self.leftover.into()),
            finished.map_or(ValueRef::Null, |(failed, _)| ValueRef::Integer(failed)),
            ValueRef::Integer(unsent),
            ValueRef::Integer(self.calls.into()),
            ValueRef::Integer(self.only_failed.into()),
        ];
        checksums.of("runs", values)
    }
}

/// Removes runs that started before this time, with their failures.
pub(crate) fn remove_before(connection: &Connection, before: i64) -> rusqlite::Result<()> {
    const FAILURES: &str =
        "DELETE FROM failures WHERE run IN (SELECT id FROM runs WHERE started < ?)";
    connection.execute(FAILURES, [before])?;
    connection
        .execute("DELETE FROM runs WHERE started < ?", [before])
        .map(drop)
}
