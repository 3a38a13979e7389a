//! Which keys may have come already, in little memory: a Bloom filter.
//!
//! "No" is always true; "yes" is wrong once in some hundred at ten million keys, and then costs a look that finds
//! nothing.

use super::key::Key;

/// 16 MiB: 13 bits a key at ten million. What a small run does not touch, the system does not give.
const WORDS: usize = 1 << 18;
/// Six of thirteen bits a key err least while they cost little.
const PROBES: u64 = 6;

/// Keys that came.
pub(super) struct Seen(Vec<[u64; 8]>);

impl Default for Seen {
    fn default() -> Self {
        Self(vec![[0; 8]; WORDS])
    }
}

impl Seen {
    /// Puts a key in; whether it may have been there.
    pub(super) fn insert(&mut self, key: &Key) -> bool {
        let mut there = true;
        for (line, word, bit) in places(key) {
            if let Some(word) = self.0.get_mut(line).and_then(|line| line.get_mut(word)) {
                there &= *word & bit != 0;
                *word |= bit;
            }
        }
        there
    }

    /// Whether a key may have come.
    pub(super) fn has(&self, key: &Key) -> bool {
        places(key).all(|(line, word, bit)| {
            let word = self.0.get(line).and_then(|line| line.get(word));
            word.is_some_and(|word| word & bit != 0)
        })
    }
}

/// A key's bits: all within one line of the processor's cache. The key is a hash, so its own bits will do.
fn places(key: &Key) -> impl Iterator<Item = (usize, usize, u64)> {
    let bits = u128::from_le_bytes(key.0);
    #[allow(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    let (line, probes) = (bits as usize % WORDS, (bits >> 64) as u64);
    (0..PROBES).map(move |probe| {
        let place = probes >> (probe * 9) & 511;
        #[allow(clippy::cast_possible_truncation, reason = "below 8")]
        (line, (place >> 6) as usize, 1 << (place & 63))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        let hash = blake3::hash(&number.to_le_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(hash.as_bytes().split_at(16).0);
        Key(key)
    }

    #[test]
    fn what_came_is_known_and_nearly_nothing_else() {
        let mut seen = Seen::default();
        let came = 100_000;
        let early = (0..came).filter(|n| seen.insert(&key(*n))).count();
        assert!((0..came).all(|n| seen.has(&key(n))));
        let wrong = (came..2 * came).filter(|n| seen.has(&key(*n))).count();
        assert!(early + wrong < 10, "{early} {wrong}");
    }
}
