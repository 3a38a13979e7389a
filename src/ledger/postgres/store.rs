//! A ledger on a server: making it, opening it, what a run writes there, and look-ups.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postgres::types::Type;
use postgres::{Client, Row};

use super::server::{Server, rows};
use crate::base::error::Result as RunResult;
use crate::ledger::database::Purpose;
use crate::ledger::database::{
    ClaimResult, Database, Dialect, Lookup, Meta, Query, TableRow, WriteGroup, tables,
};
use crate::ledger::fault::{DbFault, DbFaultKind};
use crate::ledger::index::OwnAnswers;
use crate::ledger::key::RequestKey;
use crate::ledger::outcome::{AnsweredIn, LookupResult, Scope, Stored};
use crate::ledger::server_url::ServerUrl;
use crate::ledger::settings::ServerWait;

/// How long a server is waited for when all answers are durable.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// The table that is another one than in a file. What is encrypted cannot be compressed.
const SCHEMA: &str = "
    CREATE TABLE answers (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        fp BIGINT NOT NULL, account BIGINT NOT NULL, at BIGINT NOT NULL, sealed BYTEA NOT NULL);
    CREATE INDEX answers_fp ON answers (fp);
    ALTER TABLE answers ALTER COLUMN sealed SET STORAGE EXTERNAL;";

const DIALECT: Dialect = Dialect {
    now: "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
    random: "(random() * 9000000000000000)::bigint",
    bytes: "SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest(
        ARRAY['meta', 'accounts', 'answers', 'runs', 'claims', 'outputs']) AS name",
    after_removal: "",
};

/// A ledger on a server.
struct PostgresLedger {
    server: Server,
    /// How the server is waited for once the run has started, and by look-ups.
    wait: ServerWait,
    own: Arc<Mutex<OwnAnswers>>,
}

/// Makes the tables of a ledger where there are none; whether there were none.
///
/// # Errors
/// Exit code 2: they cannot be made, or are of another version. Exit code 3: the server cannot be reached.
pub(in crate::ledger) fn init(url: &ServerUrl) -> RunResult<bool> {
    let mut server = Server::new(url, false, ServerWait::default())?;
    let id = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
    let tables = tables(id, "BIGINT", "") + SCHEMA;
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
        transaction.batch_execute(&Meta::insert(&DIALECT))?;
        transaction.commit()?;
        Ok(true)
    });
    let shown = url.to_string();
    let made = made.map_err(|fault| fault.error("make", Path::new(&shown)))?;
    let meta = Meta::read(&mut PostgresLedger::new(server, ServerWait::default()));
    meta.map_err(|fault| fault.error("open", Path::new(&shown)))?;
    Ok(made)
}

/// Opens a ledger. It is connected to when something is read.
pub(in crate::ledger) fn open(
    url: &ServerUrl,
    purpose: Purpose<'_>,
) -> RunResult<Box<dyn Database>> {
    let nothing = ServerWait::default;
    let (is_run, wait, once_started) = match purpose {
        // Before the run has started, nothing is lost by stopping.
        Purpose::Run(settings) => (true, nothing(), settings.wait.clone()),
        Purpose::Again(wait) => (true, wait.clone(), wait.clone()),
        _ => (false, nothing(), nothing()),
    };
    let server = Server::new(url, is_run, wait)?;
    Ok(Box::new(PostgresLedger::new(server, once_started)))
}

impl PostgresLedger {
    fn new(server: Server, wait: ServerWait) -> Self {
        let own = Arc::default();
        Self { server, wait, own }
    }
}

impl Database for PostgresLedger {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    fn read(&mut self, queries: &str) -> Result<Vec<TableRow>, DbFault> {
        self.server.run(|client| rows(client, queries))
    }

    fn transaction(
        &mut self,
        _: bool,
        work: &mut dyn FnMut(&mut Query<'_>) -> Result<(), DbFault>,
    ) -> Result<(), DbFault> {
        self.server.transaction("", |client| {
            work(&mut |statements| rows(client, statements))
        })
    }

    fn store(&mut self, group: &WriteGroup<'_>) -> Result<Vec<ClaimResult>, DbFault> {
        let records = &group.records;
        let fingerprints: Vec<_> = records.iter().map(|record| record.fingerprint).collect();
        let times: Vec<_> = records.iter().map(|record| record.at).collect();
        let sealed: Vec<_> = records.iter().map(|record| &record.sealed[..]).collect();
        let append = format!(
            "INSERT INTO answers (fp, account, at, sealed) SELECT fp, {}, at, sealed
            FROM unnest($1, $2, $3) AS new (fp, at, sealed) RETURNING seq",
            group.account
        );
        let own = &self.own;
        let stored = self.server.transaction(&group.statements, |client| {
            let values = [
                (&fingerprints as _, Type::INT8_ARRAY),
                (&times as _, Type::INT8_ARRAY),
                (&sealed as _, Type::BYTEA_ARRAY),
            ];
            let rows_of = client.query_typed(&append, &values)?;
            let places = rows_of.iter().map(|row| row.try_get(0));
            let places = places.collect::<Result<Vec<i64>, _>>()?;
            let found = find(client, own, group.scope, group.claims)?;
            let mut query = |statements: &str| rows(client, statements);
            Ok((places, group.claim(found, &DIALECT, &mut query)?))
        });
        let (places, results) = stored.map_err(|fault| match records.len() {
            0 => fault,
            lost => fault.with_words(|words| {
                format!("{words}; paid answers that could not be stored: {lost}")
            }),
        })?;
        if let (Some(first), Some(last)) = (places.iter().min(), places.iter().max()) {
            // Nobody else can have written in between.
            let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
            own.add(*first, *last);
        }
        Ok(results)
    }

    fn lookup(&self, scope: Scope) -> Result<Box<dyn Lookup>, DbFault> {
        Ok(Box::new(PostgresLookup {
            server: self.server.again(self.wait.clone()),
            own: Arc::clone(&self.own),
            scope,
        }))
    }

    fn rewrite(&mut self) -> Result<(), DbFault> {
        let file = "SELECT pg_relation_filenode('answers')::bigint";
        self.server.run(|client| {
            let before: i64 = client.query_typed_one(file, &[])?.try_get(0)?;
            client.batch_execute("VACUUM (FULL, ANALYZE) answers")?;
            // For others than the owner, it only warns.
            if client.query_typed_one(file, &[])?.try_get::<_, i64>(0)? == before {
                let why = "what it had to remove is removed, but only the owner of its tables can rewrite them";
                return Err(DbFault::new(DbFaultKind::Refused, why));
            }
            Ok(())
        })
    }

    fn run_starts(&mut self) {
        self.server.wait = self.wait.clone();
    }

    fn is_full(&self) -> bool {
        false
    }

    fn answers_end(&mut self) {
        self.server.wait.longest = LAST_WAIT.min(self.server.wait.longest);
    }
}

/// What is known of each of these requests, in their order.
fn find(
    client: &mut Client,
    own: &Mutex<OwnAnswers>,
    scope: &Scope,
    keys: &[RequestKey],
) -> Result<Vec<LookupResult>, DbFault> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let fingerprints: Vec<_> = keys.iter().map(RequestKey::fingerprint).collect();
    let query = "SELECT fp, seq, at, sealed FROM answers WHERE fp = ANY($1) ORDER BY fp, seq DESC";
    let rows = client.query_typed(query, &[(&fingerprints, Type::INT8_ARRAY)])?;
    let stored = |row: &Row| {
        let (seq, at, sealed) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
        Ok((row.try_get(0)?, Stored { seq, at, sealed }))
    };
    let rows: Vec<(i64, Stored)> = { rows.iter().map(stored) }.collect::<Result<_, DbFault>>()?;
    let own = own.lock().unwrap_or_else(PoisonError::into_inner);
    let judge = |key: &RequestKey| {
        let first = rows.partition_point(|(fingerprint, _)| *fingerprint < key.fingerprint());
        let mut of_key = { rows.iter().skip(first) }
            .take_while(|(fingerprint, _)| *fingerprint == key.fingerprint())
            .map(|(_, stored)| (stored.clone(), AnsweredIn::of(own.contains(stored.seq))));
        scope.judge(key, || Ok(of_key.next()))
    };
    keys.iter().map(judge).collect()
}

/// Look-ups on a connection of their own.
struct PostgresLookup {
    server: Server,
    own: Arc<Mutex<OwnAnswers>>,
    scope: Scope,
}

impl Lookup for PostgresLookup {
    fn look_up(&mut self, keys: &[RequestKey]) -> RunResult<Vec<LookupResult>> {
        let found = self
            .server
            .run(|client| find(client, &self.own, &self.scope, keys));
        found.map_err(|fault| fault.error("read", Path::new(&self.server.url.to_string())))
    }
}
