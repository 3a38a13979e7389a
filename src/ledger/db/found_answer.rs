//! An answer that was found in a block.

use super::answer_blocks::Block;
use crate::ledger::packed::{BlockNumber, PackedAnswer, UuidBuffer};
use crate::ledger::stored_answer::{ReplacedAnswer, StoredAnswer};
use crate::verdict::{Score, TransactionId};

/// What is stored for a request.
pub(crate) enum AnswerState {
    /// Nothing.
    Absent,
    /// Something, in this block, that is not as it was written.
    Damaged(BlockNumber),
    /// An answer.
    Sound(FoundAnswer),
}

/// An answer, and where it is.
pub(crate) struct FoundAnswer {
    pub(crate) answer: StoredAnswer,
    /// The block that has it.
    pub(crate) block: BlockNumber,
}

impl FoundAnswer {
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
            answer: StoredAnswer {
                transaction_id: TransactionId::new(packed.transaction_id.text(&mut buffer)).ok()?,
                score: Score::from_json_number(&packed.score.text()).ok()?,
                capture: block.capture,
                captured: packed.captured.map(str::to_owned),
                at: packed.at,
                replaced,
            },
            block: block.number,
        })
    }
}
