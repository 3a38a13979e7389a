//! Ledgers on a PostgreSQL server: the same tables as in a file, in the schema that the URL's `search_path` names, else in the
//! user's default one.
//!
//! - **One writer at a time.** Every transaction that writes first takes a lock on `meta`, as writers of a file do. So runs on
//!   many machines cannot deadlock, and whether a lease has ended is decided in one order. It is held for some round trips and
//!   one sync; while a run waits for it, its next group gathers.
//! - **One clock.** Ages and leases go by the server's clock.
//! - **An index of the server's** in place of the one in memory: one query finds the answers to all requests of a batch.
//! - **The secret is in `meta`**, as in a file: who may read the database and has a person's request can read that person's
//!   answer.
//!
//! A server that is away (it restarts, has no connection left, became a read-only copy, or its machine or network is dead, which
//! keepalives notice within 15 seconds, or another program holds the tables) is waited for, as long as [`ServerWait`] says. A
//! server process that is suspended on a machine that lives is noticed while connecting, but not later: then the run waits
//! for it.
//!
//! The client blocks, and must not be used on a thread that drives an asynchronous runtime.
//!
//! Statements have our numbers and hashes in them; what other people wrote, and what is large, is sent beside them.

use std::path::Path;
use std::time::Duration;

use postgres::types::Type;
use postgres::{Client, Column, Row};
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};

use super::answers::{LookupResult, Scope, Stored};
use super::database::{Database, Dialect, Purpose, TableRow, Work, insert_meta, read_meta, tables};
use super::fault::{DbFault, DbFaultKind};
use super::key::RequestKey;
use super::postgres_server::{connect, insist};
use super::server_url::ServerUrl;
use super::settings::ServerWait;
use crate::base::error::Result as RunResult;

/// Starts a transaction that writes, alone. What is acknowledged is durable, whatever the server's default is: also claims, as
/// those who have them outlive the server. A program that is suspended within it holds the others up for this long.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL synchronous_commit = on;
    SET LOCAL idle_in_transaction_session_timeout = '10s';
    LOCK TABLE meta IN EXCLUSIVE MODE";

/// The pace that the runs of an account share, which only a server has.
const PACE: &str = include_str!("pace.sql");

/// The table that is another one than in a file. What is encrypted cannot be compressed.
const SCHEMA: &str = "
    CREATE TABLE answers (seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        fp BIGINT NOT NULL, account BIGINT NOT NULL, at BIGINT NOT NULL, price BIGINT NOT NULL,
        sealed BYTEA NOT NULL);
    CREATE INDEX answers_fp ON answers (fp);
    ALTER TABLE answers ALTER COLUMN sealed SET STORAGE EXTERNAL;";

const DIALECT: Dialect = Dialect {
    now: "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
    bytes: "SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest(
        ARRAY['meta', 'accounts', 'spending', 'answers', 'runs', 'claims', 'outputs', 'pace']) AS name",
    after_removal: &[],
    missing_grant: "SELECT format('GRANT %I TO %I', pg_get_userbyid(relowner), current_user) FROM pg_class
        WHERE oid = 'answers'::regclass AND NOT pg_has_role(relowner, 'USAGE')",
    after_copy: &[],
    snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
};

/// A ledger on a server, with one connection, which is made when it is needed.
struct PostgresLedger {
    url: ServerUrl,
    /// How the server is waited for once the run has started, and by look-ups.
    wait: ServerWait,
    /// How long it is waited for now.
    longest: Duration,
    client: Option<Client>,
    /// A connection that breaks now is not replaced: what came before in the transaction is gone with it.
    is_in_transaction: bool,
}

/// Makes the tables of a ledger where there are none; whether there were none.
///
/// # Errors
/// Exit code 2: they cannot be made, or are of another version. Exit code 3: the server cannot be reached.
pub(super) fn init(url: &ServerUrl) -> RunResult<bool> {
    let mut ledger = PostgresLedger::new(url, &ServerWait::default(), Duration::ZERO);
    let id = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
    let tables = tables(id, "BIGINT", "BYTEA", "") + SCHEMA + PACE;
    let made = ledger.run(|client| {
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
        let (insert, secret) = insert_meta(&DIALECT);
        transaction.query_typed(&insert, &[(&secret, Type::TEXT)])?;
        transaction.commit()?;
        Ok(true)
    });
    let shown = url.to_string();
    let made = made.map_err(|fault| fault.error("make", Path::new(&shown)))?;
    let meta = read_meta(&mut ledger);
    meta.map_err(|fault| fault.error("open", Path::new(&shown)))?;
    Ok(made)
}

/// Opens a ledger. It is connected to when something is read.
pub(super) fn open(url: &ServerUrl, purpose: Purpose<'_>) -> Box<dyn Database> {
    let own = ServerWait::default();
    let (wait, longest) = match purpose {
        // Before a run has started, nothing is lost by stopping.
        Purpose::Run(settings) => (&settings.wait, Duration::ZERO),
        Purpose::Beside(wait) => (wait, wait.longest),
        Purpose::Look | Purpose::Admin | Purpose::Copy => (&own, Duration::ZERO),
    };
    Box::new(PostgresLedger::new(url, wait, longest))
}

impl PostgresLedger {
    fn new(url: &ServerUrl, wait: &ServerWait, longest: Duration) -> Self {
        Self {
            url: url.clone(),
            wait: wait.clone(),
            longest,
            client: None,
            is_in_transaction: false,
        }
    }

    /// Does something over the connection.
    fn run<T>(
        &mut self,
        mut work: impl FnMut(&mut Client) -> Result<T, DbFault>,
    ) -> Result<T, DbFault> {
        if self.is_in_transaction {
            return self.run_once(work);
        }
        let (longest, wait) = (self.longest, self.wait.clone());
        insist(longest, &wait, || self.run_once(&mut work))
    }

    fn run_once<T>(
        &mut self,
        work: impl FnOnce(&mut Client) -> Result<T, DbFault>,
    ) -> Result<T, DbFault> {
        let client = match self.client.take() {
            Some(client) if !client.is_closed() => client,
            _ if self.is_in_transaction => {
                return Err(DbFault::new(DbFaultKind::Away, "the connection broke"));
            }
            _ => connect(&self.url)?,
        };
        let client = self.client.insert(client);
        let done = work(client);
        if { done.as_ref() }.is_err_and(DbFault::may_pass) {
            self.client = None;
        }
        done
    }

    /// Does something in a transaction. It may have been committed although the connection broke, and then is repeated.
    fn attempt(&mut self, work: &mut Work<'_>) -> Result<(), DbFault> {
        self.run_once(|client| Ok(client.batch_execute(BEGIN)?))?;
        self.is_in_transaction = true;
        let done =
            work(self).and_then(|()| self.run_once(|client| Ok(client.batch_execute("COMMIT")?)));
        self.is_in_transaction = false;
        if let (Err(_), Some(client)) = (&done, &mut self.client) {
            // On a connection that is broken, the server does it.
            let _ = client.batch_execute("ROLLBACK");
        }
        done
    }
}

/// A value of a statement. The server takes the type of a text, and of nothing, from the statement.
fn typed(value: &dyn ToSql) -> (Box<dyn postgres::types::ToSql + Sync>, Type) {
    let value = value.to_sql();
    let value = match &value {
        Ok(ToSqlOutput::Borrowed(value)) => *value,
        Ok(ToSqlOutput::Owned(value)) => value.into(),
        _ => ValueRef::Null,
    };
    match value {
        ValueRef::Integer(number) => (Box::new(number), Type::INT8),
        ValueRef::Blob(bytes) => (Box::new(bytes.to_owned()), Type::BYTEA),
        value => (
            Box::new(value.as_str().ok().map(str::to_owned)),
            Type::UNKNOWN,
        ),
    }
}

/// A row that a statement has returned.
fn read_row(row: &Row) -> Result<TableRow, DbFault> {
    let value = |(index, column): (usize, &Column)| {
        let value: Option<Value> = match *column.type_() {
            Type::INT4 => row.try_get::<_, Option<i32>>(index)?.map(Value::from),
            Type::INT8 => row.try_get::<_, Option<i64>>(index)?.map(Value::from),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(index)?.map(Value::from),
            _ => row.try_get::<_, Option<String>>(index)?.map(Value::from),
        };
        Ok(value.unwrap_or(Value::Null))
    };
    let values = row.columns().iter().enumerate().map(value);
    Ok(TableRow(values.collect::<Result<_, DbFault>>()?))
}

impl Database for PostgresLedger {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    fn query(&mut self, statement: &str, values: &[&dyn ToSql]) -> Result<Vec<TableRow>, DbFault> {
        let values: Vec<_> = values.iter().map(|value| typed(*value)).collect();
        let values: Vec<_> = { values.iter() }
            .map(|(value, of_type)| (&**value as _, of_type.clone()))
            .collect();
        let rows = self.run(|client| Ok(client.query_typed(statement, &values)?))?;
        rows.iter().map(read_row).collect()
    }

    fn transaction(&mut self, _: bool, work: &mut Work<'_>) -> Result<(), DbFault> {
        let (longest, wait) = (self.longest, self.wait.clone());
        insist(longest, &wait, || self.attempt(work))
    }

    fn append(&mut self, account: i64, records: &[(i64, Stored)]) -> Result<(), DbFault> {
        if records.is_empty() {
            return Ok(());
        }
        let numbers = |of: fn(&(i64, Stored)) -> i64| records.iter().map(of).collect::<Vec<_>>();
        let fingerprints = numbers(|(fingerprint, _)| *fingerprint);
        let times = numbers(|(_, stored)| stored.at);
        let prices = numbers(|(_, stored)| stored.price);
        let sealed: Vec<_> = { records.iter() }
            .map(|(_, stored)| &stored.sealed[..])
            .collect();
        let append = format!(
            "INSERT INTO answers (fp, account, at, price, sealed) SELECT fp, {account}, at, price, sealed
            FROM unnest($1, $2, $3, $4) AS new (fp, at, price, sealed)"
        );
        self.run(|client| {
            let values = [
                (&fingerprints as _, Type::INT8_ARRAY),
                (&times as _, Type::INT8_ARRAY),
                (&prices as _, Type::INT8_ARRAY),
                (&sealed as _, Type::BYTEA_ARRAY),
            ];
            client.query_typed(&append, &values)?;
            Ok(())
        })
    }

    fn discard(&mut self, start: i64, fingerprints: &[i64]) -> Result<(), DbFault> {
        let discard = "DELETE FROM answers WHERE fp = ANY($1) AND substring(sealed FOR 8) = $2";
        let (fingerprints, start) = (&fingerprints as _, &start.to_le_bytes().to_vec() as _);
        let values = [(fingerprints, Type::INT8_ARRAY), (start, Type::BYTEA)];
        self.run(|client| Ok(client.execute_typed(discard, &values).map(drop)?))
    }

    fn find(&mut self, scope: &Scope, keys: &[RequestKey]) -> Result<Vec<LookupResult>, DbFault> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let fingerprints: Vec<_> = keys.iter().map(RequestKey::fingerprint).collect();
        let query = "SELECT fp, seq, at, price, sealed FROM answers WHERE fp = ANY($1) ORDER BY fp, seq DESC";
        let stored = |row: &Row| {
            let stored = Stored {
                place: row.try_get(1)?,
                at: row.try_get(2)?,
                price: row.try_get(3)?,
                sealed: row.try_get(4)?,
            };
            Ok((row.try_get(0)?, stored))
        };
        let rows: Vec<(i64, Stored)> = self.run(|client| {
            let rows = client.query_typed(query, &[(&fingerprints, Type::INT8_ARRAY)])?;
            rows.iter().map(stored).collect()
        })?;
        let judge = |key: &RequestKey| {
            let first = rows.partition_point(|(fingerprint, _)| *fingerprint < key.fingerprint());
            let mut of_key = { rows.iter().skip(first) }
                .take_while(|(fingerprint, _)| *fingerprint == key.fingerprint())
                .map(|(_, stored)| stored.clone());
            scope.judge(key, || Ok(of_key.next()))
        };
        keys.iter().map(judge).collect()
    }

    fn beside(&self) -> Result<Box<dyn Database>, DbFault> {
        let ledger = Self::new(&self.url, &self.wait, self.wait.longest);
        Ok(Box::new(ledger))
    }

    fn rewrite(&mut self) -> Result<(), DbFault> {
        self.run(|client| Ok(client.batch_execute("VACUUM (FULL, ANALYZE) answers")?))
    }

    fn run_starts(&mut self) {
        self.longest = self.wait.longest;
    }

    fn is_full(&self) -> bool {
        false
    }
}
