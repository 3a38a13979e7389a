//! Looking after a ledger on a server by hand: what is in it, removing old answers, and forgetting people.
//!
//! Answers are removed while no run has a lease. The table is rewritten afterwards, but the server's write-ahead log, its copies
//! and its backups may still have what was removed.

use std::time::SystemTime;

use postgres::Client;
use postgres::types::Type;

use super::open::ServerMeta;
use super::server::{Server, ServerFault, rows};
use crate::base::error::Result;
use crate::ledger::account::{COUNT_AGAIN, LedgerStats, prune_others};
use crate::ledger::clock::millis;
use crate::ledger::database::{Damaged, Database as _};
use crate::ledger::key::RequestKey;
use crate::ledger::lock::ledger_in_use;
use crate::ledger::server_url::ServerUrl;
use crate::ledger::store::LedgerAdmin;

/// Bytes of the tables and their indexes.
const BYTES: &str = "SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest(
    ARRAY['meta', 'accounts', 'answers', 'runs', 'claims', 'outputs']) AS name";

/// What is in a ledger, while runs may be using it.
///
/// # Errors
/// Exit code 2: there is none, or one of another version. Exit code 3: the server cannot be reached.
pub(in crate::ledger) fn stats(url: &ServerUrl) -> Result<LedgerStats> {
    read(&mut Server::for_command(url)?)
}

fn read(server: &mut Server) -> Result<LedgerStats> {
    let meta = ServerMeta::read(server)?;
    let mut read = || {
        let bytes = server.read(BYTES)?.first().ok_or(Damaged)?.get(0)?;
        LedgerStats::read(server, bytes, meta.created)
    };
    read().map_err(|fault| fault.error("read", &server.url))
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
        let leases = format!("SELECT FROM runs WHERE until >= {}", Server::NOW);
        let removed = self.server.transaction("", |client| {
            if !rows(client, &leases)?.is_empty() {
                return Ok(None);
            }
            let removed = remove(client)?;
            client.batch_execute(COUNT_AGAIN)?;
            Ok(Some(removed))
        });
        let url = &self.server.url;
        let removed = removed.map_err(|fault| fault.error("write", url))?;
        removed.ok_or_else(|| ledger_in_use(url))
    }
}

impl LedgerAdmin for PostgresAdmin {
    fn stats(&mut self) -> Result<LedgerStats> {
        read(&mut self.server)
    }

    fn prune(&mut self, before: SystemTime) -> Result<u64> {
        let before = millis(before);
        let answers = format!("DELETE FROM answers WHERE at < {before}");
        self.remove(|client| {
            client.batch_execute(&prune_others(before))?;
            Ok(client.execute_typed(&answers, &[])?)
        })
    }

    fn forget(&mut self, keys: &[RequestKey]) -> Result<u64> {
        let fingerprints: Vec<_> = keys.iter().map(|key| key.fingerprint).collect();
        self.remove(|client| {
            let forget = "WITH unclaimed AS (DELETE FROM claims WHERE fp = ANY($1))
                DELETE FROM answers WHERE fp = ANY($1)";
            Ok(client.execute_typed(forget, &[(&fingerprints, Type::INT8_ARRAY)])?)
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
