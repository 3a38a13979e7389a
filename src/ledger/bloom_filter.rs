//! A Bloom filter: which requests may have been answered in this run, in little memory.
//!
//! "No" is always right. "Yes" is wrong for about one request in fifty at four million answers and one in four at ten
//! million. It then costs a lookup that finds nothing, or an answer that another run has just stored is counted as a
//! duplicate.

use super::packed::Fingerprint;

/// Cache lines of 64 bytes: 4 MiB, which is eight bits an answer at four million answers, and three at ten million.
const LINES: usize = 1 << 16;
/// Few enough for three bits an answer, and enough for more of them.
const PROBES: u32 = 4;

/// A set of requests that may contain a few more than were inserted.
pub(super) struct BloomFilter(Vec<[u64; 8]>);

impl Default for BloomFilter {
    fn default() -> Self {
        Self(vec![[0; 8]; LINES])
    }
}

impl BloomFilter {
    /// Inserts a request.
    pub(super) fn insert(&mut self, request: Fingerprint) {
        for (line, word, bit) in bits_of(request) {
            if let Some(word) = self.0.get_mut(line).and_then(|line| line.get_mut(word)) {
                *word |= bit;
            }
        }
    }

    /// Whether a request may have been inserted.
    pub(super) fn may_contain(&self, request: Fingerprint) -> bool {
        bits_of(request).all(|(line, word, bit)| {
            let word = self.0.get(line).and_then(|line| line.get(word));
            word.is_some_and(|word| word & bit != 0)
        })
    }
}

/// A request's bits, all within one cache line.
fn bits_of(request: Fingerprint) -> impl Iterator<Item = (usize, usize, u64)> {
    // The bits of a fingerprint are random; an odd factor makes enough of them for all probes.
    let bits = request.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let probes = bits ^ (request.bits() << 16);
    #[allow(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    let line = request.bits() as usize % LINES;
    (0..PROBES).map(move |probe| {
        let place = probes >> (28 + probe * 9) & 511;
        #[allow(clippy::cast_possible_truncation, reason = "below 8")]
        (line, (place >> 6) as usize, 1 << (place & 63))
    })
}

#[cfg(test)]
mod tests {
    use super::super::packed::PackedKey;
    use super::*;

    fn request(number: u32) -> Fingerprint {
        let digest = blake3::hash(&number.to_le_bytes());
        let mut hash = [0; 16];
        hash.copy_from_slice(digest.as_bytes().split_at(16).0);
        Fingerprint::of(&PackedKey::of_hash(&hash))
    }

    fn row(number: u32) -> Fingerprint {
        Fingerprint::of(&PackedKey {
            row: number.into(),
            hash: [7; 12],
        })
    }

    #[test]
    fn inserted_requests_are_found_and_nearly_no_others() {
        let mut filter = BloomFilter::default();
        let inserted = 100_000;
        for number in 0..inserted {
            filter.insert(request(number));
        }
        assert!((0..inserted).all(|number| filter.may_contain(request(number))));
        let others = inserted..2 * inserted;
        let wrong = others.filter(|n| filter.may_contain(request(*n))).count();
        assert!(wrong < 10, "{wrong}");
        // Equal requests of different rows: half as many bits of a fingerprint differ.
        let mut filter = BloomFilter::default();
        for number in 0..inserted {
            filter.insert(row(number));
        }
        let wrong = (inserted..2 * inserted).filter(|n| filter.may_contain(row(*n)));
        assert!(wrong.count() < 2_000);
    }
}
