//! Answers that nothing keeps beyond the run, in memory: they are there only so that equal rows are answered once.
//!
//! They are packed as in a database, so that those that are too many for memory go there as they are. This file must not
//! know where that is.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::packed::{BlockBuilder, PackedAnswer, PackedBlock, PackedId, PackedKey, UuidBuffer};
use super::request_key::{KeyHash, RequestKey};
use crate::verdict::{Answer, Score, TransactionId};

/// Answers that are kept in memory before all of them are moved: they take 8 MiB with a UUID each, and a table of 2^17
/// places is nearly full then.
pub(super) const MOST: usize = if cfg!(test) { 100 } else { 114_000 };

/// Answers beyond which there is room for all: a table that doubles needs both sizes for a moment, and is moved as a whole.
const SMALL: usize = MOST / 8;

/// Answers in memory.
#[derive(Debug, Default)]
pub(crate) struct AnswerMemory {
    /// The block of each request. The hashes are keyed, so nobody can choose them.
    places: HashMap<KeyHash, u32, FixedState>,
    blocks: Vec<PackedBlock>,
    /// The block that follows them, which is being filled.
    last: BlockBuilder,
}

impl AnswerMemory {
    /// Whether its answers are to be moved.
    pub(super) fn is_full(&self) -> bool {
        self.places.len() >= MOST
    }

    /// Whether it has so many answers that others must wait until there is room.
    pub(super) fn is_overfull(&self) -> bool {
        self.places.len() >= 2 * MOST
    }

    /// Keeps the answer to a request that equal rows share.
    pub(super) fn keep(&mut self, key: &RequestKey, answer: &Answer, at: i64) {
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
            score: answer.score.digits(),
            captured: captured.as_deref(),
            replaced: None,
            previous: None,
        });
        // No run has that many rows.
        let place = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        self.places.insert(key.hash, place);
        if self.last.is_full() {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        self.blocks.push(self.last.block());
        self.last.clear();
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

    /// Takes all answers, with no block to be filled; what is left is empty.
    pub(super) fn take(&mut self) -> Self {
        if self.last.len() > 0 {
            self.end_block();
        }
        std::mem::take(self)
    }

    /// The blocks of answers that were taken.
    pub(super) fn blocks(&self) -> &[PackedBlock] {
        &self.blocks
    }
}

/// The answer to a request in a block.
fn find(block: &PackedBlock, key: &PackedKey) -> Option<Answer> {
    let packed = block.answers().filter(|answer| answer.key == *key).last()?;
    let mut buffer = UuidBuffer::default();
    let captured = packed.captured.map(serde_json::from_str);
    Some(Answer {
        transaction_id: TransactionId::new(packed.transaction_id.text(&mut buffer)).ok()?,
        score: Score::from_json_number(packed.score).ok()?,
        captured: captured.transpose().ok()?.unwrap_or_default(),
    })
}
