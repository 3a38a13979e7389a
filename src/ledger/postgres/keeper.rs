//! Removing answers from a ledger on a server, and claims that belong to no worker: what is old, and what is about people
//! who want to be forgotten.
//!
//! Rows are removed; the server gives their space to new ones later, and its log, copies and backups keep what they have.

use std::time::SystemTime;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::claims;
use super::fault::{AtStart, ServerFault};
use super::ledger::ServerLedger;
use super::schema::{NOW, REMEMBERED};
use super::server::{COMMAND_PATIENCE, Lane};
use super::sources;
use super::stats;
use super::stored::key_of;
use crate::base::error::Result;
use crate::ledger::clock::millis;
use crate::ledger::named_ledger::ServerSettings;
use crate::ledger::request_key::{KeyHash, RequestHasher};

/// Answers that are looked at in one transaction: some ten milliseconds of work, so that runs do not wait.
const PIECE: i64 = 10_000;

/// Answers about people that are removed in one transaction: they are all over the table.
const SCATTERED: usize = 1_000;

/// A ledger on a server that answers are removed from.
pub(crate) struct ServerKeeper {
    ledger: ServerLedger,
}

impl ServerKeeper {
    /// Opens an existing ledger.
    ///
    /// # Errors
    /// As [`ServerLedger::open`].
    pub(crate) fn open(settings: &ServerSettings) -> Result<Self> {
        let ledger = ServerLedger::open(settings, COMMAND_PATIENCE)?;
        Ok(Self { ledger })
    }

    /// What makes the keys of each account that was ever asked.
    ///
    /// # Errors
    /// Exit code 2: the secret is not that of the ledger, or cannot be read.
    pub(super) fn hashers(&self, settings: &ServerSettings) -> Result<Vec<RequestHasher>> {
        let secret = self.ledger.secret(settings)?;
        let contexts = sources::contexts(&self.ledger.server).at_start("read", &self.shown())?;
        Ok({ contexts.iter() }
            .filter_map(|context| context.hasher(&secret))
            .collect())
    }

    fn shown(&self) -> String {
        self.ledger.server.shown()
    }

    /// Bytes of all tables with their indexes.
    ///
    /// # Errors
    /// The server is away.
    pub(crate) fn bytes(&self) -> Result<u64> {
        stats::bytes(&self.ledger.server).at_start("read", &self.shown())
    }

    /// How many answers there are.
    ///
    /// # Errors
    /// The server is away.
    pub(crate) fn answers(&self) -> Result<u64> {
        stats::count_all(&self.ledger.server).at_start("read", &self.shown())
    }

    /// Removes everything from before this time: how many answers there were.
    ///
    /// # Errors
    /// The server is away, or the user may not remove answers.
    pub(crate) fn prune(&self, before: SystemTime) -> Result<u64> {
        self.remove_before(millis(before))
            .at_start("remove answers from", &self.shown())
    }

    /// Removes every answer, and everything else that was found out.
    ///
    /// # Errors
    /// As [`Self::prune`].
    pub(super) fn remove_all(&self) -> Result<u64> {
        // What living workers have claimed stays: they would pay for it twice.
        let unclaim = format!("DELETE FROM rescore.claims c WHERE {}", claims::abandoned());
        { self.remove_before(i64::MAX) }
            .and_then(|removed| {
                { &self.ledger.server }.query(Lane::Durable, &unclaim, &[])?;
                Ok(removed)
            })
            .at_start("remove answers from", &self.shown())
    }

    fn remove_before(&self, before: i64) -> Result<u64, ServerFault> {
        const ANSWERS: &str = "WITH page AS MATERIALIZED (
                SELECT key FROM rescore.answers WHERE key > $1 ORDER BY key LIMIT $3
            ), gone AS (
                DELETE FROM rescore.answers a USING page WHERE a.key = page.key AND a.at < $2 RETURNING 1
            ), emptied AS (
                UPDATE rescore.answers a SET replaced = NULL FROM page
                WHERE a.key = page.key AND a.at >= $2 AND split_part(a.replaced, ' ', 1)::bigint < $2
            )
            SELECT (SELECT key FROM page ORDER BY key DESC LIMIT 1), (SELECT count(*) FROM gone)";
        // A run that was stopped so long ago will not be continued, fields that were asked for then no longer are, and the
        // service may have changed.
        let day = format!("least($1, {NOW} - {REMEMBERED})");
        let rest = [
            "runs WHERE started < $1",
            "limits WHERE at < $1",
            "fields WHERE requested < $1",
            &format!("workers WHERE alive_until < {day}"),
            &format!(
                "claims c WHERE c.at < {day} OR c.worker IS NOT NULL
                    AND NOT EXISTS (SELECT FROM rescore.workers w WHERE w.id = c.worker)"
            ),
        ];
        let server = &self.ledger.server;
        let (mut last, mut removed) = (Uuid::nil(), 0);
        loop {
            let params: [_; 3] = [
                (&last as _, Type::UUID),
                (&before as _, Type::INT8),
                (&PIECE as _, Type::INT8),
            ];
            let rows = server.query(Lane::Durable, ANSWERS, &params)?;
            let Some((Some(end), gone)) = rows
                .first()
                .map(|row| (row.get::<_, Option<Uuid>>(0), row.get::<_, i64>(1)))
            else {
                break;
            };
            last = end;
            removed += gone.unsigned_abs();
        }
        for rows in rest {
            let statement = format!("DELETE FROM rescore.{rows}");
            server.query(Lane::Durable, &statement, &[(&before, Type::INT8)])?;
        }
        Ok(removed)
    }

    /// How many answers there are to requests with these keys, and whether any of them is claimed.
    ///
    /// # Errors
    /// The server is away.
    pub(super) fn known(&self, keys: &[KeyHash]) -> Result<(u64, bool)> {
        const KNOWN: &str =
            "SELECT count(*), EXISTS (SELECT FROM rescore.claims WHERE key = ANY($1))
            FROM rescore.answers WHERE key = ANY($1)";
        let keys: Vec<_> = keys.iter().map(key_of).collect();
        let rows = { &self.ledger.server }
            .query(Lane::Quick, KNOWN, &[(&keys, Type::UUID_ARRAY)])
            .at_start("read", &self.shown())?;
        let known = { rows.first() }.map(|row| (row.get::<_, i64>(0).unsigned_abs(), row.get(1)));
        Ok(known.unwrap_or_default())
    }

    /// Removes the answers to requests with these keys, in order, and what gone workers had claimed of them: how many
    /// answers there were.
    ///
    /// # Errors
    /// As [`Self::prune`].
    pub(super) fn remove(&self, keys: &[KeyHash]) -> Result<u64> {
        let statement = format!(
            "WITH unclaimed AS (DELETE FROM rescore.claims c WHERE c.key = ANY($1) AND {})
            DELETE FROM rescore.answers WHERE key = ANY($1) RETURNING 1",
            claims::abandoned()
        );
        let mut removed = 0;
        for keys in keys.chunks(SCATTERED) {
            let keys: Vec<_> = keys.iter().map(key_of).collect();
            let rows = { &self.ledger.server }
                .query(Lane::Durable, &statement, &[(&keys, Type::UUID_ARRAY)])
                .at_start("remove answers from", &self.shown())?;
            removed += rows.len() as u64;
        }
        Ok(removed)
    }
}
