//! Storing answers, together with the end of their claims, in one statement.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::fault::ServerFault;
use super::schema::{DURABLE, NOW};
use super::server::{Lane, Server};
use super::sources;
use super::stored::{FROM_COLUMNS, NewAnswers};
use crate::raw_json::Pointer;

/// Whose answers are stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct SettleScope {
    /// Whose claims end.
    pub(super) worker: Uuid,
    /// When the run started, over all its stops: an answer from before it is remembered as the one that was replaced.
    pub(super) started: i64,
    /// No answer is dated earlier.
    pub(super) earliest: i64,
}

/// What storing answers has shown.
#[derive(Default)]
pub(super) struct Settled {
    /// How many were stored.
    pub(super) stored: u64,
    /// The fields that runs have asked for until then.
    pub(super) fields: Vec<Pointer>,
}

/// Stores answers and removes their claims; returns when both are durable.
///
/// An answer takes the place of an older one, also where the request was claimed by somebody else meanwhile: it was paid.
/// A newer one stays. Keys are in order, so that two such statements cannot wait for each other.
///
/// # Errors
/// None of them is stored, or it is not known.
pub(super) async fn settle(
    server: &Server,
    answers: &NewAnswers,
    scope: &SettleScope,
) -> Result<Settled, ServerFault> {
    let statement = format!(
        "WITH {DURABLE}, ended AS (
            DELETE FROM rescore.claims WHERE key = ANY($1) AND worker = $9
        ), stored AS (
            INSERT INTO rescore.answers AS a
                (key, transaction_uuid, transaction_text, score, captured, at, replaced, source)
            SELECT DISTINCT ON (n.key) n.key, n.transaction_uuid, n.transaction_text, n.score, n.captured,
                greatest(least(n.at, {NOW}), $11), n.replaced, n.source
            FROM {FROM_COLUMNS}, durable
            ORDER BY n.key, n.at DESC
            ON CONFLICT (key) DO UPDATE SET transaction_uuid = excluded.transaction_uuid,
                transaction_text = excluded.transaction_text, score = excluded.score, captured = excluded.captured,
                at = excluded.at, source = excluded.source,
                replaced = CASE WHEN a.at < $10 THEN a.at || ' ' || a.score
                    ELSE coalesce(excluded.replaced, a.replaced) END
            WHERE a.at < excluded.at
            RETURNING 1
        )
        SELECT (SELECT count(*) FROM stored), ARRAY(SELECT pointer FROM rescore.fields ORDER BY pointer)"
    );
    let columns = answers.params();
    let more = [
        (&scope.worker as _, Type::UUID),
        (&scope.started as _, Type::INT8),
        (&scope.earliest as _, Type::INT8),
    ];
    let params: Vec<_> = columns.into_iter().chain(more).collect();
    let rows = server.send(Lane::Durable, &statement, &params).await?;
    let settled = { rows.first() }.map(|row| Settled {
        stored: row.get::<_, i64>(0).unsigned_abs(),
        fields: sources::readable(row.get(1)),
    });
    Ok(settled.unwrap_or_default())
}
