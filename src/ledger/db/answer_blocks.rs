//! The table of answer blocks: appending, reading, changing and removing them.
//!
//! Blocks are numbered as they come, and no number is given twice: a reader that has seen all blocks up to one of them has to
//! look only at those that follow. What is in a block is up to `packed`; how an answer is found, to `answers`.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::checksum::Checksums;
use crate::ledger::packed::{
    BlockBuilder, BlockNumber, PackedAnswer, PackedBlock, PackedKey, unpack, unpack_keys,
};

/// A block as it was read.
pub(super) struct Block<'a> {
    pub(super) number: BlockNumber,
    pub(super) context: i64,
    /// The number of the list of captured fields.
    pub(super) capture: Option<i64>,
    /// When its first answer arrived, in milliseconds since 1970.
    pub(super) at: i64,
    /// Whether it is as it was written.
    pub(super) is_sound: bool,
    answers: usize,
    bytes: &'a [u8],
}

/// Who a block's answers belong to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockOwner {
    pub(crate) context: i64,
    /// The number of the list of captured fields.
    pub(crate) capture: Option<i64>,
}

/// The columns that [`Block::of`] reads.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, context, capture, at, answers, bytes, checksum FROM answer_blocks ",
            $rest
        )
    };
}

impl<'a> Block<'a> {
    fn of(row: &'a Row<'_>, checksums: Checksums) -> rusqlite::Result<Self> {
        let (context, capture, at) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let (answers, bytes): (i64, _) = (row.get(4)?, row.get_ref(5)?.as_blob()?);
        let owner = BlockOwner { context, capture };
        let found: i64 = row.get(6)?;
        Ok(Self {
            number: BlockNumber(row.get(0)?),
            context,
            capture,
            at,
            is_sound: found == checksum(checksums, owner, at, answers, bytes),
            answers: usize::try_from(answers).unwrap_or_default(),
            bytes,
        })
    }

    /// Its answers. Those of a block that is not sound may be wrong.
    pub(super) fn answers(&self) -> impl Iterator<Item = PackedAnswer<'a>> {
        unpack(self.bytes, self.answers, self.at)
    }

    /// The keys of its answers.
    pub(super) fn keys(&self) -> impl Iterator<Item = PackedKey> {
        unpack_keys(self.bytes, self.answers).0
    }

    /// Who they belong to.
    pub(super) const fn owner(&self) -> BlockOwner {
        BlockOwner {
            context: self.context,
            capture: self.capture,
        }
    }
}

/// Calls `each` with a block, if there is one of this number.
pub(super) fn read<T>(
    connection: &Connection,
    checksums: Checksums,
    number: BlockNumber,
    each: impl FnOnce(&Block<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    let mut statement = connection.prepare_cached(select!("WHERE id = ?"))?;
    let mut rows = statement.query([number.0])?;
    match rows.next()? {
        Some(row) => each(&Block::of(row, checksums)?).map(Some),
        None => Ok(None),
    }
}

/// Calls `each` with the blocks of these numbers, in order.
pub(super) fn for_each(
    connection: &Connection,
    checksums: Checksums,
    numbers: RangeInclusive<BlockNumber>,
    mut each: impl FnMut(&Block<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare_cached(select!("WHERE id BETWEEN ? AND ? ORDER BY id"))?;
    let mut rows = statement.query([numbers.start().0, numbers.end().0])?;
    while let Some(row) = rows.next()? {
        each(&Block::of(row, checksums)?)?;
    }
    Ok(())
}

/// The number of the last block; 0, which none has, where there is none.
pub(super) fn last(connection: &Connection) -> rusqlite::Result<BlockNumber> {
    connection
        .prepare_cached("SELECT coalesce(max(id), 0) FROM answer_blocks")?
        .query_row([], |row| row.get(0).map(BlockNumber))
}

/// The number of the block that is so many blocks after this one; `None` beyond the last.
pub(super) fn after(
    connection: &Connection,
    number: BlockNumber,
    blocks: u32,
) -> rusqlite::Result<Option<BlockNumber>> {
    connection
        .prepare_cached("SELECT id FROM answer_blocks WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?")?
        .query_row([number.0, blocks.saturating_sub(1)], |row| {
            row.get(0).map(BlockNumber)
        })
        .optional()
}

/// The numbers of all blocks that have answers, in order.
pub(super) fn with_answers(connection: &Connection) -> rusqlite::Result<Vec<BlockNumber>> {
    connection
        .prepare("SELECT id FROM answer_blocks WHERE answers > 0 ORDER BY id")?
        .query_map([], |row| row.get(0).map(BlockNumber))?
        .collect()
}

/// Appends a block: its number.
pub(super) fn append(
    connection: &Connection,
    checksums: Checksums,
    owner: BlockOwner,
    block: &PackedBlock,
) -> rusqlite::Result<BlockNumber> {
    // Not `RETURNING id`: for that, SQLite makes a temporary table each time, with 150 KiB of memory.
    const APPEND: &str =
        "INSERT INTO answer_blocks (context, capture, at, answers, bytes, checksum)
        VALUES (?, ?, ?, ?, ?, ?)";
    let (at, answers, bytes) = columns(block);
    let number = connection.prepare_cached(APPEND)?.insert(params![
        owner.context,
        owner.capture,
        at,
        answers,
        bytes,
        checksum(checksums, owner, at, answers, bytes)
    ])?;
    u32::try_from(number)
        .map(BlockNumber)
        .map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, number))
}

/// Gives a block other answers, of the same owner. Without any it is removed, unless it is the last one: its number would
/// be given again.
pub(super) fn replace(
    connection: &Connection,
    checksums: Checksums,
    (number, owner): (BlockNumber, BlockOwner),
    block: &PackedBlock,
) -> rusqlite::Result<()> {
    const REPLACE: &str =
        "UPDATE answer_blocks SET at = ?, answers = ?, bytes = ?, checksum = ? WHERE id = ?";
    if block.answers == 0 && last(connection)? != number {
        return connection
            .prepare_cached("DELETE FROM answer_blocks WHERE id = ?")?
            .execute([number.0])
            .map(drop);
    }
    let (at, answers, bytes) = columns(block);
    let checksum = checksum(checksums, owner, at, answers, bytes);
    connection
        .prepare_cached(REPLACE)?
        .execute(params![at, answers, bytes, checksum, number.0])
        .map(drop)
}

/// Removes the blocks of a context; the last block stays, empty, if it is one of them: its number would be given again.
pub(super) fn remove_of(
    connection: &Connection,
    checksums: Checksums,
    context: i64,
) -> rusqlite::Result<()> {
    let last = last(connection)?;
    connection.execute(
        "DELETE FROM answer_blocks WHERE context = ? AND id < ?",
        params![context, last.0],
    )?;
    let owner = read(connection, checksums, last, |block| Ok(block.owner()))?;
    match owner.filter(|owner| owner.context == context) {
        Some(owner) => {
            let empty = BlockBuilder::default().block();
            replace(connection, checksums, (last, owner), &empty)
        }
        None => Ok(()),
    }
}

/// Whether there is any answer.
pub(crate) fn any(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM answer_blocks WHERE answers > 0)",
        [],
        |row| row.get(0),
    )
}

/// Whether there is any answer of a context.
pub(crate) fn any_of(connection: &Connection, context: i64) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM answer_blocks WHERE context = ? AND answers > 0)",
        [context],
        |row| row.get(0),
    )
}

/// How many answers there are, of any address and service ID.
pub(crate) fn count_all(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row(
        "SELECT coalesce(sum(answers), 0) FROM answer_blocks",
        [],
        count,
    )
}

/// How many answers there are of a context. It looks at all blocks.
pub(crate) fn count_of(connection: &Connection, context: i64) -> rusqlite::Result<u64> {
    connection.query_row(
        "SELECT coalesce(sum(answers), 0) FROM answer_blocks WHERE context = ?",
        [context],
        count,
    )
}

/// Whether there are answers that another context than this one has paid for: those of the stand-in, which has no URL, cost
/// nothing.
pub(super) fn any_paid_by_others(connection: &Connection, context: i64) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM answer_blocks JOIN contexts ON contexts.id = context
         WHERE context <> ? AND answers > 0 AND endpoint LIKE 'http%')",
        [context],
        |row| row.get(0),
    )
}

/// Answers by the number of their list of captured fields.
pub(super) struct CountsByCapture {
    /// Each list with its answers.
    pub(super) counts: HashMap<Option<i64>, u64>,
    /// Whether all answers were looked at.
    pub(super) whole: bool,
}

/// Counts the answers of a context that are no older by their lists of captured fields. It looks at so many blocks at most,
/// evenly spread over the ledger. A block is as old as its first answer.
pub(super) fn count_by_capture(
    connection: &Connection,
    context: i64,
    not_before: i64,
    at_most: u32,
) -> rusqlite::Result<CountsByCapture> {
    const NEXT: &str = "SELECT id, context, capture, at, answers FROM answer_blocks
        WHERE id >= ? ORDER BY id LIMIT 1";
    let step = last(connection)?.0.div_ceil(at_most.max(1)).max(1);
    let mut statement = connection.prepare(NEXT)?;
    let (mut counts, mut from) = (HashMap::new(), 0_u32);
    loop {
        let mut rows = statement.query([from])?;
        let Some(row) = rows.next()? else {
            break;
        };
        let (number, of, at): (u32, i64, i64) = (row.get(0)?, row.get(1)?, row.get(3)?);
        let answers = row.get::<_, i64>(4)?.unsigned_abs();
        if of == context && at >= not_before && answers > 0 {
            *counts.entry(row.get(2)?).or_default() += answers;
        }
        from = number.saturating_add(step);
    }
    Ok(CountsByCapture {
        counts,
        whole: step == 1,
    })
}

fn count(row: &Row<'_>) -> rusqlite::Result<u64> {
    row.get(0).map(|count: i64| count.unsigned_abs())
}

/// The columns of a block.
fn columns(block: &PackedBlock) -> (i64, i64, &[u8]) {
    let answers = i64::try_from(block.answers).unwrap_or(i64::MAX);
    (block.at, answers, &block.bytes)
}

fn checksum(
    checksums: Checksums,
    BlockOwner { context, capture }: BlockOwner,
    at: i64,
    answers: i64,
    bytes: &[u8],
) -> i64 {
    let values = [
        ValueRef::Integer(context),
        capture.map_or(ValueRef::Null, ValueRef::Integer),
        ValueRef::Integer(at),
        ValueRef::Integer(answers),
        ValueRef::Blob(bytes),
    ];
    checksums.of("answer_blocks", values)
}
