//! An answer as it was written.

use super::answer_blocks::Block;
use crate::ledger::packed::{BlockNumber, PackedAnswer, UuidBuffer};
use crate::verdict::{Score, TransactionId};

/// What is stored for a request.
pub(crate) enum AnswerState {
    /// Nothing.
    Absent,
    /// Something, in this block, that is not as it was written.
    Damaged(BlockNumber),
    /// An answer.
    Sound(StoredAnswer),
}

/// An answer as it was written.
pub(crate) struct StoredAnswer {
    pub(crate) transaction_id: TransactionId,
    pub(crate) score: Score,
    /// The number of the list of captured fields.
    pub(crate) capture: Option<i64>,
    /// Their values, as a JSON array.
    pub(crate) captured: Option<String>,
    /// When it arrived, in milliseconds since 1970.
    pub(crate) at: i64,
    /// What it replaced.
    pub(crate) replaced: Option<ReplacedAnswer>,
    /// The block that has it.
    pub(crate) block: BlockNumber,
}

/// What is left of an answer that was replaced.
pub(crate) struct ReplacedAnswer {
    pub(crate) score: Score,
    /// When it had arrived, in milliseconds since 1970.
    pub(crate) at: i64,
}

impl StoredAnswer {
    /// An answer of a block; `None` if it is not one that was ever written.
    pub(super) fn of(packed: &PackedAnswer<'_>, block: &Block<'_>) -> Option<Self> {
        let replaced = match packed.replaced {
            Some(replaced) => Some(ReplacedAnswer {
                score: Score::from_json_number(replaced.digits).ok()?,
                at: replaced.at,
            }),
            None => None,
        };
        let mut buffer = UuidBuffer::default();
        Some(Self {
            transaction_id: TransactionId::new(packed.transaction_id.text(&mut buffer)).ok()?,
            score: Score::from_json_number(packed.score).ok()?,
            capture: block.capture,
            captured: packed.captured.map(str::to_owned),
            at: packed.at,
            replaced,
            block: block.number,
        })
    }
}
