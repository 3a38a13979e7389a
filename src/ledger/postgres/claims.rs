//! Claims: which worker calls for a request now.
//!
//! A claim has no time of its own; its worker has. What is claimed is looked at again afterwards: an answer may have come,
//! and its claim gone, between the first look and the claim. Without that, workers that go through the same users in step
//! pay for nearly all of them twice, also if look and claim are one statement. Keys are claimed in order and conflicts do
//! nothing, so that two workers never wait for each other.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::fault::ServerFault;
use super::schema::{DURABLE, NOW};
use super::server::{Lane, Server};
use super::stored::{self, COLUMNS};
use crate::ledger::stored_answer::StoredAnswer;

/// The worker that has what was taken over and given back.
const NOBODY: &str = "'00000000-0000-0000-0000-000000000000'::uuid";

/// What has become of a request that was to be claimed.
pub(super) struct ClaimedRequest {
    pub(super) key: Uuid,
    /// Whether the claim is this worker's.
    pub(super) is_ours: bool,
    /// Whether it was another worker's before, whose lease has ended: its call may have been billed.
    pub(super) taken_over: bool,
    /// The answer that is there, whether it can be used or not.
    pub(super) answer: Option<StoredAnswer>,
}

/// Claims requests for a worker, takes over those of workers whose lease has ended, and looks again.
///
/// # Errors
/// The server is away. Then claims may have been made, which are this worker's.
pub(super) async fn claim(
    server: &Server,
    worker: Uuid,
    keys: &[Uuid],
) -> Result<Vec<ClaimedRequest>, ServerFault> {
    // A claim that a crash of the server loses while its call is out would be another worker's.
    let claim = format!(
        "WITH {DURABLE}, new AS (
            INSERT INTO rescore.claims (key, worker)
            -- A statement that arrives after its run has ended must not claim anything: nobody would end that claim.
            SELECT k, w.id FROM unnest($1::uuid[]) AS k, durable, rescore.workers w WHERE w.id = $2 ORDER BY k
            ON CONFLICT DO NOTHING
        ), free AS MATERIALIZED (
            SELECT c.key FROM rescore.claims c JOIN rescore.workers w ON w.id = c.worker
            WHERE c.key = ANY($1) AND w.alive_until <= {NOW}
            ORDER BY c.key FOR UPDATE OF c SKIP LOCKED
        )
        UPDATE rescore.claims c SET worker = me.id, taken_over = true
        FROM free, rescore.workers me WHERE c.key = free.key AND c.worker <> $2 AND me.id = $2"
    );
    let look = format!(
        "SELECT k, c.worker = $2, c.taken_over, {COLUMNS}
        FROM unnest($1::uuid[]) AS k
        LEFT JOIN rescore.answers a ON a.key = k
        LEFT JOIN rescore.claims c ON c.key = k"
    );
    let params: [_; 2] = [(&keys as _, Type::UUID_ARRAY), (&worker as _, Type::UUID)];
    server.connect(Lane::Quick).await?;
    // Both are on their way at the same time, on one connection: the second sees what the first has done. Where it does
    // not, as the first was sent again, the request is not ours yet.
    let (claimed, found) = tokio::join!(
        server.send(Lane::Quick, &claim, &params),
        server.send(Lane::Quick, &look, &params),
    );
    claimed?;
    let found = found?;
    Ok({ found.iter() }
        .map(|row| ClaimedRequest {
            key: row.get(0),
            is_ours: row.get::<_, Option<bool>>(1).unwrap_or_default(),
            taken_over: row.get::<_, Option<bool>>(2).unwrap_or_default(),
            answer: stored::read(row, 3),
        })
        .collect())
}

/// Gives claims of a worker back.
///
/// # Errors
/// The server is away.
pub(super) async fn release(
    server: &Server,
    worker: Uuid,
    keys: &[Uuid],
) -> Result<(), ServerFault> {
    let statement = format!(
        "WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)), {}",
        giving_back("USING quick", "AND key = ANY($2)")
    );
    let params: [_; 2] = [(&worker as _, Type::UUID), (&keys as _, Type::UUID_ARRAY)];
    server
        .send(Lane::Quick, &statement, &params)
        .await
        .map(drop)
}

/// Removes a worker, and gives all its claims back.
///
/// # Errors
/// The server is away: the lease ends by itself.
pub(super) async fn leave(server: &Server, worker: Uuid) -> Result<(), ServerFault> {
    let statement = format!(
        "WITH gone AS (DELETE FROM rescore.workers WHERE id = $1), {}",
        giving_back("", "")
    );
    let params = [(&worker as _, Type::UUID)];
    server
        .send(Lane::Quick, &statement, &params)
        .await
        .map(drop)
}

/// The rest of a statement that gives claims of the worker `$1` back. Those that were taken over are nobody's then, who is a
/// worker whose lease has ended: the next one takes them over, and counts the call that may have been billed.
fn giving_back(using: &str, which: &str) -> String {
    format!(
        "ended AS (
            DELETE FROM rescore.claims {using} WHERE worker = $1 AND NOT taken_over {which}
        ), kept AS (
            UPDATE rescore.claims SET worker = {NOBODY} WHERE worker = $1 AND taken_over {which} RETURNING key
        )
        -- Nobody is forgotten like other workers, a day after the last of these.
        INSERT INTO rescore.workers (id, started, alive_until) SELECT {NOBODY}, {NOW}, {NOW} FROM kept LIMIT 1
        ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until"
    )
}
