//! Making a ledger on a server, and opening it: for a run, or to see what a run would find.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use postgres::types::Type;

use super::server::{NOW, Server, ServerFault, count, hash, hex, or_null};
use super::store::{PostgresLookup, PostgresStore, ServerView, limits, on_another_host};
use crate::base::directory::directory_of;
use crate::base::error::{Error, Result};
use crate::base::file_id::FileId;
use crate::ledger::account::{FoundAccount, StoredAccount};
use crate::ledger::clock::time;
use crate::ledger::facts::{LedgerFacts, LedgerPreview, OpenedStore, PreviewSettings};
use crate::ledger::holder::host;
use crate::ledger::key::{PathHash, RequestHasher, hash_of_path, random_secret};
use crate::ledger::known_limit::LimitRecorder;
use crate::ledger::lease::LeaseTerms;
use crate::ledger::outputs;
use crate::ledger::run::{RunPlan, StoredRun};
use crate::ledger::server_url::ServerUrl;
use crate::ledger::settings::{LedgerSettings, Reuse, ServerWait};

/// The schema's version. A ledger of another version is refused and never guessed at.
const VERSION: i32 = 3;

/// What each column is, the tables of a ledger in a file say. `place` is where the run's files are: paths do not say on which
/// host.
const SCHEMA: &str = "
    CREATE TABLE meta (version INTEGER NOT NULL, secret BYTEA NOT NULL, created BIGINT NOT NULL);
    CREATE TABLE accounts (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        hash BYTEA NOT NULL UNIQUE, address TEXT NOT NULL, answers BIGINT NOT NULL);
    CREATE TABLE answers (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        fp BIGINT NOT NULL, account BIGINT NOT NULL, at BIGINT NOT NULL, sealed BYTEA NOT NULL);
    CREATE INDEX answers_fp ON answers (fp);
    -- What is encrypted cannot be compressed.
    ALTER TABLE answers ALTER COLUMN sealed SET STORAGE EXTERNAL;
    CREATE TABLE runs (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name BYTEA NOT NULL UNIQUE, input BYTEA, reuse TEXT NOT NULL, not_before BIGINT NOT NULL,
        failures_from BIGINT NOT NULL, started BIGINT NOT NULL, failed BIGINT, calls BIGINT NOT NULL,
        in_flight BIGINT NOT NULL, start BIGINT NOT NULL, until BIGINT NOT NULL, place BYTEA NOT NULL);
    -- The last column: whether a run that was gone had it before.
    CREATE TABLE claims (fp BIGINT PRIMARY KEY, run BIGINT NOT NULL, start BIGINT NOT NULL, taken_over BOOLEAN NOT NULL);
    CREATE TABLE limits (account BIGINT PRIMARY KEY,
        rate FLOAT8, rate_times BIGINT, in_flight FLOAT8, in_flight_times BIGINT, at BIGINT NOT NULL);
    CREATE TABLE outputs (path BYTEA, size BIGINT, modified BIGINT, input BYTEA,
        PRIMARY KEY (path, size, modified, input));";

/// What a ledger says about itself, and the server's time.
pub(super) struct ServerMeta {
    pub(super) version: i32,
    pub(super) secret: [u8; 32],
    pub(super) created: i64,
    pub(super) now: SystemTime,
}

impl ServerMeta {
    /// # Errors
    /// Exit code 2: there is no ledger, or one of another version. Exit code 3: the server cannot be reached.
    pub(super) fn read(server: &mut Server) -> Result<Self> {
        let query = format!("SELECT version, secret, created, {NOW} FROM meta");
        let read = server.read(&query, |row| {
            Ok(Self {
                version: row.try_get(0)?,
                secret: hash(row, 1)?,
                created: row.try_get(2)?,
                now: time(row.try_get(3)?),
            })
        });
        let meta = read.and_then(|mut rows| rows.pop().ok_or(ServerFault::NoLedger));
        let meta = meta.map_err(|fault| fault.error("open", &server.url))?;
        if meta.version == VERSION {
            return Ok(meta);
        }
        let error = Error::usage(format!(
            "`{}` is a ledger of version {}, and this program knows version {VERSION}",
            server.url, meta.version
        ));
        Err(error.hint("use the rescore that made it, or another schema or database"))
    }
}

/// Makes the tables of a ledger where there are none; whether there were none.
///
/// # Errors
/// Exit code 2: they cannot be made, or are of another version. Exit code 3: the server cannot be reached.
pub(in crate::ledger) fn init(url: &ServerUrl) -> Result<bool> {
    let mut server = Server::for_command(url)?;
    let add = format!(
        "INSERT INTO meta VALUES ({VERSION}, {}, {NOW})",
        hex(&random_secret())
    );
    let made = server.run(|client| {
        let mut transaction = client.transaction()?;
        // Another one may be making them.
        transaction
            .batch_execute("SELECT pg_advisory_xact_lock(hashtext('rescore ledger init'))")?;
        let has_tables = "SELECT to_regclass('meta') IS NOT NULL";
        if transaction.query_typed_one(has_tables, &[])?.try_get(0)? {
            return Ok(false);
        }
        transaction.batch_execute(SCHEMA)?;
        // Alone, as some servers log statements that make tables.
        transaction.batch_execute(&add)?;
        transaction.commit()?;
        Ok(true)
    });
    let made = made.map_err(|fault| fault.error("make", url))?;
    ServerMeta::read(&mut server)?;
    Ok(made)
}

/// Opens a ledger for a run.
///
/// # Errors
/// Exit code 2: there is no ledger, or one of another version. Exit code 3: the server cannot be reached. Exit code 75: another
/// host has a run to the same path.
pub(in crate::ledger) fn open(settings: &LedgerSettings, url: &ServerUrl) -> Result<OpenedStore> {
    // Before the run has started, nothing is lost by stopping.
    let mut server = Server::for_run(url, ServerWait::default())?;
    let meta = ServerMeta::read(&mut server)?;
    let hasher = RequestHasher::new(&meta.secret, &settings.endpoint, &settings.service_id);
    let hash = |path| outputs::hash(&meta.secret, Some(path));
    let names = (
        settings.output.as_deref().map(hash),
        settings.input.as_deref().map(hash),
    );
    let unreadable = |fault: ServerFault| fault.error("open", url);
    let place = place(settings, &meta.secret);
    let elsewhere = format!(
        "SELECT FROM runs WHERE name = {} AND place <> {} AND until >= {NOW}",
        or_null(names.0.as_ref().map(hex)),
        hex(&place)
    );
    let elsewhere = server.read(&elsewhere, |_| Ok(())).map_err(unreadable)?;
    if !elsewhere.is_empty() {
        return Err(on_another_host());
    }
    let account = make_account(&mut server, &hasher, &settings.endpoint).map_err(unreadable)?;
    let plan = plan(&mut server, names, settings.reuse, meta.now).map_err(unreadable)?;
    let mut facts = facts(&mut server, account, &plan, meta.now).map_err(unreadable)?;
    facts.of_run(&plan);
    let store = PostgresStore {
        server,
        wait: settings.wait.clone(),
        secret: meta.secret,
        place,
        view: ServerView {
            scope: plan.scope(settings.reuse, &settings.read, meta.now),
            own: Arc::default(),
        },
        account,
        in_flight: settings.in_flight.get(),
        lease: LeaseTerms::for_calls_of(settings.longest_call).until(0),
        us: (0, 0),
        ahead: 0,
        limits: LimitRecorder::default(),
        plan: plan.clone(),
    };
    Ok(OpenedStore {
        store: Box::new(store),
        hasher,
        earliest: plan.not_before.max(plan.failures_from),
        facts,
    })
}

/// A hash of the host and of the identity of the output's directory: within one of these, the lock of an output sees to it that
/// no two runs write it.
fn place(settings: &LedgerSettings, secret: &[u8; 32]) -> PathHash {
    let directory = settings.output.as_deref().map(directory_of);
    let place = (host(), directory.and_then(FileId::at));
    hash_of_path(secret, Path::new(&format!("/{place:?}")))
}

/// The row of an account, which is made where there is none.
fn make_account(
    server: &mut Server,
    hasher: &RequestHasher,
    address: &str,
) -> Result<i64, ServerFault> {
    let hash = hex(hasher.account());
    let make = format!(
        "WITH new AS (INSERT INTO accounts (hash, address, answers) VALUES ({hash}, $1, 0)
            ON CONFLICT DO NOTHING RETURNING id)
        SELECT id FROM new UNION ALL SELECT id FROM accounts WHERE hash = {hash}"
    );
    server.write("", |client| {
        Ok(client
            .query_typed_one(&make, &[(&address, Type::TEXT)])?
            .try_get(0)?)
    })
}

pub(super) fn accounts(server: &mut Server) -> Result<Vec<StoredAccount>, ServerFault> {
    server.read("SELECT id, hash, address, answers FROM accounts", |row| {
        Ok(StoredAccount {
            id: row.try_get(0)?,
            hash: hash(row, 1)?,
            address: row.try_get(2)?,
            answers: count(row, 3)?,
        })
    })
}

/// The plan of a run that starts now.
fn plan(
    server: &mut Server,
    names: (Option<PathHash>, Option<PathHash>),
    reuse: Reuse,
    mut now: SystemTime,
) -> Result<RunPlan, ServerFault> {
    if matches!(reuse, Reuse::Nothing | Reuse::Retry) {
        // Also answers are asked for again that a clock which was ahead has dated later.
        let last = "SELECT at FROM answers ORDER BY seq DESC LIMIT 1";
        let last: Vec<i64> = server.read(last, |row| Ok(row.try_get(0)?))?;
        now = now.max(time(last.first().map_or(0, |at| at.saturating_add(1))));
    }
    let query = format!(
        "SELECT id, input, reuse, not_before, failures_from, started, failed, calls, in_flight,
        (SELECT count(*) FROM claims WHERE run = runs.id),
        (SELECT count(*) FROM claims WHERE run = runs.id AND start = -1)
        FROM runs WHERE name = {}",
        or_null(names.0.as_ref().map(hex))
    );
    let found = server.read(&query, |row| {
        let input: Option<&[u8]> = row.try_get(1)?;
        let failed: Option<i64> = row.try_get(6)?;
        Ok(StoredRun {
            id: row.try_get(0)?,
            input: input.map(|_| hash(row, 1)).transpose()?,
            reuse: row.try_get(2)?,
            not_before: row.try_get(3)?,
            failures_from: row.try_get(4)?,
            started: row.try_get(5)?,
            ended: failed.map(i64::cast_unsigned),
            calls: count(row, 7)?,
            in_flight: count(row, 8)?,
            left_claims: count(row, 9)?,
            abandoned_claims: count(row, 10)?,
        })
    })?;
    Ok(RunPlan::new(names, reuse, found.first(), now))
}

/// What a run learns of a ledger that has answers.
fn facts(
    server: &mut Server,
    account: i64,
    plan: &RunPlan,
    now: SystemTime,
) -> Result<LedgerFacts, ServerFault> {
    // Answers are in the order in which they arrived, so that the first one that is recent enough is found by halves. What
    // follows are as many as there are places behind it, or some fewer where places are empty.
    let recent = format!(
        "WITH RECURSIVE half (first, behind) AS (
            SELECT 0::bigint, coalesce(max(seq), 0) + 1 FROM answers
            UNION ALL SELECT CASE WHEN at < {0} THEN middle + 1 ELSE first END, CASE WHEN at < {0} THEN behind ELSE middle END
            FROM (SELECT *, (first + behind) / 2 AS middle FROM half WHERE first < behind) AS halves,
                LATERAL (SELECT at FROM answers WHERE seq >= middle ORDER BY seq LIMIT 1) AS found
        ) SELECT coalesce(max(seq), 0) + 1 - (SELECT max(first) FROM half) FROM answers",
        plan.not_before
    );
    let recent = server.read(&recent, |row| count(row, 0))?;
    let recent = recent.first().filter(|_| plan.not_before > i64::MIN);
    let limit = limits(server)?.remove(&account);
    Ok(LedgerFacts {
        known_limit: limit.filter(|limit| limit.is_recent(now)),
        ..LedgerFacts::of_accounts(accounts(server)?, account, *recent.unwrap_or(&u64::MAX))
    })
}

/// Opens a ledger to see what a run would find, whatever path the settings have.
///
/// # Errors
/// As [`open`]; and exit code 2 if it has answers of several accounts and none was named.
pub(in crate::ledger) fn preview(
    settings: &PreviewSettings<'_>,
    url: &ServerUrl,
) -> Result<LedgerPreview> {
    let mut server = Server::for_run(url, ServerWait::default())?;
    let meta = ServerMeta::read(&mut server)?;
    let unreadable = |fault: ServerFault| fault.error("read", url);
    let accounts = accounts(&mut server).map_err(unreadable)?;
    let found = FoundAccount::of(settings.account, accounts, &meta.secret, &url.to_string())?;
    let hash = |path| outputs::hash(&meta.secret, Some(path));
    let names = (settings.output.map(hash), settings.input.map(hash));
    let plan = plan(&mut server, names, settings.reuse, meta.now).map_err(unreadable)?;
    let mut limits = limits(&mut server).map_err(unreadable)?;
    let limit = found.id.and_then(|id| limits.remove(&id));
    let view = ServerView {
        scope: plan.scope(settings.reuse, &settings.read, meta.now),
        own: Arc::default(),
    };
    let limit = limit.filter(|limit| limit.is_recent(meta.now));
    let lookup = Box::new(PostgresLookup { server, view });
    Ok(LedgerPreview::of(&plan, found, lookup, limit))
}
