//! Claims: which worker calls for a request now.
//!
//! A claim has no time of its own; its worker has. Only a claim that was given back although its call may have been billed
//! has one: it belongs to no worker, until one takes it over or it is forgotten.
//!
//! What is claimed is looked at again afterwards: an answer may have come, and its claim gone, between the first look and
//! the claim. Without that, workers that go through the same users in step pay for nearly all of them twice, also if look
//! and claim are one statement. Keys are claimed in order and conflicts do nothing, so that two workers never wait for each
//! other.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::fault::ServerFault;
use super::schema::{DURABLE, NOW};
use super::server::{Lane, Server};
use super::stored::{self, COLUMNS, key_of};
use crate::ledger::request_key::RequestKey;
use crate::ledger::stored_answer::StoredAnswer;

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
            SELECT c.key FROM rescore.claims c WHERE c.key = ANY($1) AND {}
            ORDER BY c.key FOR UPDATE OF c SKIP LOCKED
        )
        UPDATE rescore.claims c SET worker = me.id, taken_over = true, at = NULL
        FROM free, rescore.workers me
        WHERE c.key = free.key AND c.worker IS DISTINCT FROM $2 AND me.id = $2",
        abandoned()
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

/// Claims that end without an answer of ours.
#[derive(Default)]
pub(super) struct Releases {
    /// What may have been billed.
    pub(super) doubtful: Vec<Uuid>,
    /// All others.
    pub(super) settled: Vec<Uuid>,
}

impl Releases {
    /// Adds these.
    pub(super) fn add(&mut self, releases: &[RequestKey]) {
        let keys = releases.iter().map(|key| key_of(&key.hash));
        self.settled.extend(keys);
    }

    /// Adds those of others.
    pub(super) fn append(&mut self, mut others: Self) {
        self.doubtful.append(&mut others.doubtful);
        self.settled.append(&mut others.settled);
    }

    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.doubtful.is_empty() && self.settled.is_empty()
    }
}

/// The condition for claims `c` of nobody, and of workers whose lease has ended. A claim that another worker gets at the same
/// time does not meet it, as that worker is looked for among those whose lease has ended.
pub(super) fn abandoned() -> String {
    format!(
        "(c.worker IS NULL
            OR EXISTS (SELECT FROM rescore.workers w WHERE w.id = c.worker AND w.alive_until <= {NOW}))"
    )
}

/// Gives claims of a worker back. Those that may have been billed then belong to no worker: the next one takes them over, and
/// counts the call.
///
/// # Errors
/// The server is away.
pub(super) async fn release(
    server: &Server,
    worker: Uuid,
    releases: &Releases,
) -> Result<(), ServerFault> {
    let statement = format!(
        "WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)), {}",
        giving_back("USING quick", "key = ANY($2)", "key = ANY($3)")
    );
    let params: [_; 3] = [
        (&worker as _, Type::UUID),
        (&releases.settled as _, Type::UUID_ARRAY),
        (&releases.doubtful as _, Type::UUID_ARRAY),
    ];
    server
        .send(Lane::Quick, &statement, &params)
        .await
        .map(drop)
}

/// Removes a worker, and gives all its claims back. Unless `all_doubtful`, it has called for none of them.
///
/// # Errors
/// The server is away: the lease ends by itself.
pub(super) async fn leave(
    server: &Server,
    worker: Uuid,
    all_doubtful: bool,
) -> Result<(), ServerFault> {
    let (settled, doubtful) = if all_doubtful {
        ("false", "true")
    } else {
        ("NOT taken_over", "taken_over")
    };
    let statement = format!(
        "WITH gone AS (DELETE FROM rescore.workers WHERE id = $1), {}",
        giving_back("", settled, doubtful)
    );
    let params = [(&worker as _, Type::UUID)];
    server
        .send(Lane::Quick, &statement, &params)
        .await
        .map(drop)
}

/// The rest of a statement that gives claims of the worker `$1` back: those that are settled, and those that are doubtful.
fn giving_back(using: &str, settled: &str, doubtful: &str) -> String {
    format!(
        "ended AS (
            DELETE FROM rescore.claims {using} WHERE worker = $1 AND {settled}
        )
        UPDATE rescore.claims SET worker = NULL, at = {NOW} WHERE worker = $1 AND {doubtful}"
    )
}
