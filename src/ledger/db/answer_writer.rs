//! Storing the answers of a run, in groups, and moving what memory has of them to the index.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use rusqlite::Connection;

use super::answer_blocks::{self, BlockOwner};
use super::checksum::Checksums;
use super::connect::writing;
use super::errors::damaged;
use super::found_answer::AnswerState;
use super::latest_answers::{LatestAnswers, LedgerState};
use super::{answer_index, answer_removal, answers, schema};
use crate::ledger::packed::{
    BlockBuilder, BlockNumber, Fingerprint, IndexEntry, MOST_ENTRIES, PackedAnswer, PackedId,
    PackedKey, PackedScore, ReplacedScore,
};
use crate::ledger::request_key::RequestKey;
use crate::ledger::stored_answer::{ReplacedAnswer, StoredAnswer};
use crate::verdict::Answer;

/// Stores the answers of one run.
pub(crate) struct AnswerWriter {
    pub(crate) checksums: Checksums,
    pub(crate) latest: Arc<LatestAnswers>,
    /// The number of the context.
    pub(crate) context: i64,
    /// When the run started.
    pub(crate) started: i64,
}

/// An answer that is to be stored.
#[derive(Clone, Copy)]
pub(crate) struct ArrivedAnswer<'a> {
    pub(crate) key: &'a RequestKey,
    pub(crate) answer: &'a Answer,
    /// When it arrived, in milliseconds since 1970.
    pub(crate) at: i64,
    /// The number of the list of fields that it has values of.
    pub(crate) capture: Option<i64>,
}

/// Answers that have been written and are not durable yet.
#[must_use]
#[derive(Default)]
pub(crate) struct WrittenAnswers(Vec<(BlockNumber, PackedKey, Option<BlockNumber>)>);

/// A group of answers while it is written.
struct OpenGroup<'a> {
    connection: &'a Connection,
    block: BlockBuilder,
    /// The number of the list of fields of its answers.
    capture: Option<i64>,
    /// Those in the block that is being filled.
    unwritten: Vec<(PackedKey, Option<BlockNumber>)>,
    written: WrittenAnswers,
    /// Answers that are replaced, by their blocks.
    replaced: BTreeMap<BlockNumber, Vec<PackedKey>>,
}

impl AnswerWriter {
    /// Writes answers in a transaction, each in place of an older one.
    pub(crate) fn put<'a>(
        &self,
        connection: &Connection,
        answers: impl Iterator<Item = ArrivedAnswer<'a>>,
    ) -> rusqlite::Result<WrittenAnswers> {
        let state = LedgerState::read(connection)?;
        self.latest.update(connection, self.checksums, state)?;
        let mut group = OpenGroup {
            connection,
            block: BlockBuilder::default(),
            capture: None,
            unwritten: Vec::new(),
            written: WrittenAnswers::default(),
            replaced: BTreeMap::new(),
        };
        for new in answers {
            if group.block.len() > 0 && group.capture != new.capture {
                self.append(&mut group)?;
            }
            group.capture = new.capture;
            self.add(&mut group, state, new)?;
            if group.block.is_full() {
                self.append(&mut group)?;
            }
        }
        if group.block.len() > 0 {
            self.append(&mut group)?;
        }
        for (number, keys) in &group.replaced {
            answer_removal::remove(connection, self.checksums, *number, |key| {
                keys.contains(key)
            })?;
        }
        Ok(group.written)
    }

    fn add(
        &self,
        group: &mut OpenGroup<'_>,
        state: LedgerState,
        new: ArrivedAnswer<'_>,
    ) -> rusqlite::Result<()> {
        let ArrivedAnswer {
            key, answer, at, ..
        } = new;
        let packed_key = PackedKey::from(key);
        let found = answers::find(
            group.connection,
            self.checksums,
            &self.latest,
            state,
            &packed_key,
        )?;
        // Nobody else writes during a transaction that does, so no newer state can be known.
        let (block, replaced) = match found.ok_or_else(damaged)? {
            AnswerState::Absent => (None, None),
            AnswerState::Damaged(block) => (Some(block), None),
            AnswerState::Sound(old) => {
                let replaced = group.replaced.entry(old.block).or_default();
                replaced.push(packed_key);
                (Some(old.block), self.kept_of(old.answer))
            }
        };
        let previous = match block {
            Some(block) if self.has_one(group.connection, block, &packed_key)? => Some(block),
            _ => None,
        };
        let captured = { new.capture }.and_then(|_| serde_json::to_string(&answer.captured).ok());
        group.block.add(&PackedAnswer {
            key: packed_key,
            at,
            transaction_id: PackedId::of(answer.transaction_id.as_str()),
            score: PackedScore::of(answer.score.digits()),
            captured: captured.as_deref(),
            replaced: replaced.as_ref().map(|replaced| ReplacedScore {
                digits: replaced.score.digits(),
                at: replaced.at,
            }),
            previous,
        });
        group.unwritten.push((packed_key, previous));
        Ok(())
    }

    /// Whether the answer to this request is the only one in a block with its fingerprint: the entry that leads there is then
    /// of no more use once it is replaced.
    fn has_one(
        &self,
        connection: &Connection,
        block: BlockNumber,
        key: &PackedKey,
    ) -> rusqlite::Result<bool> {
        let fingerprint = Fingerprint::of(key);
        let same = answer_blocks::read(connection, self.checksums, block, |block| {
            let same = block.keys().filter(|it| Fingerprint::of(it) == fingerprint);
            Ok(same.count())
        })?;
        Ok(same == Some(1))
    }

    /// What an answer keeps of the one that it replaces: the score of one from before the run; of one that arrived since,
    /// what that one kept itself.
    fn kept_of(&self, old: StoredAnswer) -> Option<ReplacedAnswer> {
        if old.at < self.started {
            Some(ReplacedAnswer {
                score: old.score,
                at: old.at,
            })
        } else {
            old.replaced
        }
    }

    fn append(&self, group: &mut OpenGroup<'_>) -> rusqlite::Result<()> {
        let owner = BlockOwner {
            context: self.context,
            capture: group.capture,
        };
        let block = group.block.block();
        let number = answer_blocks::append(group.connection, self.checksums, owner, &block)?;
        let written = group.unwritten.drain(..);
        let written = written.map(|(key, previous)| (number, key, previous));
        group.written.0.extend(written);
        group.block.clear();
        Ok(())
    }

    /// What was written is durable now: it can be found.
    ///
    /// # Errors
    /// The index cannot be written. The answers are durable all the same.
    pub(crate) fn committed(
        &self,
        connection: &Connection,
        written: &WrittenAnswers,
    ) -> rusqlite::Result<()> {
        self.latest.append(&written.0);
        let (entries, _) = self.latest.extent();
        if entries > MOST_ENTRIES {
            merge(connection, &self.latest)?;
        }
        Ok(())
    }
}

/// Moves what memory has to the index, in several transactions, so that others can write in between. If it is interrupted,
/// what was moved is in both, and moving it again changes nothing.
pub(crate) fn merge(connection: &Connection, latest: &LatestAnswers) -> rusqlite::Result<()> {
    let (_, last) = latest.extent();
    for range in answer_index::turns() {
        let (new, outdated) = latest.within(&range);
        let transaction = writing(connection)?;
        answer_index::change(&transaction, &range, |entries, slice| {
            entries.extend(within(&new, slice));
            // Two runs in order, which this merges.
            entries.sort();
            entries.dedup();
            let outdated = within(&outdated, slice);
            entries.retain(|entry| outdated.binary_search(entry).is_err());
        })?;
        transaction.commit()?;
    }
    let transaction = writing(connection)?;
    schema::set_indexed(&transaction, last.0)?;
    transaction.commit()?;
    latest.forget_indexed(last);
    Ok(())
}

/// The entries, which are in order, within a slice.
fn within<'a>(entries: &'a [IndexEntry], slice: &RangeInclusive<Fingerprint>) -> &'a [IndexEntry] {
    let first = entries.partition_point(|it| it.fingerprint < *slice.start());
    let end = entries.partition_point(|it| it.fingerprint <= *slice.end());
    entries.get(first..end).unwrap_or_default()
}
