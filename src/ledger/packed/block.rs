//! A block: some answers of one account, stored with the same list of captured fields, in the order in which they came.
//!
//! First there are the keys of all answers, so that one can be found without looking at the others, and so that damage to
//! an answer does not hide whose it is; then the answers themselves. An answer with a UUID takes some 33 bytes in all. A
//! block is read as a whole and has one checksum; both are left to the database.

use super::fields::{Fields, put_number, put_signed, put_text};
use super::fingerprint::BlockNumber;
use super::key::{HASH_BYTES, PackedKey};
use super::score::PackedScore;
use super::transaction_id::PackedId;

/// Bytes of a full block. With the other columns of its row, nine of them fill a page of 4 KiB.
const FULL: usize = 422;

/// Each row was asked on its own: the rows' numbers follow the hashes.
const ROWS: u8 = 1;

/// The transaction id is a UUID in its usual form.
const UUID: u8 = 1;
/// Captured values follow.
const CAPTURED: u8 = 2;
/// The score of the answer that this one replaced follows, and when that one had arrived.
const REPLACED: u8 = 4;
/// The block that had the answer which this one replaced follows.
const PREVIOUS: u8 = 8;
/// The flags from here on are a number: one more than the decimals of a score that is packed, and zero before one that is
/// a text.
const DECIMALS: u32 = 4;

/// The score of the answer that another one replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ledger) struct ReplacedScore<'a> {
    pub(in crate::ledger) digits: &'a str,
    /// When it had arrived.
    pub(in crate::ledger) at: i64,
}

/// An answer as it is in a block, with times in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ledger) struct PackedAnswer<'a> {
    pub(in crate::ledger) key: PackedKey,
    /// When it arrived.
    pub(in crate::ledger) at: i64,
    pub(in crate::ledger) transaction_id: PackedId<'a>,
    pub(in crate::ledger) score: PackedScore<'a>,
    /// The captured values, as a JSON array.
    pub(in crate::ledger) captured: Option<&'a str>,
    pub(in crate::ledger) replaced: Option<ReplacedScore<'a>>,
    /// The block that had the answer which this one replaced.
    pub(in crate::ledger) previous: Option<BlockNumber>,
}

/// Packs answers into a block.
#[derive(Debug, Default)]
pub(in crate::ledger) struct BlockBuilder {
    hashes: Vec<u8>,
    rows: Vec<u8>,
    has_rows: bool,
    bodies: Vec<u8>,
    answers: usize,
    at: i64,
}

/// A block of answers.
#[derive(Debug)]
pub(in crate::ledger) struct PackedBlock {
    /// When its first answer arrived, in milliseconds since 1970: other times are counted from there.
    pub(in crate::ledger) at: i64,
    /// How many answers it has.
    pub(in crate::ledger) answers: usize,
    pub(in crate::ledger) bytes: Vec<u8>,
}

impl BlockBuilder {
    /// Adds an answer.
    pub(in crate::ledger) fn add(&mut self, answer: &PackedAnswer<'_>) {
        if self.answers == 0 {
            self.at = answer.at;
        }
        self.answers += 1;
        self.hashes.extend_from_slice(&answer.key.hash);
        put_number(&mut self.rows, answer.key.row);
        self.has_rows |= answer.key.row != 0;
        let flags = [
            (UUID, matches!(answer.transaction_id, PackedId::Uuid(_))),
            (CAPTURED, answer.captured.is_some()),
            (REPLACED, answer.replaced.is_some()),
            (PREVIOUS, answer.previous.is_some()),
        ];
        let flags = flags.into_iter().filter(|(_, is_set)| *is_set);
        let mut flags = flags.fold(0, |all, (flag, _)| all | flag);
        if let PackedScore::Decimal { decimals, .. } = answer.score {
            flags |= (decimals + 1) << DECIMALS;
        }
        let bytes = &mut self.bodies;
        bytes.push(flags);
        put_signed(bytes, answer.at.wrapping_sub(self.at));
        match answer.transaction_id {
            PackedId::Uuid(uuid) => bytes.extend_from_slice(&uuid),
            PackedId::Text(text) => put_text(bytes, text),
        }
        match answer.score {
            PackedScore::Decimal { digits, .. } => put_number(bytes, digits),
            PackedScore::Text(text) => put_text(bytes, text),
        }
        if let Some(captured) = answer.captured {
            put_text(bytes, captured);
        }
        if let Some(replaced) = answer.replaced {
            put_text(bytes, replaced.digits);
            put_signed(bytes, self.at.wrapping_sub(replaced.at));
        }
        if let Some(BlockNumber(number)) = answer.previous {
            put_number(bytes, number.into());
        }
    }

    /// How many answers it has.
    pub(in crate::ledger) const fn len(&self) -> usize {
        self.answers
    }

    /// Whether one more answer like these would be too much.
    pub(in crate::ledger) const fn is_full(&self) -> bool {
        let length = self.hashes.len() + self.bodies.len();
        match length.checked_div(self.answers) {
            Some(each) => length + each > FULL,
            None => false,
        }
    }

    /// The block with the answers so far.
    pub(in crate::ledger) fn block(&self) -> PackedBlock {
        let (flags, rows) = if self.has_rows {
            (ROWS, &*self.rows)
        } else {
            (0, &[][..])
        };
        PackedBlock {
            at: self.at,
            answers: self.answers,
            bytes: [&[flags][..], &self.hashes, rows, &self.bodies].concat(),
        }
    }

    /// Starts the next block.
    pub(in crate::ledger) fn clear(&mut self) {
        for part in [&mut self.hashes, &mut self.rows, &mut self.bodies] {
            part.clear();
        }
        (self.has_rows, self.answers, self.at) = (false, 0, 0);
    }
}

impl PackedBlock {
    /// Its answers.
    pub(in crate::ledger) fn answers(&self) -> impl Iterator<Item = PackedAnswer<'_>> {
        unpack(&self.bytes, self.answers, self.at)
    }
}

/// The keys of so many answers, and the bytes after them. Bytes that were not packed here have fewer.
pub(in crate::ledger) fn unpack_keys(
    bytes: &[u8],
    answers: usize,
) -> (impl Iterator<Item = PackedKey>, &[u8]) {
    let (flags, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let length = bytes.len().min(answers.saturating_mul(HASH_BYTES));
    let (hashes, mut rest) = bytes.split_at_checked(length).unwrap_or_default();
    let (hashes, _) = hashes.as_chunks::<HASH_BYTES>();
    let mut rows = None;
    if flags & ROWS != 0 {
        rows = Some(Fields(rest));
        let mut fields = Fields(rest);
        for _ in hashes {
            let _ = fields.number();
        }
        rest = fields.0;
    }
    let keys = hashes.iter().map(move |hash| PackedKey {
        hash: *hash,
        row: { rows.as_mut() }.map_or(0, |rows| rows.number().unwrap_or_default()),
    });
    (keys, rest)
}

/// So many answers of a block whose first one arrived at this time. Bytes that were not packed here end it early.
pub(in crate::ledger) fn unpack(
    bytes: &[u8],
    answers: usize,
    block_at: i64,
) -> impl Iterator<Item = PackedAnswer<'_>> {
    let (mut keys, rest) = unpack_keys(bytes, answers);
    let mut fields = Fields(rest);
    std::iter::from_fn(move || PackedAnswer::take(keys.next()?, &mut fields, block_at))
}

impl<'a> PackedAnswer<'a> {
    /// The next answer of a block whose first one arrived at this time.
    fn take(key: PackedKey, fields: &mut Fields<'a>, block_at: i64) -> Option<Self> {
        let [flags] = fields.bytes()?;
        let has = |flag| flags & flag != 0;
        let at = block_at.wrapping_add(fields.signed()?);
        let transaction_id = if has(UUID) {
            PackedId::Uuid(fields.bytes()?)
        } else {
            PackedId::Text(fields.text()?)
        };
        let score = match (flags >> DECIMALS).checked_sub(1) {
            Some(decimals) => PackedScore::Decimal {
                digits: fields.number()?,
                decimals,
            },
            None => PackedScore::Text(fields.text()?),
        };
        let captured = if has(CAPTURED) {
            Some(fields.text()?)
        } else {
            None
        };
        let replaced = if has(REPLACED) {
            Some(ReplacedScore {
                digits: fields.text()?,
                at: block_at.wrapping_sub(fields.signed()?),
            })
        } else {
            None
        };
        let previous = if has(PREVIOUS) {
            Some(BlockNumber(u32::try_from(fields.number()?).ok()?))
        } else {
            None
        };
        Some(Self {
            key,
            at,
            transaction_id,
            score,
            captured,
            replaced,
            previous,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a [`PackedAnswer`] is made from.
    type Parts = (
        ([u8; 12], u64),
        i64,
        String,
        String,
        Option<String>,
        Option<(String, i64)>,
        Option<u32>,
    );

    fn answer(parts: &Parts) -> PackedAnswer<'_> {
        let ((hash, row), at, id, score, captured, replaced, previous) = parts;
        PackedAnswer {
            key: PackedKey {
                hash: *hash,
                row: *row,
            },
            at: *at,
            transaction_id: PackedId::of(id),
            score: PackedScore::of(score),
            captured: captured.as_deref(),
            replaced: { replaced.as_ref() }.map(|(digits, at)| ReplacedScore { digits, at: *at }),
            previous: previous.map(BlockNumber),
        }
    }

    proptest! {
        #[test]
        fn answers_come_back_as_they_were(all: Vec<Parts>) {
            let mut block = BlockBuilder::default();
            for parts in &all {
                block.add(&answer(parts));
            }
            let block = block.block();
            let expected: Vec<_> = all.iter().map(answer).collect();
            let unpacked: Vec<_> = block.answers().collect();
            prop_assert_eq!(&unpacked, &expected);
            let (keys, _) = unpack_keys(&block.bytes, block.answers);
            prop_assert!(keys.eq(expected.iter().map(|answer| answer.key)));
        }

        #[test]
        fn no_bytes_are_too_odd(bytes: Vec<u8>, answers: usize, at: i64) {
            prop_assert!(unpack(&bytes, answers, at).count() <= bytes.len());
        }
    }

    #[test]
    fn nine_full_blocks_fit_into_a_page() {
        for score in ["7", "12.34", "0.123456789"] {
            let mut block = BlockBuilder::default();
            while !block.is_full() {
                block.add(&PackedAnswer {
                    key: PackedKey {
                        hash: [1; 12],
                        row: 0,
                    },
                    at: 1_780_000_000_000 + 40 * i64::try_from(block.len()).unwrap(),
                    transaction_id: PackedId::Uuid([2; 16]),
                    score: PackedScore::of(score),
                    captured: None,
                    replaced: None,
                    previous: None,
                });
            }
            // What the other columns of its row take, and what a page has besides rows.
            assert!(9 * (block.block().bytes.len() + 27) + 8 <= 4_096);
            assert!(block.len() >= 9, "{}", block.len());
        }
    }
}
