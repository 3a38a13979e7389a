//! Opening a ledger's file: for a run, or to see what a run would find.

use std::path::Path;
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::connect::{self, Mode, writing};
use super::errors::{self, is_damage};
use super::find::SharedIndex;
use super::schema::{self, Meta};
use super::store::{SqliteStore, StoreParts, inspecting};
use super::{limits, runs};
use crate::base::error::{Result, shown};
use crate::ledger::account::{FoundAccount, StoredAccount};
use crate::ledger::clock::time;
use crate::ledger::facts::{LedgerFacts, LedgerPreview, OpenedStore, PreviewSettings};
use crate::ledger::file;
use crate::ledger::key::RequestHasher;
use crate::ledger::lease::LeaseTerms;
use crate::ledger::outputs::hash;
use crate::ledger::run::RunPlan;
use crate::ledger::settings::{LedgerSettings, Reuse};

/// Opens a ledger for a run, at this real path, or one that is gone with the run.
pub(in crate::ledger) fn open(
    settings: &LedgerSettings,
    path: Option<&Path>,
) -> Result<OpenedStore> {
    let given = settings.location.path();
    let shown = given.as_deref().unwrap_or(Path::new("answers"));
    if let Some(path) = path {
        schema::check_head(path, shown)?;
    }
    let unreadable = |error| errors::cannot_open(shown, &error);
    let connection = connect::open(path, Mode::Run).map_err(unreadable)?;
    if let Some(path) = path {
        schema::check_soundness(&connection, path).map_err(unreadable)?;
    }
    let meta = Meta::read(&connection).map_err(unreadable)?;
    let hasher = RequestHasher::new(&meta.secret, &settings.endpoint, &settings.service_id);
    let account = account(&connection, &hasher, &settings.endpoint).map_err(unreadable)?;
    let output = settings.output.as_deref().filter(|_| path.is_some());
    let names = (
        output.map(|output| hash(&meta.secret, Some(output))),
        settings
            .input
            .as_deref()
            .map(|input| hash(&meta.secret, Some(input))),
    );
    let plan = plan(&connection, names, settings.reuse).map_err(unreadable)?;
    let mut facts = facts(&connection, account, &plan).map_err(unreadable)?;
    facts.of_run(&plan);
    let parts = StoreParts {
        path: path.map(Path::to_owned),
        index: SharedIndex::read(&connection).map_err(unreadable)?,
        scope: plan.scope(settings.reuse, &settings.read, SystemTime::now()),
        account,
        in_flight: settings.in_flight,
        lease: LeaseTerms::for_calls_of(settings.longest_call),
        plan: plan.clone(),
    };
    Ok(OpenedStore {
        store: Box::new(SqliteStore::new(connection, parts, shown)?),
        hasher,
        earliest: plan.not_before.max(plan.failures_from),
        facts,
    })
}

/// The row of an account, which is made where there is none.
fn account(
    connection: &Connection,
    hasher: &RequestHasher,
    address: &str,
) -> rusqlite::Result<i64> {
    let find = || find_account(connection, hasher);
    if let Some(id) = find()? {
        return Ok(id);
    }
    let transaction = writing(connection)?;
    let add = "INSERT OR IGNORE INTO accounts VALUES (NULL, ?, ?, 0)";
    transaction.execute(add, params![hasher.account(), address])?;
    transaction.commit()?;
    find()?.ok_or_else(errors::damaged)
}

fn find_account(connection: &Connection, hasher: &RequestHasher) -> rusqlite::Result<Option<i64>> {
    let query = "SELECT id FROM accounts WHERE hash = ?";
    connection
        .query_row(query, [hasher.account()], |row| row.get(0))
        .optional()
}

/// The plan of a run that starts now.
fn plan(
    connection: &Connection,
    names: (Option<[u8; 32]>, Option<[u8; 32]>),
    reuse: Reuse,
) -> rusqlite::Result<RunPlan> {
    let found = runs::find(connection, names.0)?;
    let now = SystemTime::now();
    let now = match reuse {
        // Also answers are asked for again that a clock which was ahead has dated later.
        Reuse::Nothing | Reuse::Retry => {
            now.max(time(at(connection, schema::last(connection)?)? + 1))
        }
        Reuse::All | Reuse::Recent(_) => now,
    };
    Ok(RunPlan::new(names, reuse, found.as_ref(), now))
}

/// When the answer at this place arrived, or the first one behind it; 0 without any.
fn at(connection: &Connection, seq: i64) -> rusqlite::Result<i64> {
    let mut query =
        connection.prepare_cached("SELECT at FROM answers WHERE seq >= ? ORDER BY seq LIMIT 1")?;
    Ok(query
        .query_row([seq], |row| row.get(0))
        .optional()?
        .unwrap_or(0))
}

/// What a run learns of a ledger that has answers.
fn facts(connection: &Connection, account: i64, plan: &RunPlan) -> rusqlite::Result<LedgerFacts> {
    let recent = recent(connection, plan.not_before)?;
    Ok(LedgerFacts {
        known_limit: limits::known(connection, account, SystemTime::now())?,
        ..LedgerFacts::of_accounts(accounts(connection)?, account, recent)
    })
}

/// How many answers of all accounts arrived since then: they are in the order in which they arrived.
fn recent(connection: &Connection, not_before: i64) -> rusqlite::Result<u64> {
    let last = schema::last(connection)?;
    let (mut first, mut behind) = (0, last.saturating_add(1));
    while first < behind {
        let middle = first + (behind - first) / 2;
        if at(connection, middle)? < not_before {
            first = middle + 1;
        } else {
            behind = middle;
        }
    }
    Ok(last.saturating_sub(first).saturating_add(1).cast_unsigned())
}

/// Opens a ledger to see what a run would find; `None` if there is none yet.
pub(in crate::ledger) fn preview(
    settings: &PreviewSettings<'_>,
    ledger: &Path,
) -> Result<Option<LedgerPreview>> {
    let path = file::check(ledger)?;
    if !schema::check_head(&path, ledger)? {
        return Ok(None);
    }
    let unreadable = |error| errors::cannot_open(ledger, &error);
    let connection = connect::open(Some(&path), Mode::Inspect).map_err(unreadable)?;
    schema::check_soundness(&connection, &path).map_err(unreadable)?;
    let meta = Meta::read(&connection).map_err(unreadable)?;
    let accounts = accounts(&connection).map_err(unreadable)?;
    let found = FoundAccount::of(settings.account, accounts, &meta.secret, &shown(ledger))?;
    let names = (
        { settings.output }.map(|output| hash(&meta.secret, Some(output))),
        settings.input.map(|input| hash(&meta.secret, Some(input))),
    );
    let plan = plan(&connection, names, settings.reuse).map_err(unreadable)?;
    let limit = { found.id }.map(|id| limits::known(&connection, id, SystemTime::now()));
    let limit = limit.transpose().map_err(unreadable)?.flatten();
    let scope = plan.scope(settings.reuse, &settings.read, SystemTime::now());
    let lookup = inspecting(connection, ledger, scope).map_err(unreadable)?;
    Ok(Some(LedgerPreview::of(&plan, found, lookup, limit)))
}

fn accounts(connection: &Connection) -> rusqlite::Result<Vec<StoredAccount>> {
    connection
        .prepare("SELECT id, hash, address, answers FROM accounts")?
        .query_map([], |row| {
            Ok(StoredAccount {
                id: row.get(0)?,
                hash: row.get(1)?,
                address: row.get(2)?,
                answers: row.get::<_, i64>(3)?.cast_unsigned(),
            })
        })?
        .collect()
}

/// Whether a ledger is damaged, however large it is: all of it is read.
pub(in crate::ledger) fn is_damaged(path: &Path) -> bool {
    let check = || {
        let connection = connect::open(
            Some(&file::check(path).map_err(|_| errors::damaged())?),
            Mode::Read,
        )?;
        Meta::read(&connection)?;
        schema::check_pages(&connection)
    };
    check().is_err_and(|error| is_damage(&error))
}
