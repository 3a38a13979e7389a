//! A ledger on a PostgreSQL server: the same tables as in a file, in the schema that the URL's
//! `search_path` names, else in the user's default one; and the connection to the server.
//!
//! - **One writer at a time.** Every transaction that writes first takes a lock on `meta`, as
//!   writers of a file do. So runs on many machines cannot deadlock, and whether a lease has ended
//!   is decided in one order. The lock is held for some round trips and one sync; while a run
//!   waits for it, its next group gathers.
//! - **One clock.** Ages and leases go by the server's clock.
//! - **The server's index** in place of the one in memory: one query finds the answers to all
//!   requests of a batch.
//! - **The secret is in `meta`**, as in a file: somebody who may read the database and has a
//!   person's request can read that person's answer.
//!
//! A run waits for a server that is away (it restarts, has no connection left, became a read-only
//! copy, does not answer in time, or another program holds the tables), as long as [`ServerWait`]
//! says.
//!
//! A program uses one connection to a server, as servers have few: while it writes a group, its
//! look-ups wait. With more connections, runs were not faster. The connection blocks, and must not
//! be used on a thread that drives an asynchronous runtime.

use std::error::Error as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{ToSql, params};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};
use tokio_postgres::types::{self, Type};
use tokio_postgres::{Column, Error, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::answers::{LookupResult, Scope, Stored};
use super::database::{
    Database, Dialect, Purpose, TableRow, Work, insert_meta, pause, read_meta, tables,
};
use super::fault::{DbFault, DbFaultKind, VERSION};
use super::key::RequestKey;
use super::location::{Connection, LedgerLocation, ServerUrl, ServerWait};
use crate::base::error::{Result as RunResult, system_words};
use crate::base::numbers;
use crate::base::private_file::read_small;
use crate::base::secret::Hidden;
use crate::base::text::{display, printable};
use crate::base::threads::lock;

/// Starts a transaction that writes, alone. What is acknowledged is durable, whatever the server's
/// default is: also claims, as the runs that hold them outlive the server. A program that is
/// suspended within it holds the others up for this long. If another program holds the tables for
/// longer, the server says so before [`STATEMENT_TIMEOUT`]. All settings end with the transaction:
/// behind a pool of connections, the next one may use another connection.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL lock_timeout = '15s';
    SET LOCAL synchronous_commit = on;
    SET LOCAL idle_in_transaction_session_timeout = '10s';
    LOCK TABLE meta IN EXCLUSIVE MODE";

/// How long a run waits for the answer to a statement. Then its connection is replaced.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long other commands wait for it: they may count, copy or rewrite all answers.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(3_600);

/// The first pause between attempts to reach a server that is away. Each is twice as long as the
/// one before, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The pace that the runs of an account share, which only a server has.
const PACE: &str = include_str!("pace.sql");

/// The table that differs from a file's. What is encrypted cannot be compressed.
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

/// Work over a connection, which may be repeated.
type ConnectionWork<'w, T> = dyn FnMut(&Connection) -> Result<T, DbFault> + 'w;

/// A ledger on a server. It connects when it is first used.
struct PostgresLedger {
    url: ServerUrl,
    /// How the server is waited for once the run has started, and by look-ups.
    wait: ServerWait,
    /// How long it is waited for now.
    longest_wait: Duration,
    /// How long an answer to a statement may take.
    timeout: Duration,
    /// The connection, while it is this one's turn to use it.
    connection: Option<Connection>,
}

/// Makes the tables of a ledger if there are none. True if there were none.
///
/// # Errors
/// Exit code 2: they cannot be made, or are of another version. Exit code 3: the server cannot be
/// reached.
pub(super) fn init(url: &ServerUrl) -> RunResult<bool> {
    let mut ledger = PostgresLedger::new(url, Purpose::Copy);
    let id = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
    let tables = tables(id, "BIGINT", "BYTEA", "") + SCHEMA + PACE;
    let made = ledger.in_turn(|ledger| {
        // Another program may be making them.
        ledger.execute("BEGIN; SELECT pg_advisory_xact_lock(hashtext('rescore ledger init'))")?;
        let has_tables = "SELECT 1 WHERE to_regclass('meta') IS NOT NULL";
        let is_new = ledger.query(has_tables, &[])?.is_empty();
        if is_new {
            ledger.execute(&tables)?;
            // Not together with the tables, as some servers log statements that make tables.
            let (insert, secret) = insert_meta(&DIALECT);
            ledger.query(&insert, params![secret])?;
        }
        ledger.execute("COMMIT")?;
        Ok(is_new)
    });
    let location = LedgerLocation::Server(url.clone());
    let made = made.map_err(|fault| fault.error("make", &location))?;
    read_meta(&mut ledger, VERSION).map_err(|fault| fault.error("open", &location))?;
    Ok(made)
}

/// Opens a ledger. It connects when something is read.
pub(super) fn open(url: &ServerUrl, purpose: Purpose<'_>) -> Box<dyn Database> {
    Box::new(PostgresLedger::new(url, purpose))
}

impl PostgresLedger {
    fn new(url: &ServerUrl, purpose: Purpose<'_>) -> Self {
        let (wait, longest_wait, timeout) = match purpose {
            // Before a run has started, stopping loses nothing.
            Purpose::Run { wait, .. } => (wait.clone(), Duration::ZERO, STATEMENT_TIMEOUT),
            Purpose::SecondConnection(wait) => (wait.clone(), wait.longest, STATEMENT_TIMEOUT),
            Purpose::Look | Purpose::Admin | Purpose::Copy => {
                (ServerWait::default(), Duration::ZERO, COMMAND_TIMEOUT)
            }
        };
        Self {
            url: url.clone(),
            wait,
            longest_wait,
            timeout,
            connection: None,
        }
    }

    /// Does `work` over the connection: as a part of a turn, or in a turn of its own.
    fn run<T>(&mut self, work: &mut ConnectionWork<'_, T>) -> Result<T, DbFault> {
        match &self.connection {
            Some(connection) => work(connection),
            None => self.in_turn(|ledger| ledger.run(work)),
        }
    }

    /// Does `work` while nobody else in this process uses the connection, and again while the
    /// server is waited for.
    fn in_turn<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<T, DbFault>,
    ) -> Result<T, DbFault> {
        let (started, mut between) = (Instant::now(), FIRST_PAUSE);
        loop {
            let mut done = self.attempt(&mut work);
            let lasted = started.elapsed();
            let left = self.longest_wait.saturating_sub(lasted);
            match &mut done {
                Err(fault) if fault.may_pass() && !left.is_zero() => {
                    self.wait.set(Some((started, fault.words.clone())));
                    // Programs that lost the server together do not come back together.
                    let share = f64::from(fastrand::u8(128..=255)) / 256.0;
                    pause(between.min(left).mul_f64(share));
                    between = LONGEST_PAUSE.min(between * 2);
                    continue;
                }
                Err(fault) if fault.kind == DbFaultKind::Away && !self.longest_wait.is_zero() => {
                    let (time, why) = (numbers::time(lasted), &fault.words);
                    fault.words =
                        format!("the ledger's server has not answered for {time} ({why})");
                }
                _ => {}
            }
            self.wait.set(None);
            return done;
        }
    }

    /// Does `work` over the connection that is open, or a new one. After a fault it is closed: the
    /// server rolls back what was not committed.
    fn attempt<T>(
        &mut self,
        work: &mut impl FnMut(&mut Self) -> Result<T, DbFault>,
    ) -> Result<T, DbFault> {
        let shared = Arc::clone(&self.url.connection);
        let mut shared = lock(&shared);
        let open = shared.take().filter(|it| !it.client.is_closed());
        let connect = || connect(&self.url, self.timeout);
        self.connection = Some(open.map_or_else(connect, Ok)?);
        let done = work(self);
        *shared = self.connection.take().filter(|_| done.is_ok());
        done
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
        value => {
            let text = value.as_str().ok().map(str::to_owned);
            (Box::new(text), Type::UNKNOWN)
        }
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

/// Numbers as a text, from which a statement makes an array.
fn list(numbers: impl Iterator<Item = i64>) -> String {
    let numbers: Vec<_> = numbers.map(|number| number.to_string()).collect();
    numbers.join(",")
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

    fn append(&mut self, account: i64, results: &[Stored]) -> Result<(), DbFault> {
        if results.is_empty() {
            return Ok(());
        }
        let numbers = |of: fn(&Stored) -> i64| results.iter().map(of).collect::<Vec<_>>();
        let fingerprints = numbers(|it| it.fingerprint);
        let (times, prices) = (numbers(|it| it.at), numbers(|it| it.price));
        let sealed: Vec<_> = results.iter().map(|it| &it.sealed[..]).collect();
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
        let discard = "DELETE FROM answers WHERE fp = ANY(string_to_array($1, ',')::bigint[])
            AND substring(sealed FOR 8) = $2";
        let fingerprints = list(fingerprints.iter().copied());
        let values = params![fingerprints, start.to_le_bytes()];
        self.query(discard, values).map(drop)
    }

    fn find(&mut self, scope: &Scope, keys: &[RequestKey]) -> Result<Vec<LookupResult>, DbFault> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let query = "SELECT fp, seq, at, price, sealed FROM answers
            WHERE fp = ANY(string_to_array($1, ',')::bigint[]) ORDER BY fp, seq DESC";
        let fingerprints = list(keys.iter().map(RequestKey::fingerprint));
        let stored = |row: TableRow| {
            Ok(Stored {
                fingerprint: row.get(0)?,
                seq: row.get(1)?,
                at: row.get(2)?,
                price: row.get(3)?,
                sealed: row.get(4)?,
            })
        };
        let rows = self.query(query, params![fingerprints])?;
        let rows = rows.into_iter().map(stored);
        let rows = rows.collect::<Result<Vec<_>, DbFault>>()?;
        let judge = |key: &RequestKey| {
            let fingerprint = key.fingerprint();
            let first = rows.partition_point(|row| row.fingerprint < fingerprint);
            let of_key = rows.iter().skip(first);
            let mut of_key = of_key.take_while(|row| row.fingerprint == fingerprint);
            scope.judge(key, || Ok(of_key.next().cloned()))
        };
        keys.iter().map(judge).collect()
    }

    fn second_connection(&self) -> Result<Box<dyn Database>, DbFault> {
        Ok(open(&self.url, Purpose::SecondConnection(&self.wait)))
    }

    fn rewrite(&mut self) -> Result<(), DbFault> {
        self.execute("SET lock_timeout = '15s'")?;
        self.execute("VACUUM (FULL, ANALYZE) answers")
    }

    fn run_starts(&mut self) {
        self.longest_wait = self.wait.longest;
    }
}

impl From<Error> for DbFault {
    fn from(error: Error) -> Self {
        let cause = error.source();
        if let Some(error) = error.as_db_error() {
            // Only the message: the detail may have values.
            let (words, state) = (printable(error.message()), error.code().code());
            return match (state, state.get(..2).unwrap_or_default()) {
                // A table, a column or a function is missing.
                ("42P01" | "42703" | "42883", _) => Self::missing(),
                ("25006", _) => Self::new(DbFaultKind::ReadOnly, words),
                // The message has the value that is wrong.
                (_, "22") => Self::new(DbFaultKind::Refused, format!("SQLSTATE {state}")),
                // Connections, transactions that are not possible now, deadlocks, resources such
                // as a full disk, objects in use, operators, the system, and the server's own
                // failures.
                (_, "08" | "25" | "40" | "53" | "55" | "57" | "58" | "XX") => {
                    Self::new(DbFaultKind::Away, words)
                }
                _ => Self::new(DbFaultKind::Refused, format!("{words} (SQLSTATE {state})")),
            };
        }
        if let Some(error) = cause.and_then(|cause| cause.downcast_ref::<io::Error>()) {
            let words = printable(&system_words(error));
            let tls = error.get_ref().and_then(|tls| tls.downcast_ref());
            let kind = match tls {
                Some(rustls::Error::InvalidCertificate(_)) => DbFaultKind::Refused,
                _ => DbFaultKind::Away,
            };
            return Self::new(kind, words);
        }
        if error.is_closed() {
            return Self::new(DbFaultKind::Away, "the connection broke");
        }
        // The client's own words have no values.
        let words = cause.map_or_else(|| error.to_string(), ToString::to_string);
        Self::new(DbFaultKind::Refused, words)
    }
}

/// Connects to a server, with the password from where PostgreSQL's own programs take it.
fn connect(url: &ServerUrl, timeout: Duration) -> Result<Connection, DbFault> {
    let (config, tls) = (url.with_password(), tls(url.authorities.as_deref())?);
    let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1);
    let connect_timeout = config.get_connect_timeout().copied().unwrap_or_default() * hosts;
    let password = config.get_password().unwrap_or_default().to_owned();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| DbFault::new(DbFaultKind::Away, system_words(&e)))?;
    let connect = async {
        let (client, driver) = config.connect(tls).await?;
        tokio::spawn(driver);
        Ok::<_, Error>(client)
    };
    match wait(&runtime, connect_timeout, connect) {
        Ok(client) => Ok(Connection {
            client,
            runtime,
            timeout,
        }),
        Err(fault) => {
            // The system may still be looking for the server's name.
            runtime.shutdown_background();
            Err(without_password(fault, &password))
        }
    }
}

impl Connection {
    /// Waits for what the server answers.
    fn wait<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, DbFault> {
        wait(&self.runtime, self.timeout, answer)
    }
}

/// Waits for an answer. A server that gives none in time, or something on the way to it that
/// hangs, is away: whether it has done anything is not known, as after a connection that broke.
fn wait<T>(
    runtime: &Runtime,
    longest: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, DbFault> {
    let answered = runtime.block_on(async { timeout(longest, answer).await });
    let none = |_| {
        let words = format!("no answer within {}", numbers::time(longest));
        DbFault::new(DbFaultKind::Away, words)
    };
    Ok(answered.map_err(none)??)
}

/// The fault, without the server's words if these repeat the password: some servers get it in
/// plain text.
fn without_password(fault: DbFault, password: &[u8]) -> DbFault {
    let mut hidden = Hidden::default();
    hidden.add_key(&String::from_utf8_lossy(password));
    if hidden.is_in(&fault.words) {
        let words = "the server refuses in words that repeat the password";
        return DbFault::new(fault.kind, words);
    }
    fault
}

/// How connections are encrypted: with servers whose certificate comes from the system's
/// authorities, or from one in this file.
fn tls(authorities: Option<&Path>) -> Result<MakeRustlsConnect, DbFault> {
    let cannot = |error: rustls::Error| DbFault::new(DbFaultKind::Refused, error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = authorities.map(read_pem).transpose()?.unwrap_or_default();
    let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider)).map_err(cannot)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(cannot)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // Servers ask for it if a connection starts with TLS.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

/// The certificates in a PEM file.
fn read_pem(file: &Path) -> Result<Vec<CertificateDer<'static>>, DbFault> {
    let pem = read_small(file).unwrap_or_default();
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    roots.ok().filter(|roots| !roots.is_empty()).ok_or_else(|| {
        let words = format!("`{}` cannot be read or has no certificate", display(file));
        DbFault::new(DbFaultKind::Refused, words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_repeat_the_password_in_any_form_are_not_shown() {
        let plain = "password authentication failed for user \"risk\"";
        for (words, is_shown) in [
            (plain, true),
            ("no access with Tr0ub4dor&3", false),
            ("no access with tr0ub4d…", false),
            ("no access with Tr0ub4dor%263", false),
            ("no access with VHIwdWI0ZG9yJjM=", false),
        ] {
            let fault = DbFault::new(DbFaultKind::Refused, words);
            let fault = without_password(fault, b"Tr0ub4dor&3");
            assert_eq!(fault.words == words, is_shown, "{words}");
        }
        // There is none.
        let fault = DbFault::new(DbFaultKind::Refused, plain);
        assert_eq!(without_password(fault, b"").words, plain);
    }
}
