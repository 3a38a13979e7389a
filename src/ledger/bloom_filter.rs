//! A Bloom filter: which keys may have been seen before, in little memory.
//!
//! "No" is always right. "Yes" is wrong for about one key in a hundred at ten million keys, and then costs a lookup that
//! finds nothing.

use super::request_key::RequestKey;

/// Cache lines of 64 bytes: 16 MiB, which is 13 bits a key at ten million keys. The system does not allocate what a
/// small run does not touch.
const LINES: usize = 1 << 18;
/// With thirteen bits a key, six probes give nearly the lowest error rate at little cost.
const PROBES: u64 = 6;

/// A set of keys that may contain a few more than were inserted.
pub(super) struct BloomFilter(Vec<[u64; 8]>);

impl Default for BloomFilter {
    fn default() -> Self {
        Self(vec![[0; 8]; LINES])
    }
}

impl BloomFilter {
    /// Inserts a key.
    pub(super) fn insert(&mut self, key: &RequestKey) {
        for (line, word, bit) in bits_of(key) {
            if let Some(word) = self.0.get_mut(line).and_then(|line| line.get_mut(word)) {
                *word |= bit;
            }
        }
    }

    /// Whether a key may have been inserted.
    pub(super) fn may_contain(&self, key: &RequestKey) -> bool {
        bits_of(key).all(|(line, word, bit)| {
            let word = self.0.get(line).and_then(|line| line.get(word));
            word.is_some_and(|word| word & bit != 0)
        })
    }
}

/// A key's bits, all within one cache line. The hash's own bits are random enough; an odd factor spreads row numbers
/// over all lines.
fn bits_of(key: &RequestKey) -> impl Iterator<Item = (usize, usize, u64)> {
    const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let bits = u128::from_le_bytes(key.hash) ^ u128::from(key.row).wrapping_mul(SPREAD);
    #[allow(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    let (line, probes) = (bits as usize % LINES, (bits >> 64) as u64);
    (0..PROBES).map(move |probe| {
        let place = probes >> (probe * 9) & 511;
        #[allow(clippy::cast_possible_truncation, reason = "below 8")]
        (line, (place >> 6) as usize, 1 << (place & 63))
    })
}

#[cfg(test)]
mod tests {
    use super::super::request_key::KeyHash;
    use super::*;

    fn key(number: u32) -> RequestKey {
        let digest = blake3::hash(&number.to_le_bytes());
        let mut hash = KeyHash::default();
        hash.copy_from_slice(digest.as_bytes().split_at(16).0);
        RequestKey { hash, row: 0 }
    }

    fn row(number: u32) -> RequestKey {
        RequestKey {
            row: number.into(),
            ..key(0)
        }
    }

    #[test]
    fn inserted_keys_are_found_and_nearly_no_others() {
        // Different requests, and equal ones of different rows.
        for key in [key, row] {
            let mut filter = BloomFilter::default();
            let inserted = 100_000;
            let mut early = 0;
            for number in 0..inserted {
                early += u32::from(filter.may_contain(&key(number)));
                filter.insert(&key(number));
            }
            assert!((0..inserted).all(|number| filter.may_contain(&key(number))));
            let others = inserted..2 * inserted;
            let wrong = others.filter(|n| filter.may_contain(&key(*n))).count();
            assert!(early < 10 && wrong < 10, "{early} {wrong}");
        }
    }
}
