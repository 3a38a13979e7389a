//! Workers: processes that call the service, each until its lease ends.

use std::time::Duration;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::claims;
use super::fault::ServerFault;
use super::schema::{DURABLE, NOW, REMEMBERED};
use super::server::{Lane, Server};
use crate::ledger::request_key::RequestHasher;
use crate::ledger::store::LeaseRenewal;

/// The worker that this process is: another one after its lease has ended.
pub(super) struct OwnWorker {
    lease: Duration,
    /// `None` before the first lease.
    id: Option<Uuid>,
    /// The next one, until the server says that it is entered: it may be without our hearing of it.
    next: Option<Uuid>,
}

impl OwnWorker {
    /// None yet.
    pub(super) const fn new(lease: Duration) -> Self {
        Self {
            lease,
            id: None,
            next: None,
        }
    }

    /// Its name; before the first lease that of one that has nothing.
    pub(super) fn id(&self) -> Uuid {
        self.id.unwrap_or_default()
    }

    /// Renews the lease, or takes a new one.
    ///
    /// # Errors
    /// The server is away, or the user may not do this.
    pub(super) fn renew(&mut self, server: &Server) -> Result<LeaseRenewal, ServerFault> {
        if let Some(worker) = self.id
            && server.wait(renew(server, worker, self.lease))?
        {
            return Ok(LeaseRenewal::Kept);
        }
        // A name that no other worker has.
        let new = || Uuid::from_bytes(RequestHasher::of_pass().key(b"worker").hash());
        let next = *self.next.get_or_insert_with(new);
        server.wait(enter(server, next, self.id, self.lease))?;
        self.id = self.next.take();
        Ok(LeaseRenewal::NewWorker)
    }

    /// Removes it, and gives all its claims back.
    ///
    /// # Errors
    /// The server is away: the lease ends by itself.
    pub(super) fn leave(&self, server: &Server) -> Result<(), ServerFault> {
        self.id.map_or(Ok(()), |worker| {
            server.wait(claims::leave(server, worker, false))
        })
    }
}

/// Enters a worker whose lease starts now. What the process had claimed as `before`, whose lease has ended, and nobody has
/// taken over, is the new worker's.
///
/// # Errors
/// The server is away, or the user may not do this.
async fn enter(
    server: &Server,
    worker: Uuid,
    before: Option<Uuid>,
    lease: Duration,
) -> Result<(), ServerFault> {
    // Workers that were killed a day ago, and whose claims nobody wanted, are forgotten with them, and so is what was given
    // back a day ago.
    let statement = format!(
        "WITH {DURABLE}, dead AS (
            DELETE FROM rescore.workers WHERE alive_until < {NOW} - {REMEMBERED} AND id IS DISTINCT FROM $3 RETURNING id
        ), left_over AS (
            DELETE FROM rescore.claims c WHERE c.at < {NOW} - {REMEMBERED} OR c.worker IN (SELECT id FROM dead)
                OR c.worker IS NOT NULL AND c.worker IS DISTINCT FROM $3
                    AND NOT EXISTS (SELECT FROM rescore.workers w WHERE w.id = c.worker)
        ), before AS (
            DELETE FROM rescore.workers WHERE id = $3
        ), kept AS (
            UPDATE rescore.claims SET worker = $1 WHERE worker = $3
        )
        INSERT INTO rescore.workers (id, started, alive_until) SELECT $1, {NOW}, {NOW} + $2 FROM durable
        -- It is sent again when its answer is not heard of.
        ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until"
    );
    let length = millis(lease);
    let params: [_; 3] = [
        (&worker as _, Type::UUID),
        (&length as _, Type::INT8),
        (&before as _, Type::UUID),
    ];
    server
        .send(Lane::Quick, &statement, &params)
        .await
        .map(drop)
}

/// Renews a worker's lease; `false` if it has ended before, so that others may have taken over its claims.
///
/// # Errors
/// The server is away.
async fn renew(server: &Server, worker: Uuid, lease: Duration) -> Result<bool, ServerFault> {
    let statement = format!(
        "WITH {DURABLE}
        UPDATE rescore.workers SET alive_until = {NOW} + $2 FROM durable
        WHERE id = $1 AND alive_until > {NOW} RETURNING id"
    );
    let length = millis(lease);
    let params: [_; 2] = [(&worker as _, Type::UUID), (&length as _, Type::INT8)];
    let rows = server.send(Lane::Quick, &statement, &params).await?;
    Ok(!rows.is_empty())
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
