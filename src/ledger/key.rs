//! What was asked, as sixteen bytes that tell nobody who it was.
//!
//! A key is made of the service's address, the service id and the request's body, with a secret that each ledger draws
//! for itself: two ledgers have nothing in common, and a key cannot be turned back. It must not know how answers are kept.

use std::collections::HashMap;
use std::path::{Path, absolute};

use super::seen::Seen;

/// Names a request. Half of a BLAKE3 hash: among ten million, two that are equal by chance are out of reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub(super) [u8; 16]);

/// Makes keys for one service and one service id, within one ledger.
#[derive(Clone)]
pub struct Keys {
    context: [u8; 32],
}

impl Keys {
    /// Keys of a ledger with this secret for this address and service id.
    pub(super) fn new(secret: &[u8; 32], endpoint: &str, service_id: &str) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        for part in [endpoint, service_id] {
            // The length first: no two pairs run together to the same bytes.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self::of_context(*hasher.finalize().as_bytes())
    }

    /// Keys of a context that a ledger holds.
    pub(super) const fn of_context(context: [u8; 32]) -> Self {
        Self { context }
    }

    pub(super) const fn context(&self) -> &[u8; 32] {
        &self.context
    }

    /// The key of a request with this body. The same user and flags always have the same body.
    #[must_use]
    pub fn key(&self, body: &[u8]) -> Key {
        Key::of(&blake3::keyed_hash(&self.context, body))
    }

    /// Names a run that writes to this file, or to standard output.
    pub(super) fn run(&self, output: Option<&Path>) -> Key {
        // Whole: a file of this name in another directory is another one.
        let path = output.map(|path| absolute(path).unwrap_or_else(|_| path.to_owned()));
        let bytes = path
            .as_ref()
            .map(|path| path.as_os_str().as_encoded_bytes());
        self.key(bytes.unwrap_or_default())
    }

    /// Seals text, or opens what was sealed, with what was asked: without the request's body it is noise.
    pub(super) fn seal(&self, key: &Key, body: &[u8], text: &mut [u8]) {
        let mut hasher = blake3::Hasher::new_keyed(&self.context);
        // Before anything that a key is made of, as a body begins with a brace. The key has equal rows that are asked
        // each differ.
        hasher.update(b"sealed");
        hasher.update(&key.0);
        hasher.update(body);
        let mut noise = vec![0; text.len()];
        hasher.finalize_xof().fill(&mut noise);
        for (byte, noise) in text.iter_mut().zip(noise) {
            *byte ^= noise;
        }
    }

    /// The key of the nth row that asks this; the first has the usual one.
    pub(super) fn nth(&self, body: &[u8], nth: u32) -> Key {
        let mut hasher = blake3::Hasher::new_keyed(&self.context);
        hasher.update(body);
        // A body ends with a brace: with a number behind it, it is no other body.
        hasher.update(&nth.to_le_bytes());
        Key::of(&hasher.finalize())
    }
}

impl Key {
    /// Some key, for tests.
    #[cfg(test)]
    pub(crate) const fn some(number: u8) -> Self {
        Self([number; 16])
    }

    fn of(hash: &blake3::Hash) -> Self {
        let (half, _) = hash.as_bytes().split_at(16);
        let mut key = [0; 16];
        key.copy_from_slice(half);
        Self(key)
    }
}

/// Gives equal requests of a file keys of their own, for runs that ask each of them: the second, third … in the file's
/// order, so that a run that goes on finds each row's own answer again.
#[derive(Default)]
pub(crate) struct Occurrences {
    seen: Seen,
    /// Of those that came more than once. A few that came once are in it as well, as the filter may err; it errs in
    /// the same way whenever the same file is read.
    again: HashMap<Key, u32>,
}

impl Occurrences {
    /// The key of the next row with this body.
    pub(crate) fn key(&mut self, keys: &Keys, body: &[u8]) -> Key {
        let key = keys.key(body);
        if !self.seen.insert(&key) {
            return key;
        }
        let nth = self.again.entry(key).or_insert(1);
        *nth = nth.saturating_add(1);
        keys.nth(body, *nth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_requests_services_accounts_and_ledgers_apart() {
        let keys = |secret, endpoint, id| Keys::new(&[secret; 32], endpoint, id);
        let usual = keys(1, "https://a", "b").key(b"{}");
        assert_eq!(keys(1, "https://a", "b").key(b"{}"), usual);
        for other in [
            keys(2, "https://a", "b").key(b"{}"),
            keys(1, "https://", "ab").key(b"{}"),
            keys(1, "https://a", "c").key(b"{}"),
            keys(1, "https://a", "b").key(b"{ }"),
        ] {
            assert_ne!(other, usual);
        }
    }

    #[test]
    fn the_same_file_gives_the_same_keys_and_no_row_another_ones() {
        let keys = Keys::new(&[1; 32], "https://a", "b");
        let read = || {
            let mut occurrences = Occurrences::default();
            [&b"{1}"[..], b"{2}", b"{1}", b"{1}"].map(|body| occurrences.key(&keys, body))
        };
        let first = read();
        assert_eq!(read(), first);
        assert_eq!(first[0], keys.key(b"{1}"));
        let different: std::collections::HashSet<_> = first.into_iter().collect();
        assert_eq!(different.len(), 4);
    }
}
