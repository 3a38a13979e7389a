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
//! A server that is away (it restarts, has no connection left, became a read-only copy, does not answer in time, or another
//! program holds the tables) is waited for, as long as [`ServerWait`] says.
//!
//! A program uses one connection to a server, as servers have few: while it writes a group, its look-ups wait. With more
//! connections, runs were not faster. The connection blocks, and must not be used on a thread that drives an asynchronous
//! runtime.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{ToSql, params};
use tokio_postgres::types::{self, Type};
use tokio_postgres::{Column, Row};

use super::answers::{LookupResult, Scope, Stored};
use super::database::{Database, Dialect, Purpose, TableRow, Work, insert_meta, read_meta, tables};
use super::fault::DbFault;
use super::key::RequestKey;
use super::postgres_server::{connect, retry_until};
use super::server_url::{Connection, ServerUrl};
use super::settings::ServerWait;
use crate::base::error::Result as RunResult;
use crate::base::threads::lock;

/// Starts a transaction that writes, alone. What is acknowledged is durable, whatever the server's default is: also claims, as
/// those who have them outlive the server. A program that is suspended within it holds the others up for this long. Where another
/// one holds the tables for longer, the server says so before [`PATIENCE`] is over. All of it ends with the transaction: behind
/// a pool of connections, the next one may use another connection.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL lock_timeout = '15s';
    SET LOCAL synchronous_commit = on;
    SET LOCAL idle_in_transaction_session_timeout = '10s';
    LOCK TABLE meta IN EXCLUSIVE MODE";

/// How long a run waits for the answer to a statement. Then its connection is replaced.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long other commands wait for it: they may count, copy or rewrite all answers.
const LONG_PATIENCE: Duration = Duration::from_secs(3_600);

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

/// What is done over a connection, perhaps several times.
type OverConnection<'w, T> = dyn FnMut(&Connection) -> Result<T, DbFault> + 'w;

/// A ledger on a server. The first who needs the connection makes it.
struct PostgresLedger {
    url: ServerUrl,
    /// How the server is waited for once the run has started, and by look-ups.
    wait: ServerWait,
    /// How long it is waited for now.
    longest: Duration,
    /// How long it waits for the answer to a statement.
    patience: Duration,
    /// The connection, while it is this one's turn to use it.
    connection: Option<Connection>,
}

/// Makes the tables of a ledger where there are none; whether there were none.
///
/// # Errors
/// Exit code 2: they cannot be made, or are of another version. Exit code 3: the server cannot be reached.
pub(super) fn init(url: &ServerUrl) -> RunResult<bool> {
    let mut ledger = PostgresLedger::new(url, Purpose::Copy);
    let id = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
    let tables = tables(id, "BIGINT", "BYTEA", "") + SCHEMA + PACE;
    let made = ledger.in_turn(|ledger| {
        // Another one may be making them.
        ledger.execute("BEGIN; SELECT pg_advisory_xact_lock(hashtext('rescore ledger init'))")?;
        let has_tables = "SELECT 1 WHERE to_regclass('meta') IS NOT NULL";
        let is_new = ledger.query(has_tables, &[])?.is_empty();
        if is_new {
            ledger.execute(&tables)?;
            // Alone, as some servers log statements that make tables.
            let (insert, secret) = insert_meta(&DIALECT);
            ledger.query(&insert, params![secret])?;
        }
        ledger.execute("COMMIT")?;
        Ok(is_new)
    });
    let shown = url.to_string();
    let made = made.map_err(|fault| fault.error("make", Path::new(&shown)))?;
    let meta = read_meta(&mut ledger);
    meta.map_err(|fault| fault.error("open", Path::new(&shown)))?;
    Ok(made)
}

/// Opens a ledger. It is connected to when something is read.
pub(super) fn open(url: &ServerUrl, purpose: Purpose<'_>) -> Box<dyn Database> {
    Box::new(PostgresLedger::new(url, purpose))
}

impl PostgresLedger {
    fn new(url: &ServerUrl, purpose: Purpose<'_>) -> Self {
        let own = ServerWait::default();
        let (wait, longest, patience) = match purpose {
            // Before a run has started, nothing is lost by stopping.
            Purpose::Run(settings) => (&settings.wait, Duration::ZERO, PATIENCE),
            Purpose::SecondConnection(wait) => (wait, wait.longest, PATIENCE),
            Purpose::Look | Purpose::Admin | Purpose::Copy => (&own, Duration::ZERO, LONG_PATIENCE),
        };
        Self {
            url: url.clone(),
            wait: wait.clone(),
            longest,
            patience,
            connection: None,
        }
    }

    /// Does something over the connection: as a part of what this one does in its turn, or as all of it.
    fn run<T>(&mut self, work: &mut OverConnection<'_, T>) -> Result<T, DbFault> {
        match &self.connection {
            Some(connection) => work(connection),
            None => self.in_turn(|ledger| ledger.run(work)),
        }
    }

    /// Does something when no other one of this process uses the connection, and again while the server is waited for. After a
    /// fault it is replaced: the server rolls back what was not committed.
    fn in_turn<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<T, DbFault>,
    ) -> Result<T, DbFault> {
        let (longest, wait) = (self.longest, self.wait.clone());
        let shared = Arc::clone(&self.url.connection);
        retry_until(longest, &wait, || {
            let mut shared = lock(&shared);
            let open = shared.take().filter(|it| !it.client.is_closed());
            let connect = || connect(&self.url, self.patience);
            self.connection = Some(open.map_or_else(connect, Ok)?);
            let done = work(self);
            *shared = self.connection.take().filter(|_| done.is_ok());
            done
        })
    }

    fn execute(&mut self, statements: &str) -> Result<(), DbFault> {
        self.run(&mut |it| it.wait(it.client.batch_execute(statements)))
    }
}

/// A value of a statement. The server takes the type of a text, and of nothing, from the statement.
fn typed(value: &dyn ToSql) -> rusqlite::Result<(Box<dyn types::ToSql + Sync>, Type)> {
    let value = value.to_sql()?;
    let value = match &value {
        ToSqlOutput::Borrowed(value) => *value,
        ToSqlOutput::Owned(value) => value.into(),
        _ => ValueRef::Null,
    };
    Ok(match value {
        ValueRef::Integer(number) => (Box::new(number), Type::INT8),
        ValueRef::Blob(bytes) => (Box::new(bytes.to_owned()), Type::BYTEA),
        value => (
            Box::new(value.as_str().ok().map(str::to_owned)),
            Type::UNKNOWN,
        ),
    })
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
        let values = values.iter().map(|value| typed(*value));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let values = values.iter().map(|(value, of)| (&**value, of.clone()));
        let values: Vec<(&(dyn types::ToSql + Sync), Type)> = values.collect();
        let rows = self.run(&mut |it| it.wait(it.client.query_typed(statement, &values)))?;
        rows.iter().map(read_row).collect()
    }

    fn transaction(&mut self, _: bool, work: &mut Work<'_>) -> Result<(), DbFault> {
        // It may have been committed although the connection broke, and then is repeated.
        self.in_turn(|ledger| {
            ledger.execute(BEGIN)?;
            work(ledger)?;
            ledger.execute("COMMIT")
        })
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
        let values = [
            (&fingerprints as _, Type::INT8_ARRAY),
            (&times as _, Type::INT8_ARRAY),
            (&prices as _, Type::INT8_ARRAY),
            (&sealed as _, Type::BYTEA_ARRAY),
        ];
        self.run(&mut |it| it.wait(it.client.execute_typed(&append, &values)))?;
        Ok(())
    }

    fn discard(&mut self, start: i64, fingerprints: &[i64]) -> Result<(), DbFault> {
        let discard = "DELETE FROM answers WHERE fp = ANY($1) AND substring(sealed FOR 8) = $2";
        let (fingerprints, start) = (&fingerprints as _, &start.to_le_bytes().to_vec() as _);
        let values = [(fingerprints, Type::INT8_ARRAY), (start, Type::BYTEA)];
        self.run(&mut |it| it.wait(it.client.execute_typed(discard, &values)))?;
        Ok(())
    }

    fn find(&mut self, scope: &Scope, keys: &[RequestKey]) -> Result<Vec<LookupResult>, DbFault> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let fingerprints: Vec<_> = keys.iter().map(RequestKey::fingerprint).collect();
        let query = "SELECT fp, seq, at, price, sealed FROM answers WHERE fp = ANY($1) ORDER BY fp, seq DESC";
        let stored = |row: &Row| -> Result<(i64, Stored), DbFault> {
            let stored = Stored {
                place: row.try_get(1)?,
                at: row.try_get(2)?,
                price: row.try_get(3)?,
                sealed: row.try_get(4)?,
            };
            Ok((row.try_get(0)?, stored))
        };
        let fingerprints = [(&fingerprints as _, Type::INT8_ARRAY)];
        let rows = self.run(&mut |it| it.wait(it.client.query_typed(query, &fingerprints)))?;
        let rows = rows
            .iter()
            .map(stored)
            .collect::<Result<Vec<_>, DbFault>>()?;
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
        Ok(open(&self.url, Purpose::SecondConnection(&self.wait)))
    }

    fn rewrite(&mut self) -> Result<(), DbFault> {
        self.execute("SET lock_timeout = '15s'")?;
        self.execute("VACUUM (FULL, ANALYZE) answers")
    }

    fn run_starts(&mut self) {
        self.longest = self.wait.longest;
    }

    fn is_full(&self) -> bool {
        false
    }
}
