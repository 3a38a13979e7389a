//! Copying a ledger into another one: from a file to a server and back, for a backup, or into this
//! version.
//!
//! A copy has the same secret, so that the same requests find its answers. Everything is copied in
//! one transaction, and a new file gets its name when it is complete: after a kill the target is
//! as it was, and the same command makes the copy. What the target has already is left out. This
//! file must not know what an answer is.
//!
//! It copies answers, accounts with their limits, what was spent, the records of runs, by which
//! the same command continues a stopped one, and how runs have left their files. Claims and leases
//! belong to processes that use the source, and stay there.

use std::collections::HashMap;

use rusqlite::types::Value;
use rusqlite::{ToSql, params};

use super::accounts::DAY_MS;
use super::admin::{LedgerAdmin, RECOUNT, check_room};
use super::database::{Database, Purpose, TableRow, first, hex};
use super::fault::{DbFault, OLDEST_COPIED, VERSION};
use super::location::LedgerLocation;
use super::sqlite_file;
use crate::base::error::{Error, Result as RunResult};
use crate::base::private_file;

/// Rows that are copied together: far fewer values than a statement may have.
const ROWS_PER_STATEMENT: usize = 200;

/// A table that is copied.
#[derive(Clone, Copy)]
struct CopiedTable {
    name: &'static str,
    columns: &'static str,
    /// What becomes of a row that the target has as well.
    on_conflict: &'static str,
}

const fn table(
    name: &'static str,
    columns: &'static str,
    on_conflict: &'static str,
) -> CopiedTable {
    CopiedTable {
        name,
        columns,
        on_conflict,
    }
}

/// The tables before the answers. Of the calls that both have counted on a day, the larger number
/// holds, as a copy continues to count where the source was.
const TABLES: [CopiedTable; 4] = [
    table("accounts", "hash, address, limits, limits_at", "DO NOTHING"),
    table(
        "runs",
        "name, input, reuse, not_before, failures_from, started, failed, calls, cost, start, until, lease, place",
        "(name) DO UPDATE SET input = excluded.input, reuse = excluded.reuse, not_before = excluded.not_before,
            failures_from = excluded.failures_from, started = excluded.started, failed = excluded.failed,
            calls = excluded.calls, cost = excluded.cost WHERE excluded.started >= runs.started",
    ),
    table("outputs", "path, state, input", "DO NOTHING"),
    table(
        "spending",
        "account, day, price, calls, answers",
        "(account, day, price) DO UPDATE SET calls = excluded.calls, answers = excluded.answers
            WHERE excluded.calls > spending.calls",
    ),
];
const ANSWERS: CopiedTable = table("answers", "account, fp, at, price, sealed", "DO NOTHING");

/// What was copied.
pub(crate) struct Copied {
    /// Answers that the target lacked.
    pub(crate) added: u64,
    /// How many it has now.
    pub(crate) answers: u64,
}

/// Copies what a ledger has and another one lacks, also while runs use the first one.
///
/// # Errors
/// Exit code 75: a run uses the second one. Exit code 2: one of them cannot be used, or they have
/// different secrets. Exit code 3: the copy cannot be written. The second one is as it was then.
pub(crate) fn copy(from: &LedgerLocation, to: &LedgerLocation) -> RunResult<Copied> {
    let Some(file) = to.file().filter(|file| file.symlink_metadata().is_err()) else {
        return copy_into(from, to, to);
    };
    sqlite_file::check(file)?;
    let cannot = |error| sqlite_file::cannot_write(file, error);
    let new = private_file::beside(file, private_file::OWNER).map_err(cannot)?;
    let copied = copy_into(from, &LedgerLocation::File(new.path().to_owned()), to)?;
    new.as_file().sync_all().map_err(cannot)?;
    let renamed = new.persist_noclobber(file);
    renamed.map_err(|error| cannot(error.error))?;
    Ok(copied)
}

/// Copies into a ledger that people know by this name.
fn copy_into(
    from: &LedgerLocation,
    to: &LedgerLocation,
    named: &LedgerLocation,
) -> RunResult<Copied> {
    let mut source = LedgerAdmin::connect(from, Purpose::Look, OLDEST_COPIED)?;
    let (source, meta) = (&mut *source.database, &source.meta);
    let snapshot = source.query(source.dialect().snapshot, &[]);
    let bytes = snapshot.and_then(|_| source.bytes());
    let bytes = bytes.map_err(|fault| fault.error("read", from))?;
    let mut target = LedgerAdmin::connect(to, Purpose::Copy, VERSION)?;
    let mut has_accounts = || {
        // What is new is in the file's log before it is in the file.
        let new = bytes.saturating_sub(target.database.bytes()?);
        check_room(to, new.saturating_mul(2))?;
        let accounts = "SELECT id FROM accounts LIMIT 1";
        Ok(!target.database.query(accounts, &[])?.is_empty())
    };
    let has_accounts = has_accounts().map_err(|fault: DbFault| fault.error("open", named))?;
    if target.meta.secret != meta.secret && has_accounts {
        let (from, to) = (from.to_display(), named.to_display());
        let words = format!("`{from}` and `{to}` are different ledgers, which cannot be joined");
        return Err(Error::usage(words).hint("name a file that does not exist, or a new database"));
    }
    let (mut added, mut answers) = (0, 0);
    target.without_runs(&mut |target| {
        let update = "UPDATE meta SET secret = $1, created = $2";
        target.query(update, params![hex(&meta.secret), meta.created])?;
        for table in TABLES {
            copy_rows(source, target, table, "", |_| true)?;
        }
        added = copy_answers(source, target)?;
        // The target counts its own removals.
        target.query("DELETE FROM spending WHERE day = 0", &[])?;
        target.query(RECOUNT, &[])?;
        answers = first(&target.query("SELECT count(*) FROM answers", &[])?)?.get(0)?;
        Ok(())
    })?;
    Ok(Copied { added, answers })
}

/// Copies the rows of a table for which `condition`, SQL, and `is_copied` hold, and returns how
/// many there were.
fn copy_rows(
    source: &mut dyn Database,
    target: &mut dyn Database,
    table: CopiedTable,
    condition: &str,
    is_copied: impl Fn(&TableRow) -> bool,
) -> Result<u64, DbFault> {
    let CopiedTable {
        name,
        columns,
        on_conflict,
    } = table;
    let version = source.query("SELECT version FROM meta", &[])?;
    let version: i32 = first(&version)?.get(0)?;
    let names: Vec<_> = columns.split(", ").collect();
    let expression = |column: &&'static str| {
        match *column {
        "account" => "(SELECT hash FROM accounts WHERE id = account)".to_owned(),
        // Nothing is under way.
        "start" | "until" | "lease" => "0".to_owned(),
        "place" => "''".to_owned(),
        "cost" if version < 7 => "NULL".to_owned(),
        // The price of the calls of the answer's day, if all had the same.
        "price" if version < 7 && name == ANSWERS.name => format!(
            "cast((SELECT CASE count(*) WHEN 1 THEN min(price) ELSE '0' END FROM spending
            WHERE spending.account = answers.account AND day = at / {DAY_MS} AND calls > 0) AS BIGINT)"
        ),
        other => other.to_owned(),
    }
    };
    let select: Vec<_> = names.iter().map(expression).collect();
    let select = format!("SELECT {} FROM {name} {condition}", select.join(", "));
    let rows = source.query(&select, &[]).map_err(DbFault::of_copied)?;
    let rows: Vec<_> = rows.into_iter().filter(is_copied).collect();
    for rows in rows.chunks(ROWS_PER_STATEMENT) {
        let cells = rows.iter().flat_map(|row| names.iter().zip(&row.0));
        let placeholder = |(index, (column, _)): (usize, (&&str, &Value))| match *column {
            "account" => format!("(SELECT id FROM accounts WHERE hash = ${})", index + 1),
            _ => format!("${}", index + 1),
        };
        let placeholders: Vec<_> = cells.clone().enumerate().map(placeholder).collect();
        let tuples = placeholders.chunks(names.len());
        let tuples: Vec<_> = tuples.map(|it| format!("({})", it.join(", "))).collect();
        let tuples = tuples.join(", ");
        let insert =
            format!("INSERT INTO {name} ({columns}) VALUES {tuples} ON CONFLICT {on_conflict}");
        let values: Vec<_> = cells.map(|(_, value)| value as &dyn ToSql).collect();
        target.query(&insert, &values)?;
    }
    Ok(rows.len() as u64)
}

/// Copies the answers that are later than what the target has of their requests, in the order in
/// which they arrived, and returns how many there were.
fn copy_answers(source: &mut dyn Database, target: &mut dyn Database) -> Result<u64, DbFault> {
    let (mut latest, mut added) = (HashMap::new(), 0);
    for window in windows(target)? {
        for row in target.query(&format!("SELECT fp, at FROM answers {window}"), &[])? {
            let last = latest.entry(row.get::<i64>(0)?).or_insert(i64::MIN);
            *last = row.get::<i64>(1)?.max(*last);
        }
    }
    for window in windows(source).map_err(DbFault::of_copied)? {
        added += copy_rows(source, target, ANSWERS, &window, |row| {
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
    // Answers that a run has discarded have only the number of its start.
    let window = |start| {
        format!(
            "WHERE seq >= {start} AND seq < {start} + {ROWS_PER_STATEMENT} AND length(sealed) > 8 ORDER BY seq"
        )
    };
    Ok((start..=last).step_by(ROWS_PER_STATEMENT).map(window))
}
