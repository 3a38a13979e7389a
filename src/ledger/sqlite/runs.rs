//! The table of runs: what each run was started with, how far it came, and until when its latest start has a lease.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::claims::Claimant;
use super::connect::writing;
use crate::ledger::key::{PathHash, random_secret};
use crate::ledger::run::{RunPlan, StoredRun};

/// The run to this output, if there was one.
pub(super) fn find(
    connection: &Connection,
    name: Option<PathHash>,
) -> rusqlite::Result<Option<StoredRun>> {
    const QUERY: &str =
        "SELECT id, input, reuse, not_before, failures_from, started, failed, calls, in_flight,
        (SELECT count(*) FROM claims WHERE run = runs.id),
        (SELECT count(*) FROM claims WHERE run = runs.id AND claims.start = runs.start + 1)
        FROM runs WHERE name = ?";
    connection
        .query_row(QUERY, [name], |row| {
            Ok(StoredRun {
                id: row.get(0)?,
                input: row.get(1)?,
                reuse: row.get(2)?,
                not_before: row.get(3)?,
                failures_from: row.get(4)?,
                started: row.get(5)?,
                ended: row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned),
                calls: row.get::<_, i64>(7)?.cast_unsigned(),
                in_flight: row.get::<_, i64>(8)?.cast_unsigned(),
                left_claims: row.get::<_, i64>(9)?.cast_unsigned(),
                abandoned_claims: row.get::<_, i64>(10)?.cast_unsigned(),
            })
        })
        .optional()
}

/// Records that a run is under way, with a lease until then. What earlier starts of it had claimed is in the plan's count of lost
/// calls, and nobody's now.
pub(super) fn start(
    connection: &Connection,
    plan: &RunPlan,
    in_flight: u64,
    until: i64,
) -> rusqlite::Result<Claimant> {
    const RECORD: &str = "INSERT INTO runs VALUES (NULL, ?, ?, ?, ?, ?, ?, NULL, ?, ?, random(), ?)
        ON CONFLICT (name) DO UPDATE SET input = excluded.input, reuse = excluded.reuse,
            not_before = excluded.not_before, failures_from = excluded.failures_from,
            started = excluded.started, failed = NULL, calls = excluded.calls,
            in_flight = excluded.in_flight, start = excluded.start, until = excluded.until
        RETURNING id, start";
    let values = params![
        plan.name.unwrap_or_else(random_secret),
        plan.input,
        plan.reuse,
        plan.not_before,
        plan.failures_from,
        plan.started,
        plan.calls_before.cast_signed(),
        in_flight.cast_signed(),
        until
    ];
    let transaction = writing(connection)?;
    let us = transaction.query_row(RECORD, values, |row| {
        Ok(Claimant {
            run: row.get(0)?,
            start: row.get(1)?,
        })
    })?;
    transaction.execute("DELETE FROM claims WHERE run = ?", [us.run])?;
    transaction.commit()?;
    Ok(us)
}

/// Notes the calls of all starts, and extends the lease if it has not ended; whether it had not.
pub(super) fn renew(
    connection: &Connection,
    us: Claimant,
    calls: u64,
    (now, until): (i64, i64),
) -> rusqlite::Result<bool> {
    let renewed = connection
        .prepare_cached(
            "UPDATE runs SET calls = ?, until = iif(until >= ?2, ?3, until) WHERE id = ? AND start = ?
             RETURNING until = ?3",
        )?
        .query_row(params![calls.cast_signed(), now, until, us.run, us.start], |row| row.get(0))
        .optional()?;
    Ok(renewed.unwrap_or(false))
}

/// Makes a new lease, as another start of the run.
pub(super) fn restart(connection: &Connection, run: i64, until: i64) -> rusqlite::Result<Claimant> {
    let query = "UPDATE runs SET start = random(), until = ? WHERE id = ? RETURNING id, start";
    connection.query_row(query, [until, run], |row| {
        Ok(Claimant {
            run: row.get(0)?,
            start: row.get(1)?,
        })
    })
}

/// A run has reached the end of its input.
pub(super) fn finish(connection: &Connection, run: i64, failed: u64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM claims WHERE run = ?", [run])?;
    connection
        .execute(
            "UPDATE runs SET failed = ? WHERE id = ?",
            [failed.cast_signed(), run],
        )
        .map(drop)
}

/// Nobody can continue a run.
pub(super) fn forget(connection: &Connection, run: i64) -> rusqlite::Result<()> {
    connection
        .execute("DELETE FROM runs WHERE id = ?", [run])
        .map(drop)
}
