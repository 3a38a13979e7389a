//! Answers as they are in the table: what a row says, and what a new one is made of.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::server::Param;
use crate::ledger::packed::{PackedId, PackedKey, UuidBuffer};
use crate::ledger::request_key::KeyHash;
use crate::ledger::stored_answer::{ReplacedAnswer, StoredAnswer};
use crate::verdict::{Answer, Score, TransactionId};

/// The columns that [`read`] needs, of the table under the name `a`.
pub(super) const COLUMNS: &str =
    "a.transaction_uuid, a.transaction_text, a.at, a.source, a.score, a.captured, a.replaced";

/// A key as the server knows it: as many bytes of the hash as a ledger in a file has, so that its answers can be brought in.
pub(super) fn key_of(hash: &KeyHash) -> Uuid {
    packed_key(&PackedKey::of_hash(hash))
}

/// The key of an answer in a file.
pub(super) fn packed_key(key: &PackedKey) -> Uuid {
    let mut bytes = [0; 16];
    for (byte, of_hash) in bytes.iter_mut().zip(key.hash) {
        *byte = of_hash;
    }
    Uuid::from_bytes(bytes)
}

/// The answer of a row whose [`COLUMNS`] start there; `None` if there is none, or if it is not one that we wrote.
pub(super) fn read(row: &Row, from: usize) -> Option<StoredAnswer> {
    let uuid: Option<Uuid> = row.try_get(from).ok()?;
    let text: Option<&str> = row.try_get(from + 1).ok()?;
    let mut buffer = UuidBuffer::default();
    let packed = match (&uuid, text) {
        (Some(uuid), _) => PackedId::Uuid(*uuid.as_bytes()),
        (None, text) => PackedId::Text(text?),
    };
    let replaced: Option<&str> = row.try_get(from + 6).ok()?;
    Some(StoredAnswer {
        transaction_id: TransactionId::new(packed.text(&mut buffer)).ok()?,
        at: row.try_get(from + 2).ok()?,
        capture: Some(row.try_get::<_, i32>(from + 3).ok()?.into()),
        score: Score::from_json_number(row.try_get(from + 4).ok()?).ok()?,
        captured: row.try_get(from + 5).ok()?,
        replaced: replaced.and_then(replaced_of),
    })
}

fn replaced_of(text: &str) -> Option<ReplacedAnswer> {
    let (at, score) = text.split_once(' ')?;
    Some(ReplacedAnswer {
        at: at.parse().ok()?,
        score: Score::from_json_number(score).ok()?,
    })
}

/// Answers that are to be stored, column by column, as one statement takes them.
#[derive(Default)]
pub(super) struct NewAnswers {
    keys: Vec<Uuid>,
    uuids: Vec<Option<Uuid>>,
    texts: Vec<Option<String>>,
    scores: Vec<String>,
    captured: Vec<Option<String>>,
    /// When each arrived; `None` is now, by the server's clock.
    at: Vec<Option<i64>>,
    replaced: Vec<Option<String>>,
    sources: Vec<i32>,
}

/// An answer that is to be stored.
pub(super) struct NewAnswer<'a> {
    pub(super) key: Uuid,
    pub(super) transaction_id: &'a TransactionId,
    pub(super) score: &'a Score,
    /// The values of captured fields, as a JSON array.
    pub(super) captured: Option<String>,
    /// When it arrived, in milliseconds since 1970; `None` is now, by the server's clock.
    pub(super) at: Option<i64>,
    pub(super) replaced: Option<ReplacedAnswer>,
    /// The number of its account and of its list of captured fields.
    pub(super) source: i32,
}

impl NewAnswers {
    /// Adds an answer that has just arrived.
    pub(super) fn add(&mut self, key: &KeyHash, answer: &Answer, source: i32) {
        let captured = (!answer.captured.is_empty())
            .then(|| serde_json::to_string(&answer.captured).ok())
            .flatten();
        self.push(NewAnswer {
            key: key_of(key),
            transaction_id: &answer.transaction_id,
            score: &answer.score,
            captured,
            at: None,
            replaced: None,
            source,
        });
    }

    /// Adds an answer.
    pub(super) fn push(&mut self, answer: NewAnswer<'_>) {
        let (uuid, text) = match PackedId::of(answer.transaction_id.as_str()) {
            PackedId::Uuid(bytes) => (Some(Uuid::from_bytes(bytes)), None),
            PackedId::Text(text) => (None, Some(text.to_owned())),
        };
        self.keys.push(answer.key);
        self.uuids.push(uuid);
        self.texts.push(text);
        self.scores.push(answer.score.digits().to_owned());
        self.captured.push(answer.captured);
        self.at.push(answer.at);
        let replaced = answer
            .replaced
            .map(|it| format!("{} {}", it.at, it.score.digits()));
        self.replaced.push(replaced);
        self.sources.push(answer.source);
    }

    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.keys.len()
    }

    /// The columns, as the first eight values of a statement: see [`FROM_COLUMNS`].
    pub(super) fn params(&self) -> [Param<'_>; 8] {
        [
            (&self.keys, Type::UUID_ARRAY),
            (&self.uuids, Type::UUID_ARRAY),
            (&self.texts, Type::TEXT_ARRAY),
            (&self.scores, Type::TEXT_ARRAY),
            (&self.captured, Type::TEXT_ARRAY),
            (&self.at, Type::INT8_ARRAY),
            (&self.replaced, Type::TEXT_ARRAY),
            (&self.sources, Type::INT4_ARRAY),
        ]
    }
}

/// The first eight values of a statement, as rows.
pub(super) const FROM_COLUMNS: &str = "unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::int[])
    AS n(key, transaction_uuid, transaction_text, score, captured, at, replaced, source)";
