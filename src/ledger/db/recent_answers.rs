//! Answers that were read along with one that was found.
//!
//! A file that is read again asks for its answers in the order in which they came, give or take the calls that were in
//! flight together. So the blocks that follow one that had an answer have the next ones as well: reading many blocks at
//! once costs a fraction of finding each answer by itself.

use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;

use foldhash::fast::RandomState;
use rusqlite::Connection;

use super::answer_blocks;
use super::checksum::Checksums;
use super::found_answer::FoundAnswer;
use crate::ledger::packed::{BlockNumber, PackedKey};

/// The most blocks that are read together: some hundred answers, far more than are in flight together.
const MOST_BLOCKS: u32 = 64;

/// Answers that are kept at most, some hundred bytes each.
const MOST_ANSWERS: usize = 8_192;

/// Places in the ledger that are read on from: a file that has grown over the nights has its answers in a few.
const PLACES: usize = 4;

/// Answers that were read and not asked for yet.
#[derive(Default)]
pub(super) struct RecentAnswers {
    answers: HashMap<PackedKey, FoundAnswer, RandomState>,
    /// Where answers were found last, the latest at the end.
    places: VecDeque<AnswerPlace>,
}

/// Where answers are read on from.
struct AnswerPlace {
    /// The last block that was read.
    last: BlockNumber,
    /// How many blocks were read together; a single one was read for one answer.
    blocks: u32,
}

impl AnswerPlace {
    /// The blocks that were read together.
    const fn range(&self) -> RangeInclusive<BlockNumber> {
        BlockNumber(self.last.0.saturating_sub(self.blocks - 1))..=self.last
    }
}

impl RecentAnswers {
    /// An answer that was read. It is given once: a second look at the same request goes to the latest state.
    pub(super) fn take(&mut self, key: &PackedKey) -> Option<FoundAnswer> {
        if self.answers.is_empty() {
            return None;
        }
        self.answers.remove(key)
    }

    /// Reads blocks around one that had an answer: more of them each time while answers are asked for in order, and none
    /// where there is no order. Blocks that have been read already are not read again: what was read of them could not be
    /// used.
    pub(super) fn read_on(
        &mut self,
        connection: &Connection,
        checksums: Checksums,
        found: BlockNumber,
    ) -> rusqlite::Result<()> {
        if { self.places.iter() }.any(|place| place.blocks > 1 && place.range().contains(&found)) {
            return Ok(());
        }
        let near = |place: &AnswerPlace| place.last.0.abs_diff(found.0) <= MOST_BLOCKS;
        let place = { self.places.iter().rposition(near) }.and_then(|it| self.places.remove(it));
        let blocks = place.map_or(1, |place| (place.blocks * 2).min(MOST_BLOCKS));
        // Calls that were in flight together are answered in any order: some of the next rows are in blocks before.
        let first = BlockNumber(found.0.saturating_sub(blocks / 4));
        let last = BlockNumber(first.0.saturating_add(blocks - 1));
        if self.places.len() == PLACES {
            self.places.pop_front();
        }
        self.places.push_back(AnswerPlace { last, blocks });
        if blocks == 1 {
            return Ok(());
        }
        if self.answers.len() > MOST_ANSWERS {
            self.answers.clear();
        }
        answer_blocks::for_each(connection, checksums, first..=last, |block| {
            if !block.is_sound {
                return Ok(());
            }
            for packed in block.answers() {
                if let Some(answer) = FoundAnswer::of(&packed, block) {
                    self.answers.insert(packed.key, answer);
                }
            }
            Ok(())
        })
    }
}
