//! Opening a ledger's file: for a run, or to see what a run would find.

use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::connect::{self, Mode, writing};
use super::errors::{self, is_damage};
use super::find::SharedIndex;
use super::schema::{self, Meta};
use super::store::{SqliteStore, StoreParts, inspecting};
use super::{limits, runs};
use crate::base::error::{Error, Result, shown};
use crate::ledger2::clock::{millis, time};
use crate::ledger2::facts::{LedgerFacts, PreviewedRun};
use crate::ledger2::file;
use crate::ledger2::key::RequestHasher;
use crate::ledger2::lease::LeaseTerms;
use crate::ledger2::open::{LedgerPreview, OpenedStore, PreviewSettings};
use crate::ledger2::outcome::{ReadAnswer, Scope};
use crate::ledger2::outputs::hash;
use crate::ledger2::run::RunPlan;
use crate::ledger2::settings::{LedgerSettings, Reuse};

/// Answers older than this are said to be old, unless a setting says how old they may be.
const AGED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Opens a ledger for a run, at this real path, or one that is gone with the run.
pub(in crate::ledger2) fn open(
    settings: &LedgerSettings,
    path: Option<&Path>,
) -> Result<OpenedStore> {
    if let Some(path) = path {
        schema::check_head(path)?;
    }
    let shown = path.unwrap_or(Path::new("answers"));
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
        output.map(|output| hasher.run(output)),
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
        scope: scope(&plan, settings.reuse, &settings.read),
        account,
        in_flight: settings.in_flight,
        lease: LeaseTerms::for_calls_of(settings.longest_call),
        plan: plan.clone(),
    };
    Ok(OpenedStore {
        store: Box::new(SqliteStore::new(connection, parts)?),
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

fn scope(plan: &RunPlan, reuse: Reuse, read: &ReadAnswer) -> Scope {
    let aged = SystemTime::now().checked_sub(AGED).map_or(i64::MIN, millis);
    Scope {
        not_before: plan.not_before,
        failures_from: plan.failures_from,
        started: plan.started,
        aged_before: if matches!(reuse, Reuse::Recent(_)) {
            i64::MIN
        } else {
            aged
        },
        read: ReadAnswer::clone(read),
    }
}

/// What a run learns of a ledger that has answers.
fn facts(connection: &Connection, account: i64, plan: &RunPlan) -> rusqlite::Result<LedgerFacts> {
    let mut query = connection.prepare("SELECT id, address, answers FROM accounts")?;
    let accounts: Vec<(i64, String, u64)> = query
        .query_map([], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get::<_, i64>(2)?.cast_unsigned(),
            ))
        })?
        .collect::<Result<_, _>>()?;
    let ours = accounts
        .iter()
        .find(|(id, ..)| *id == account)
        .map_or(0, |(_, _, answers)| *answers);
    let recent = recent(connection, plan.not_before)?;
    let others = accounts
        .into_iter()
        .filter(|(.., answers)| ours == 0 && *answers > 0);
    Ok(LedgerFacts {
        usable: ours.min(recent),
        too_old: ours.saturating_sub(recent),
        known_limit: limits::known(connection, account, SystemTime::now())?,
        other_accounts: others.map(|(_, address, _)| address).collect(),
        ..LedgerFacts::default()
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
pub(in crate::ledger2) fn preview(settings: &PreviewSettings<'_>) -> Result<Option<LedgerPreview>> {
    let path = file::check(settings.ledger)?;
    if !schema::check_head(&path)? {
        return Ok(None);
    }
    let unreadable = |error| errors::cannot_open(settings.ledger, &error);
    let connection = connect::open(Some(&path), Mode::Inspect).map_err(unreadable)?;
    schema::check_soundness(&connection, &path).map_err(unreadable)?;
    let meta = Meta::read(&connection).map_err(unreadable)?;
    let found = FoundAccount::of(settings, &connection, &meta)?;
    let names = (
        settings.output.map(|output| found.hasher.run(output)),
        settings.input.map(|input| hash(&meta.secret, Some(input))),
    );
    let plan = plan(&connection, names, settings.reuse).map_err(unreadable)?;
    let known_limit = { found.id }.map(|id| limits::known(&connection, id, SystemTime::now()));
    Ok(Some(LedgerPreview {
        known_limit: known_limit.transpose().map_err(unreadable)?.flatten(),
        lookup: inspecting(
            connection,
            &path,
            scope(&plan, settings.reuse, &settings.read),
        )
        .map_err(unreadable)?,
        hasher: found.hasher,
        endpoint: found.endpoint,
        run: if plan.continues {
            PreviewedRun::Continued
        } else {
            PreviewedRun::New
        },
        others: found.others,
    }))
}

/// The account that is looked for.
struct FoundAccount {
    hasher: RequestHasher,
    /// `None` if the ledger has nothing of it.
    id: Option<i64>,
    endpoint: Option<String>,
    others: Vec<String>,
}

impl FoundAccount {
    fn of(settings: &PreviewSettings<'_>, connection: &Connection, meta: &Meta) -> Result<Self> {
        let mut accounts =
            answered_accounts(connection).map_err(|e| errors::cannot_open(settings.ledger, &e))?;
        let Some(account) = settings.account else {
            if accounts.len() > 1 {
                let addresses = accounts.iter().map(|(_, _, address)| address.as_str());
                return Err(several_accounts(settings.ledger, addresses));
            }
            return Ok(match accounts.pop() {
                Some((id, hash, address)) => Self {
                    hasher: RequestHasher::of_account(hash),
                    id: Some(id),
                    endpoint: Some(address),
                    others: Vec::new(),
                },
                None => Self {
                    hasher: RequestHasher::of_pass(),
                    id: None,
                    endpoint: None,
                    others: Vec::new(),
                },
            });
        };
        let hasher = RequestHasher::new(&meta.secret, account.endpoint, account.service_id);
        let ours = accounts
            .iter()
            .find(|(_, hash, _)| hash == hasher.account());
        let id = ours.map(|(id, ..)| *id);
        let others = if id.is_some() { Vec::new() } else { accounts };
        Ok(Self {
            hasher,
            id,
            endpoint: id.map(|_| account.endpoint.to_owned()),
            others: others.into_iter().map(|(_, _, address)| address).collect(),
        })
    }
}

/// The accounts that have answers: row, hash and address.
fn answered_accounts(connection: &Connection) -> rusqlite::Result<Vec<(i64, [u8; 32], String)>> {
    connection
        .prepare("SELECT id, hash, address FROM accounts WHERE answers > 0")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect()
}

/// The error for a ledger with the answers of several accounts, of which none was named.
fn several_accounts<'a>(ledger: &Path, addresses: impl Iterator<Item = &'a str>) -> Error {
    let error = Error::usage(format!(
        "`{}` has answers of several services or service ids, and none was named",
        shown(ledger)
    ));
    let mut addresses: Vec<_> = addresses.collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
        .into_iter()
        .fold(error, |error, address| error.detail(address.to_owned()))
        .hint("name one as in `run`, with `--base-url URL` and `--service-id ID`")
}

/// Whether a ledger is damaged, however large it is: all of it is read.
pub(in crate::ledger2) fn is_damaged(path: &Path) -> bool {
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
