//! Looking after a ledger on a server by hand: what is in it, removing old answers, and forgetting people.
//!
//! Answers are removed while no run has a lease. The table is rewritten afterwards, but the server's write-ahead log, its copies
//! and its backups may still have what was removed.

use std::time::SystemTime;

use postgres::Client;
use postgres::types::Type;

use super::open::{ServerMeta, accounts};
use super::server::{NOW, Server, ServerFault, count};
use super::store::limits;
use crate::base::error::Result;
use crate::ledger::clock::{millis, time};
use crate::ledger::contents::{AGES, AccountStats, LedgerStats};
use crate::ledger::key::{RequestHasher, RequestKey};
use crate::ledger::lock::ledger_in_use;
use crate::ledger::server_url::ServerUrl;
use crate::ledger::store::LedgerAdmin;

/// Bytes of the tables and their indexes.
const BYTES: &str = "SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest(
    ARRAY['meta', 'accounts', 'answers', 'runs', 'claims', 'limits', 'outputs']) AS name";
/// Milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1_000;

/// What is in a ledger, while runs may be using it.
///
/// # Errors
/// Exit code 2: there is none, or one of another version. Exit code 3: the server cannot be reached.
pub(in crate::ledger) fn stats(url: &ServerUrl) -> Result<LedgerStats> {
    let mut server = Server::for_command(url)?;
    let meta = ServerMeta::read(&mut server)?;
    let now = millis(meta.now);
    let [day, week, month] = AGES.map(|days| now.saturating_sub(DAY * i64::from(days)));
    let query = format!(
        "SELECT accounts.id, address, count(seq), min(at), max(at), count(seq) FILTER (WHERE at >= {day}),
            count(seq) FILTER (WHERE at >= {week}), count(seq) FILTER (WHERE at >= {month})
        FROM accounts LEFT JOIN answers ON account = accounts.id
        GROUP BY accounts.id ORDER BY address, accounts.id"
    );
    let mut read = || {
        let limits = limits(&mut server)?;
        let accounts = server.read(&query, |row| {
            let span: (Option<i64>, Option<i64>) = (row.try_get(3)?, row.try_get(4)?);
            Ok(AccountStats {
                address: row.try_get(1)?,
                answers: count(row, 2)?,
                span: { span.0.zip(span.1) }.map(|(first, last)| (time(first), time(last))),
                younger: [count(row, 5)?, count(row, 6)?, count(row, 7)?],
                limit: limits.get(&row.try_get(0)?).copied(),
            })
        })?;
        Ok::<_, ServerFault>((number(&mut server, BYTES)?, accounts))
    };
    let (bytes, accounts) = read().map_err(|fault| fault.error("read", url))?;
    Ok(LedgerStats {
        bytes,
        version: meta.version,
        created: time(meta.created),
        answers: accounts.iter().map(|account| account.answers).sum(),
        accounts,
    })
}

fn number(server: &mut Server, query: &str) -> Result<u64, ServerFault> {
    let numbers = server.read(query, |row| count(row, 0))?;
    numbers.first().copied().ok_or_else(ServerFault::damaged)
}

/// A ledger that answers are removed from, while no run uses it.
pub(in crate::ledger) struct PostgresAdmin {
    server: Server,
}

impl PostgresAdmin {
    /// Opens an existing ledger.
    ///
    /// # Errors
    /// Exit code 75: a run uses it. Otherwise as [`stats`].
    pub(in crate::ledger) fn open(url: &ServerUrl) -> Result<Self> {
        let mut server = Server::for_command(url)?;
        ServerMeta::read(&mut server)?;
        let mut admin = Self { server };
        admin.remove(|_| Ok(()))?;
        Ok(admin)
    }

    /// Removes answers while no run has a lease, and counts what stays.
    fn remove<T>(
        &mut self,
        mut remove: impl FnMut(&mut Client) -> Result<T, ServerFault>,
    ) -> Result<T> {
        let in_use = format!("SELECT EXISTS (SELECT FROM runs WHERE until >= {NOW})");
        let removed = self.server.write("", |client| {
            if client.query_typed_one(&in_use, &[])?.try_get(0)? {
                return Ok(None);
            }
            let removed = remove(client)?;
            client.batch_execute("UPDATE accounts SET answers = least(answers, (SELECT count(*) FROM answers WHERE account = accounts.id))")?;
            Ok(Some(removed))
        });
        let url = &self.server.url;
        let removed = removed.map_err(|fault| fault.error("write", url))?;
        removed.ok_or_else(|| ledger_in_use(url))
    }
}

impl LedgerAdmin for PostgresAdmin {
    fn bytes(&mut self) -> Result<u64> {
        number(&mut self.server, BYTES).map_err(|fault| fault.error("read", &self.server.url))
    }

    fn answers(&mut self) -> Result<u64> {
        let count = "SELECT count(*) FROM answers";
        number(&mut self.server, count).map_err(|fault| fault.error("read", &self.server.url))
    }

    fn prune(&mut self, before: SystemTime) -> Result<u64> {
        let before = millis(before);
        let others = format!(
            "DELETE FROM runs WHERE started < {before}; DELETE FROM limits WHERE at < {before}"
        );
        let answers = format!("DELETE FROM answers WHERE at < {before}");
        self.remove(|client| {
            client.batch_execute(&others)?;
            Ok(client.execute_typed(&answers, &[])?)
        })
    }

    fn hashers(&mut self) -> Result<Vec<RequestHasher>> {
        let accounts = accounts(&mut self.server);
        let accounts = accounts.map_err(|fault| fault.error("read", &self.server.url))?;
        Ok({ accounts.into_iter() }
            .map(|account| RequestHasher::of_account(account.hash))
            .collect())
    }

    fn forget(&mut self, keys: &[RequestKey]) -> Result<u64> {
        let fingerprints: Vec<_> = keys.iter().map(|key| key.fingerprint).collect();
        self.remove(|client| {
            let forget = "WITH unclaimed AS (DELETE FROM claims WHERE fp = ANY($1)),
                    removed AS (DELETE FROM answers WHERE fp = ANY($1) RETURNING fp)
                SELECT count(*) FROM removed";
            let values = [(&fingerprints as _, Type::INT8_ARRAY)];
            count(&client.query_typed_one(forget, &values)?, 0)
        })
    }

    fn rewrite(&mut self) -> Result<()> {
        let file = "SELECT pg_relation_filenode('answers')::bigint";
        let rewritten = self.server.run(|client| {
            let before: i64 = client.query_typed_one(file, &[])?.try_get(0)?;
            client.batch_execute("VACUUM (FULL, ANALYZE) answers")?;
            // For others than the owner, it only warns.
            if client.query_typed_one(file, &[])?.try_get::<_, i64>(0)? == before {
                let why = "what it had to remove is removed, but only the owner of its tables can rewrite them";
                return Err(ServerFault::Refused(why.to_owned()));
            }
            Ok(())
        });
        rewritten.map_err(|fault| fault.error("rewrite", &self.server.url))
    }
}
