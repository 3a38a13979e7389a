//! The first answers of a run that keeps none beyond its end, in memory: they are there only so that equal rows are answered
//! once. That costs the calling thread far less than a turn of the ledger's thread.
//!
//! They are packed as in a database. This file must not know where the ones go for which there is no room.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::packed::{
    BlockBuilder, PackedAnswer, PackedBlock, PackedId, PackedKey, PackedScore, UuidBuffer,
};
use super::request_key::{KeyHash, RequestKey};
use crate::verdict::{Answer, Score, TransactionId};

/// Answers that are kept in memory: they take 8 MiB with a UUID each, and a table of 2^17 places is nearly full then.
pub(super) const MOST: usize = if cfg!(test) { 100 } else { 114_000 };

/// The most bytes of them, which leaves room for short additional columns; long ones fill it sooner.
const MOST_BYTES: usize = 64 * MOST;

/// From so many answers on there is room for all: a table that doubles needs both sizes for a moment.
const SMALL: usize = MOST / 8;

/// Answers in memory.
#[derive(Debug, Default)]
pub(crate) struct AnswerMemory {
    /// The block of each request. The hashes are keyed, so nobody can choose them.
    places: HashMap<KeyHash, u32, FixedState>,
    blocks: Vec<PackedBlock>,
    /// The bytes of these blocks.
    bytes: usize,
    /// The block that follows them, which is being filled.
    last: BlockBuilder,
}

impl AnswerMemory {
    /// Keeps the answer to a request that equal rows share; `false` if there is no room.
    pub(super) fn keep(&mut self, key: &RequestKey, answer: &Answer, at: i64) -> bool {
        if self.places.len() >= MOST || self.bytes >= MOST_BYTES {
            return false;
        }
        if self.places.len() == SMALL {
            self.places.reserve(MOST - SMALL);
        }
        let captured = (!answer.captured.is_empty())
            .then(|| serde_json::to_string(&answer.captured).ok())
            .flatten();
        self.last.add(&PackedAnswer {
            key: key.into(),
            at,
            transaction_id: PackedId::of(answer.transaction_id.as_str()),
            score: PackedScore::of(answer.score.digits()),
            captured: captured.as_deref(),
            replaced: None,
            previous: None,
        });
        // No run has that many rows.
        let place = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        self.places.insert(key.hash, place);
        if self.last.is_full() {
            let block = self.last.block();
            self.bytes += block.bytes.len();
            self.blocks.push(block);
            self.last.clear();
        }
        true
    }

    /// The answer to a request.
    pub(super) fn find(&self, key: &RequestKey) -> Option<Answer> {
        let place = usize::try_from(*self.places.get(&key.hash)?).ok()?;
        let packed = PackedKey::from(key);
        match self.blocks.get(place) {
            Some(block) => find(block, &packed),
            None => find(&self.last.block(), &packed),
        }
    }
}

/// The answer to a request in a block.
fn find(block: &PackedBlock, key: &PackedKey) -> Option<Answer> {
    let packed = block.answers().filter(|answer| answer.key == *key).last()?;
    let mut buffer = UuidBuffer::default();
    let captured = packed.captured.map(serde_json::from_str);
    Some(Answer {
        transaction_id: TransactionId::new(packed.transaction_id.text(&mut buffer)).ok()?,
        score: Score::from_json_number(&packed.score.text()).ok()?,
        captured: captured.transpose().ok()?.unwrap_or_default(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ledger::request_key::RequestHasher;

    /// How many answers with so long a field there is room for.
    fn kept(length: usize) -> usize {
        let hasher = RequestHasher::new(&[1; 32], "https://a", "b");
        let answer = Answer {
            transaction_id: TransactionId::new("6f1c0f0e-7f0b-4a58-9d3c-0c5b4f3d2e1a").unwrap(),
            score: Score::from_json_number("1.25").unwrap(),
            captured: Box::new([(length > 0).then(|| "x".repeat(length).into())]),
        };
        let mut memory = AnswerMemory::default();
        let mut keeps = |number: usize| memory.keep(&hasher.key(&number.to_le_bytes()), &answer, 0);
        (0..=MOST).take_while(|number| keeps(*number)).count()
    }

    #[test]
    fn there_is_room_for_fewer_answers_that_are_longer() {
        assert_eq!(kept(0), MOST);
        assert!(kept(1_000) * 1_000 <= MOST_BYTES + 1_000);
    }
}
