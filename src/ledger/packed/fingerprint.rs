//! The short name of a request in the index, and the entry that says in which block its answer is.

use std::ops::RangeInclusive;

use super::key::PackedKey;

/// The number of a block: they are numbered as they come, from 1. Four billion blocks are fifty times the largest ledger
/// that one machine fills in a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(in crate::ledger) struct BlockNumber(pub(in crate::ledger) u32);

impl BlockNumber {
    /// The next one.
    pub(in crate::ledger) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// 48 bits of a request's key. Of a hundred million requests, some twenty share theirs with another one; the block tells
/// them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::ledger) struct Fingerprint(u64);

/// The low half of a fingerprint.
const LOW_HALF: u64 = (1 << 24) - 1;

impl Fingerprint {
    /// Bits that count.
    const BITS: u32 = 48;

    /// The fingerprint of a request.
    pub(in crate::ledger) fn of(key: &PackedKey) -> Self {
        let [first @ .., _, _, _, _, _, _] = key.hash;
        let Self(hash) = Self::from_bytes(first);
        // Equal rows that are each asked on their own have one hash: a file of a million of them must not make a million
        // equal fingerprints. The high half stays, so that all rows of a request are found together. The constant is
        // that of Fibonacci hashing.
        let row = key.row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - Self::BITS / 2);
        Self(hash ^ row)
    }

    /// All that a request can have, whatever its row.
    pub(in crate::ledger) fn of_any_row(key: &PackedKey) -> RangeInclusive<Self> {
        let Self(one) = Self::of(key);
        Self(one & !LOW_HALF)..=Self(one | LOW_HALF)
    }

    /// A slice of all fingerprints, which so many slices divide evenly; `slices` is a power of two.
    pub(in crate::ledger) fn slice(slice: u64, slices: u64) -> RangeInclusive<Self> {
        let width = (1 << Self::BITS) / slices;
        Self(slice * width)..=Self(slice * width + (width - 1))
    }

    /// As a number that a database sorts the same way.
    pub(in crate::ledger) const fn number(self) -> i64 {
        self.0.cast_signed()
    }

    /// Its bits.
    pub(in crate::ledger) const fn bits(self) -> u64 {
        self.0
    }

    /// Its bytes, which sort as fingerprints do.
    pub(super) const fn to_bytes(self) -> [u8; 6] {
        let [_, _, bytes @ ..] = self.0.to_be_bytes();
        bytes
    }

    /// The fingerprint of these bytes.
    pub(super) fn from_bytes(bytes: [u8; 6]) -> Self {
        let add = |number, byte| number << 8 | u64::from(byte);
        Self(bytes.into_iter().fold(0, add))
    }
}

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 10;

/// Says that the answer to a request with this fingerprint is in this block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::ledger) struct IndexEntry {
    pub(in crate::ledger) fingerprint: Fingerprint,
    pub(in crate::ledger) block: BlockNumber,
}

impl IndexEntry {
    /// Its bytes, which sort as entries do.
    pub(super) fn packed(self) -> [u8; ENTRY_BYTES] {
        let both = u128::from(self.fingerprint.0) << u32::BITS | u128::from(self.block.0);
        let [_, _, _, _, _, _, bytes @ ..] = both.to_be_bytes();
        bytes
    }

    /// The entry of these bytes.
    pub(super) fn unpacked([fingerprint @ .., g, h, i, j]: [u8; ENTRY_BYTES]) -> Self {
        Self {
            fingerprint: Fingerprint::from_bytes(fingerprint),
            block: BlockNumber(u32::from_be_bytes([g, h, i, j])),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_request_differ_and_are_found_together() {
        let key = |row| PackedKey {
            hash: [0xab; 12],
            row,
        };
        let all: std::collections::HashSet<_> =
            (0..100_000).map(|row| Fingerprint::of(&key(row))).collect();
        assert!(all.len() > 99_000, "{}", all.len());
        let range = Fingerprint::of_any_row(&key(0));
        assert!(all.iter().all(|fingerprint| range.contains(fingerprint)));
    }

    #[test]
    fn slices_divide_all_fingerprints() {
        let slices: Vec<_> = (0..256)
            .map(|slice| Fingerprint::slice(slice, 256))
            .collect();
        assert_eq!(slices.first().unwrap().start().bits(), 0);
        assert_eq!(slices.last().unwrap().end().bits(), (1 << 48) - 1);
        for pair in slices.windows(2) {
            let [one, next] = pair else { unreachable!() };
            assert_eq!(one.end().bits() + 1, next.start().bits());
        }
    }

    #[test]
    fn the_bytes_of_entries_sort_as_entries_do() {
        let entry = |bits, block| IndexEntry {
            fingerprint: Fingerprint(bits),
            block: BlockNumber(block),
        };
        let entries = [entry(1, 2), entry(1, 256), entry(256, 1), entry(1 << 47, 0)];
        assert!(entries.is_sorted());
        assert!(entries.map(IndexEntry::packed).is_sorted());
        assert_eq!(entries.map(|it| IndexEntry::unpacked(it.packed())), entries);
    }
}
