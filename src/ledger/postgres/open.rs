//! Making a ledger on a server, and opening it: for a run, or to see what a run would find.

use std::path::Path;
use std::sync::Arc;

use super::server::{Server, ServerFault};
use super::store::{PostgresLookup, PostgresStore, ServerView, on_another_host};
use crate::base::directory::directory_of;
use crate::base::error::Result;
use crate::base::file_id::FileId;
use crate::ledger::database::{Database as _, VERSION, hex, of_another_version, tables};
use crate::ledger::key::{hash_of_path, random_secret};
use crate::ledger::known_limit::LimitRecorder;
use crate::ledger::lock::host;
use crate::ledger::opening::Opening;
use crate::ledger::server_url::ServerUrl;
use crate::ledger::settings::{LedgerSettings, ServerWait};
use crate::ledger::store::{Lookup, Store};

/// The tables that are others than in a file.
const SCHEMA: &str = "
    CREATE TABLE meta (version INTEGER NOT NULL, secret TEXT NOT NULL, created BIGINT NOT NULL);
    CREATE TABLE answers (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        fp BIGINT NOT NULL, account BIGINT NOT NULL, at BIGINT NOT NULL, sealed BYTEA NOT NULL);
    CREATE INDEX answers_fp ON answers (fp);
    -- What is encrypted cannot be compressed.
    ALTER TABLE answers ALTER COLUMN sealed SET STORAGE EXTERNAL;
    -- The last column: whether a run that was gone had it before.
    CREATE TABLE claims (fp BIGINT PRIMARY KEY, run BIGINT NOT NULL, start BIGINT NOT NULL, taken_over BOOLEAN NOT NULL);";

/// What a ledger says about itself.
pub(super) struct ServerMeta {
    version: i32,
    pub(super) secret: [u8; 32],
    pub(super) created: i64,
}

impl ServerMeta {
    /// # Errors
    /// Exit code 2: there is no ledger, or one of another version. Exit code 3: the server cannot be reached.
    pub(super) fn read(server: &mut Server) -> Result<Self> {
        let mut read = || {
            let rows = server.read("SELECT version, secret, created FROM meta")?;
            let row = rows.first().ok_or(ServerFault::NoLedger)?;
            Ok(Self {
                version: row.get(0)?,
                secret: row.hash(1)?,
                created: row.get(2)?,
            })
        };
        let meta = read().map_err(|fault: ServerFault| fault.error("open", &server.url))?;
        if meta.version == VERSION {
            return Ok(meta);
        }
        Err(of_another_version(&server.url, meta.version)
            .hint("use the rescore that made it, or another schema or database"))
    }
}

/// Makes the tables of a ledger where there are none; whether there were none.
///
/// # Errors
/// Exit code 2: they cannot be made, or are of another version. Exit code 3: the server cannot be reached.
pub(in crate::ledger) fn init(url: &ServerUrl) -> Result<bool> {
    let mut server = Server::for_command(url)?;
    let id = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
    let tables = tables(id, "BIGINT", "") + SCHEMA;
    let add = format!(
        "INSERT INTO meta VALUES ({VERSION}, '{}', {})",
        hex(&random_secret()),
        Server::NOW
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
        transaction.batch_execute(&tables)?;
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
pub(in crate::ledger) fn open(
    settings: &LedgerSettings,
    url: &ServerUrl,
) -> Result<(Box<dyn Store>, Opening)> {
    // Before the run has started, nothing is lost by stopping.
    let mut server = Server::for_run(url, ServerWait::default())?;
    let secret = ServerMeta::read(&mut server)?.secret;
    let unreadable = |fault: ServerFault| fault.error("open", url);
    let place = place(settings, &secret);
    let opening = Opening::of_run(&mut server, &secret, settings, place, unreadable)?;
    if opening.facts.run.is_elsewhere {
        return Err(on_another_host());
    }
    let store = PostgresStore {
        server,
        wait: settings.wait.clone(),
        secret,
        view: ServerView {
            scope: opening.scope.clone(),
            own: Arc::default(),
        },
        account: opening.account,
        us: (0, 0),
        ahead: 0,
        limits: LimitRecorder::default(),
        plan: opening.facts.run.clone(),
    };
    Ok((Box::new(store), opening))
}

/// A hash of the host and of the identity of the output's directory: within one of these, the lock of an output sees to it that
/// no two runs write it.
fn place(settings: &LedgerSettings, secret: &[u8; 32]) -> String {
    let directory = settings.output.as_deref().map(directory_of);
    let place = (host(), directory.and_then(FileId::at));
    hex(&hash_of_path(secret, Path::new(&format!("/{place:?}"))))
}

/// Opens a ledger to see what a run would find.
///
/// # Errors
/// As [`open`]; and exit code 2 if it has answers of several accounts and none was named.
pub(in crate::ledger) fn preview(
    settings: &LedgerSettings,
    url: &ServerUrl,
) -> Result<(Box<dyn Lookup>, Opening)> {
    let mut server = Server::for_run(url, ServerWait::default())?;
    let secret = ServerMeta::read(&mut server)?.secret;
    let unreadable = |fault: ServerFault| fault.error("read", url);
    let place = place(settings, &secret);
    let opening = Opening::read(&mut server, &secret, settings, place, unreadable)?;
    let view = ServerView {
        scope: opening.scope.clone(),
        own: Arc::default(),
    };
    Ok((Box::new(PostgresLookup { server, view }), opening))
}
