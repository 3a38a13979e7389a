//! Removing answers from their blocks: those that were replaced, those about people who want to be forgotten, and old ones.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use rusqlite::Connection;

use super::answer_blocks::{self, Block};
use super::answer_index;
use super::checksum::Checksums;
use crate::ledger::packed::{
    BlockBuilder, BlockNumber, Fingerprint, IndexEntry, PackedAnswer, PackedKey,
};
use crate::ledger::request_key::KeyHash;

/// Gives a block what `keep` leaves of its answers: how many were removed. What of a damaged block cannot be made out is
/// removed.
fn edit<'a>(
    connection: &Connection,
    checksums: Checksums,
    block: &Block<'a>,
    mut keep: impl FnMut(PackedAnswer<'a>) -> Option<PackedAnswer<'a>>,
) -> rusqlite::Result<usize> {
    let mut left = BlockBuilder::default();
    let mut changed = !block.is_sound;
    for answer in block.answers() {
        let kept = keep(answer);
        changed |= kept.as_ref() != Some(&answer);
        if let Some(kept) = kept {
            left.add(&kept);
        }
    }
    if changed {
        let place = (block.number, block.owner());
        answer_blocks::replace(connection, checksums, place, &left.block())?;
    }
    Ok(block.keys().count().saturating_sub(left.len()))
}

/// Removes answers from a block: how many there were. A damaged block stays as it is: what is left of it would look sound.
pub(super) fn remove(
    connection: &Connection,
    checksums: Checksums,
    number: BlockNumber,
    which: impl Fn(&PackedKey) -> bool,
) -> rusqlite::Result<usize> {
    let removed = answer_blocks::read(connection, checksums, number, |block| {
        if !block.is_sound {
            return Ok(0);
        }
        edit(connection, checksums, block, |answer| {
            (!which(&answer.key)).then_some(answer)
        })
    })?;
    Ok(removed.unwrap_or_default())
}

/// The entries that the index has for a request, of all rows. Some may be those of other requests, or lead nowhere.
fn entries_of(connection: &Connection, hash: &KeyHash) -> rusqlite::Result<Vec<IndexEntry>> {
    let range = Fingerprint::of_any_row(&PackedKey::of_hash(hash));
    answer_index::within(connection, &range)
}

/// The blocks of these entries, in order.
fn blocks_of(entries: &[IndexEntry]) -> BTreeSet<BlockNumber> {
    entries.iter().map(|entry| entry.block).collect()
}

/// How many answers the index knows to a request, of all rows; `None` where it has no entry at all.
pub(crate) fn count_to(
    connection: &Connection,
    checksums: Checksums,
    hash: &KeyHash,
) -> rusqlite::Result<Option<u64>> {
    let wanted = PackedKey::of_hash(hash);
    let entries = entries_of(connection, hash)?;
    let mut count = 0;
    for block in blocks_of(&entries) {
        answer_blocks::read(connection, checksums, block, |block| {
            let same = block.keys().filter(|it| it.hash == wanted.hash);
            count += same.count() as u64;
            Ok(())
        })?;
    }
    Ok((!entries.is_empty()).then_some(count))
}

/// Removes the answers that the index knows to a request, of all rows: how many there were. A damaged block that has one is
/// removed as a whole: nothing else in it can be used, and nothing of it must stay.
pub(crate) fn remove_to(
    connection: &Connection,
    checksums: Checksums,
    hash: &KeyHash,
) -> rusqlite::Result<usize> {
    let wanted = PackedKey::of_hash(hash);
    let is_wanted = |key: &PackedKey| key.hash == wanted.hash;
    let entries = entries_of(connection, hash)?;
    let mut removed = 0;
    for number in blocks_of(&entries) {
        let of_block = answer_blocks::read(connection, checksums, number, |block| {
            if !block.keys().any(|key| is_wanted(&key)) {
                return Ok(0);
            }
            let is_sound = block.is_sound;
            edit(connection, checksums, block, |answer| {
                (is_sound && !is_wanted(&answer.key)).then_some(answer)
            })
        })?;
        removed += of_block.unwrap_or_default();
    }
    // Not those that another request shares. But also those that led nowhere before: nothing of the request must stay.
    for entry in entries {
        if !leads_somewhere(connection, checksums, entry)? {
            answer_index::remove(connection, entry)?;
        }
    }
    Ok(removed)
}

/// Whether the block of an entry has an answer that the entry can be for.
fn leads_somewhere(
    connection: &Connection,
    checksums: Checksums,
    IndexEntry { fingerprint, block }: IndexEntry,
) -> rusqlite::Result<bool> {
    let has_it = answer_blocks::read(connection, checksums, block, |block| {
        Ok({ block.keys() }.any(|key| Fingerprint::of(&key) == fingerprint))
    })?;
    Ok(has_it.unwrap_or_default())
}

/// Blocks that are few enough to be changed in one transaction.
pub(crate) struct Piece {
    numbers: RangeInclusive<BlockNumber>,
}

impl Piece {
    /// The piece of so many blocks that follows a piece; the first one after `None`.
    pub(crate) fn next(
        connection: &Connection,
        previous: Option<&Self>,
        blocks: u32,
    ) -> rusqlite::Result<Option<Self>> {
        let before = previous.map(|piece| *piece.numbers.end());
        let before = before.unwrap_or_default();
        let end = answer_blocks::last(connection)?;
        if before >= end {
            return Ok(None);
        }
        let last = answer_blocks::after(connection, before, blocks)?;
        Ok(Some(Self {
            numbers: before.next()..=last.unwrap_or(end),
        }))
    }

    /// Removes the answers of this piece that are older, and from the others the scores of older ones that they replaced:
    /// how many answers were removed. A damaged block is as old as its first answer seems to be.
    pub(crate) fn remove_before(
        &self,
        connection: &Connection,
        checksums: Checksums,
        before: i64,
    ) -> rusqlite::Result<usize> {
        let mut removed = 0;
        answer_blocks::for_each(connection, checksums, self.numbers.clone(), |block| {
            let (is_sound, is_old) = (block.is_sound, block.at < before);
            if !is_sound && !is_old {
                return Ok(());
            }
            removed += edit(connection, checksums, block, |answer| {
                if !is_sound || answer.at < before {
                    return None;
                }
                Some(PackedAnswer {
                    replaced: answer.replaced.filter(|replaced| replaced.at >= before),
                    ..answer
                })
            })?;
            Ok(())
        })?;
        Ok(removed)
    }
}

/// What is left of the index when it is cleaned.
pub(crate) struct IndexCleaning {
    /// Blocks that have answers, in order.
    blocks: Vec<BlockNumber>,
    /// The last block that there was.
    last: BlockNumber,
}

impl IndexCleaning {
    /// Begins, with what is in the ledger now.
    pub(crate) fn new(connection: &Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            last: answer_blocks::last(connection)?,
            blocks: answer_blocks::with_answers(connection)?,
        })
    }

    /// The parts of the index, each small enough for one transaction.
    pub(crate) fn turns() -> impl Iterator<Item = RangeInclusive<Fingerprint>> {
        answer_index::turns()
    }

    /// Removes the entries of a part that lead nowhere.
    pub(crate) fn clean(
        &self,
        connection: &Connection,
        turn: &RangeInclusive<Fingerprint>,
    ) -> rusqlite::Result<()> {
        answer_index::change(connection, turn, |entries, _| {
            // Blocks that were appended since are not known here.
            entries.retain(|entry| {
                entry.block > self.last || self.blocks.binary_search(&entry.block).is_ok()
            });
        })
    }
}

/// Changes all answers, for tests: how many were removed.
#[cfg(test)]
pub(crate) fn change_all(
    connection: &Connection,
    mut change: impl for<'a> FnMut(PackedAnswer<'a>) -> Option<PackedAnswer<'a>>,
) -> rusqlite::Result<usize> {
    let checksums = super::schema::LedgerInfo::read(connection)?.checksums();
    let all = BlockNumber::default()..=answer_blocks::last(connection)?;
    let mut removed = 0;
    answer_blocks::for_each(connection, checksums, all, |block| {
        removed += edit(connection, checksums, block, &mut change)?;
        Ok(())
    })?;
    Ok(removed)
}
