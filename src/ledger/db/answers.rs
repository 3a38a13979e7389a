//! The answers of a ledger: finding and counting them.
//!
//! Answers are appended in the order in which they come, so that a group of them changes few pages of the file
//! (`answer_blocks`). Where they are is known from memory for the latest ones (`latest_answers`) and from the index for
//! the others (`answer_index`). This file must not know how answers are packed.

use std::sync::Arc;

use rusqlite::Connection;

use super::answer_blocks::{self, Block};
use super::answer_index;
use super::checksum::Checksums;
use super::contexts;
use super::found_answer::{AnswerState, FoundAnswer};
use super::latest_answers::{LatestAnswers, LedgerState};
use super::recent_answers::RecentAnswers;
use crate::ledger::packed::{BlockNumber, Fingerprint, PackedKey};
use crate::ledger::request_key::RequestKey;

pub(crate) use super::answer_blocks::{any, any_of, count_all, count_of};

/// Finds answers, over one connection.
pub(crate) struct AnswerReader {
    checksums: Checksums,
    latest: Arc<LatestAnswers>,
    recent: RecentAnswers,
    /// What the connection sees, while it is in a transaction.
    state: Option<LedgerState>,
}

impl AnswerReader {
    /// A reader that shares what its process knows of the latest answers.
    pub(crate) fn new(checksums: Checksums, latest: Arc<LatestAnswers>) -> Self {
        Self {
            checksums,
            latest,
            recent: RecentAnswers::default(),
            state: None,
        }
    }

    /// Makes what follows see the ledger's present state.
    pub(crate) fn begin(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        connection.prepare_cached("BEGIN")?.execute([])?;
        self.join(connection)
    }

    /// Ends what [`Self::begin`] started.
    pub(crate) fn end(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.state = None;
        connection.prepare_cached("COMMIT")?.execute([]).map(drop)
    }

    /// Makes what follows see what a transaction that writes sees, which the connection is in.
    pub(super) fn join(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let state = LedgerState::read(connection)?;
        self.latest.update(connection, self.checksums, state)?;
        self.state = Some(state);
        Ok(())
    }

    /// Ends what [`Self::join`] started.
    pub(super) const fn leave(&mut self) {
        self.state = None;
    }

    /// An answer that was read along with one that was found before: answers to a file that is read again follow each
    /// other as they did the first time. It was there a moment ago, and may have been replaced since.
    pub(crate) fn recent(&mut self, key: &RequestKey) -> Option<FoundAnswer> {
        self.recent.take(&key.into())
    }

    /// The answer to a request, and the block that has it.
    pub(crate) fn find(
        &mut self,
        connection: &Connection,
        key: &RequestKey,
    ) -> rusqlite::Result<AnswerState> {
        if self.state.is_some() {
            return self.look(connection, &key.into());
        }
        self.begin(connection)?;
        let found = self.look(connection, &key.into());
        self.end(connection)?;
        found
    }

    /// Whether this process has written a block.
    pub(crate) fn is_ours(&self, block: BlockNumber) -> bool {
        self.latest.is_ours(block)
    }

    /// Whether an answer to this request may have come since this process first saw the ledger: one of this process, or one
    /// that another process had stored when this reader last began. "No" is always right.
    pub(crate) fn may_have_come(&self, key: &RequestKey) -> bool {
        self.latest.may_have(Fingerprint::of(&key.into()))
    }

    fn look(&mut self, connection: &Connection, key: &PackedKey) -> rusqlite::Result<AnswerState> {
        let found = loop {
            let Some(state) = self.state else {
                return Ok(AnswerState::Absent);
            };
            if let Some(found) = find(connection, self.checksums, &self.latest, state, key)? {
                break found;
            }
            // Never in a transaction that writes: nobody else does then, so no newer state can be known.
            self.end(connection)?;
            self.begin(connection)?;
        };
        if let AnswerState::Sound(found) = &found {
            self.recent
                .read_on(connection, self.checksums, found.block)?;
        }
        Ok(found)
    }
}

/// The answer to a request; `None` where this process knows a newer state than this one.
pub(super) fn find(
    connection: &Connection,
    checksums: Checksums,
    latest: &LatestAnswers,
    state: LedgerState,
    key: &PackedKey,
) -> rusqlite::Result<Option<AnswerState>> {
    let fingerprint = Fingerprint::of(key);
    let Some(blocks) = latest.find(fingerprint, state) else {
        return Ok(None);
    };
    let mut found = find_in(connection, checksums, blocks, key)?;
    if !matches!(found, AnswerState::Sound(_)) && state.indexed > BlockNumber::default() {
        let blocks = answer_index::find(connection, fingerprint)?;
        match find_in(connection, checksums, blocks, key)? {
            AnswerState::Absent => {}
            indexed => found = indexed,
        }
    }
    Ok(Some(found))
}

/// The answer to a request, if one of these blocks has it.
fn find_in(
    connection: &Connection,
    checksums: Checksums,
    blocks: Vec<BlockNumber>,
    key: &PackedKey,
) -> rusqlite::Result<AnswerState> {
    let mut found = AnswerState::Absent;
    for number in blocks {
        let in_block = |block: &Block<'_>| {
            if !block.is_sound {
                return Ok(AnswerState::Damaged(number));
            }
            let answer = block.answers().find(|answer| answer.key == *key);
            Ok(answer.map_or(AnswerState::Absent, |answer| {
                FoundAnswer::of(&answer, block)
                    .map_or(AnswerState::Damaged(number), AnswerState::Sound)
            }))
        };
        match answer_blocks::read(connection, checksums, number, in_block)? {
            None | Some(AnswerState::Absent) => {}
            Some(AnswerState::Damaged(number)) => found = AnswerState::Damaged(number),
            Some(sound) => return Ok(sound),
        }
    }
    Ok(found)
}

/// Calls `each` with the context and the time of each answer, in one pass over the table.
pub(crate) fn for_each(
    connection: &Connection,
    checksums: Checksums,
    mut each: impl FnMut(i64, i64),
) -> rusqlite::Result<()> {
    let all = BlockNumber::default()..=BlockNumber(u32::MAX);
    answer_blocks::for_each(connection, checksums, all, |block| {
        for answer in block.answers() {
            each(block.context, answer.at);
        }
        Ok(())
    })
}

/// Removes the answers of a context.
pub(super) fn remove_of(
    connection: &Connection,
    checksums: Checksums,
    context: i64,
) -> rusqlite::Result<()> {
    answer_blocks::remove_of(connection, checksums, context)?;
    if contexts::is_only(connection, context)? {
        answer_index::clear(connection)?;
    }
    // Else the index has entries that lead nowhere, until `prune` cleans it.
    Ok(())
}
