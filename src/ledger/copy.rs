//! Copying a ledger into another one: from a file to a server and back, for a backup, or into this version.
//!
//! A copy has the same secret, so that its answers are found by the same requests. Everything is copied in one transaction, and a
//! new file gets its name when it is complete: after a kill the target is what it was, and the same command makes the copy. What
//! the target has already is left out. This file must not know what an answer is.
//!
//! Copied are answers, accounts with their limits, what was spent, the records of runs, by which the same command continues a
//! stopped one, and how runs have left their files. Claims and leases are not: they belong to processes that use the source.

use std::collections::HashMap;

use rusqlite::types::Value;
use rusqlite::{ToSql, params};

use super::accounts::DAY;
use super::admin::{LedgerAdmin, RECOUNT, has_space};
use super::database::{Database, Purpose, TableRow, first, hex, read_meta, read_meta_since};
use super::fault::{DbFault, OLDEST_COPIED};
use super::settings::LedgerLocation;
use super::sqlite_file::{self, PRIVATE};
use crate::base::error::{Error, Result as RunResult};
use crate::base::private_file;

/// Rows that are copied together: far fewer values than a statement may have.
const TOGETHER: usize = 200;

/// A table, its columns that are copied, and what becomes of a row that the target has as well.
type Table = (&'static str, &'static str, &'static str);

/// The tables before the answers. Of the calls that both have counted on a day, the larger number holds, as a copy continues to
/// count where the source was.
const TABLES: [Table; 4] = [
    ("accounts", "hash, address, limits, limits_at", "DO NOTHING"),
    (
        "runs",
        "name, input, reuse, not_before, failures_from, started, failed, calls, cost, start, until, lease, place",
        "(name) DO UPDATE SET input = excluded.input, reuse = excluded.reuse, not_before = excluded.not_before,
            failures_from = excluded.failures_from, started = excluded.started, failed = excluded.failed,
            calls = excluded.calls, cost = excluded.cost WHERE excluded.started >= runs.started",
    ),
    ("outputs", "path, state, input", "DO NOTHING"),
    (
        "spending",
        "account, day, price, calls, answers",
        "(account, day, price) DO UPDATE SET calls = excluded.calls, answers = excluded.answers
            WHERE excluded.calls > spending.calls",
    ),
];
const ANSWERS: Table = ("answers", "account, fp, at, price, sealed", "DO NOTHING");

/// What was copied.
pub(crate) struct Copied {
    /// Answers that the target had not had.
    pub(crate) added: u64,
    /// How many it has now.
    pub(crate) answers: u64,
}

/// Copies what a ledger has and another one lacks, also while runs use the first one.
///
/// # Errors
/// Exit code 75: a run uses the second one. Exit code 2: one of them cannot be used, or they have different secrets. Exit code 3:
/// the copy cannot be written. The second one is as it was then.
pub(crate) fn copy(from: &LedgerLocation, to: &LedgerLocation) -> RunResult<Copied> {
    let Some(file) = to.file().filter(|file| file.symlink_metadata().is_err()) else {
        return copy_into(from, to, to);
    };
    sqlite_file::check(file)?;
    let cannot = |error| sqlite_file::cannot_write(file, error);
    let new = private_file::beside(file, PRIVATE).map_err(cannot)?;
    let copied = copy_into(from, &LedgerLocation::File(new.path().to_owned()), to)?;
    new.as_file().sync_all().map_err(cannot)?;
    new.persist_noclobber(file)
        .map_err(|error| cannot(error.error))?;
    Ok(copied)
}

/// Copies into a ledger that people know by this name.
fn copy_into(
    from: &LedgerLocation,
    to: &LedgerLocation,
    named: &LedgerLocation,
) -> RunResult<Copied> {
    let mut source = LedgerAdmin::connect(from, Purpose::Look)?;
    let mut read = || {
        source
            .database
            .query(source.database.dialect().snapshot, &[])?;
        let meta = read_meta_since(&mut *source.database, OLDEST_COPIED)?;
        Ok((source.bytes()?, meta))
    };
    let (bytes, (secret, created)) =
        read().map_err(|fault: DbFault| from.cannot("read", &fault))?;
    let mut target = LedgerAdmin::connect(to, Purpose::Copy)?;
    let mut look = || {
        let (own, _) = read_meta(&mut *target.database)?;
        let accounts = target
            .database
            .query("SELECT id FROM accounts LIMIT 1", &[])?;
        // What is new is in the file's log before it is in the file.
        let new = bytes.saturating_sub(target.bytes()?);
        has_space(to, new.saturating_mul(2))?;
        Ok((own == secret, accounts.is_empty()))
    };
    let (is_same, is_empty) = look().map_err(|fault: DbFault| named.cannot("open", &fault))?;
    if !is_same && !is_empty {
        let (from, to) = (from.shown(), named.shown());
        let words = format!("`{from}` and `{to}` are different ledgers, which cannot be joined");
        return Err(Error::usage(words).hint("name a file that does not exist, or a new database"));
    }
    let (mut added, mut answers) = (0, 0);
    let source = &mut *source.database;
    target.alone(&mut |target| {
        let meta = "UPDATE meta SET secret = $1, created = $2";
        target.query(meta, params![hex(&secret), created])?;
        for table in TABLES {
            copy_rows(source, target, table, "", |_| true)?;
        }
        added = copy_answers(source, target)?;
        // What removals have taken away is not copied.
        target.query("DELETE FROM spending WHERE day = 0", &[])?;
        target.query(RECOUNT, &[])?;
        answers = first(&target.query("SELECT count(*) FROM answers", &[])?)?.get(0)?;
        Ok(())
    })?;
    Ok(Copied { added, answers })
}

/// Copies those of a table's rows that are to be copied: how many there were.
fn copy_rows(
    source: &mut dyn Database,
    target: &mut dyn Database,
    (table, columns, conflict): Table,
    which: &str,
    is_copied: impl Fn(&TableRow) -> bool,
) -> Result<u64, DbFault> {
    let version = source.query("SELECT version FROM meta", &[])?;
    let version: i32 = first(&version)?.get(0)?;
    let names: Vec<_> = columns.split(", ").collect();
    let expression = |column: &&'static str| match *column {
        "account" => "(SELECT hash FROM accounts WHERE id = account)".to_owned(),
        // Nothing is under way.
        "start" | "until" | "lease" => "0".to_owned(),
        "place" => "''".to_owned(),
        "cost" if version < 7 => "NULL".to_owned(),
        // The price of the calls of the answer's day, if all had the same.
        "price" if version < 7 && table == ANSWERS.0 => format!(
            "cast((SELECT CASE count(*) WHEN 1 THEN min(price) ELSE '0' END FROM spending
            WHERE spending.account = answers.account AND day = at / {DAY} AND calls > 0) AS BIGINT)"
        ),
        other => other.to_owned(),
    };
    let select: Vec<_> = names.iter().map(expression).collect();
    let select = format!("SELECT {} FROM {table} {which}", select.join(", "));
    let rows = source.query(&select, &[]).map_err(DbFault::of_copied)?;
    let rows: Vec<_> = rows.into_iter().filter(is_copied).collect();
    for rows in rows.chunks(TOGETHER) {
        let cells = rows.iter().flat_map(|row| names.iter().zip(&row.0));
        let placeholder = |(index, (column, _)): (usize, (&&str, &Value))| match *column {
            "account" => format!("(SELECT id FROM accounts WHERE hash = ${})", index + 1),
            _ => format!("${}", index + 1),
        };
        let placeholders: Vec<_> = cells.clone().enumerate().map(placeholder).collect();
        let tuples = placeholders.chunks(names.len());
        let tuples: Vec<_> = tuples.map(|it| format!("({})", it.join(", "))).collect();
        let insert = format!(
            "INSERT INTO {table} ({columns}) VALUES {} ON CONFLICT {conflict}",
            tuples.join(", ")
        );
        let values: Vec<_> = cells.map(|(_, value)| value as &dyn ToSql).collect();
        target.query(&insert, &values)?;
    }
    Ok(rows.len() as u64)
}

/// Copies the answers that are later than what the target has of their requests, in the order in which they arrived: how many.
fn copy_answers(source: &mut dyn Database, target: &mut dyn Database) -> Result<u64, DbFault> {
    let (mut latest, mut added) = (HashMap::new(), 0);
    for which in windows(target)? {
        for row in target.query(&format!("SELECT fp, at FROM answers {which}"), &[])? {
            let last = latest.entry(row.get::<i64>(0)?).or_insert(i64::MIN);
            *last = row.get::<i64>(1)?.max(*last);
        }
    }
    for which in windows(source).map_err(DbFault::of_copied)? {
        added += copy_rows(source, target, ANSWERS, &which, |row| {
            let answer = row.get::<i64>(1).ok().zip(row.get::<i64>(2).ok());
            answer.is_none_or(|(fp, at)| latest.get(&fp).is_none_or(|last| at > *last))
        })?;
    }
    if added > 0 {
        for statement in target.dialect().after_copy {
            target.query(statement, &[])?;
        }
    }
    Ok(added)
}

/// All answers of a ledger in order, as conditions that each choose some of them.
fn windows(database: &mut dyn Database) -> Result<impl Iterator<Item = String> + use<>, DbFault> {
    let ends = "SELECT coalesce(min(seq), 1), coalesce(max(seq), 0) FROM answers";
    let ends = database.query(ends, &[])?;
    let (start, last) = (first(&ends)?.get::<i64>(0)?, first(&ends)?.get::<i64>(1)?);
    // Those that were not kept have nothing but the number of a start.
    let window = |start| {
        format!(
            "WHERE seq >= {start} AND seq < {start} + {TOGETHER} AND length(sealed) > 8 ORDER BY seq"
        )
    };
    Ok((start..=last).step_by(TOGETHER).map(window))
}
