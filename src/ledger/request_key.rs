//! Names for requests: what was asked, without telling who it was about.
//!
//! A key is a hash of the service's address, the service ID and the request's body, made with a secret that each ledger
//! draws for itself, and a row number. Two ledgers have no key in common, and a key cannot be turned back into a
//! request. Keys that are gone with the run only have to be different, and a faster hash makes them. This file must not know
//! how answers are stored.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::path::{Path, absolute};

use foldhash::fast::FixedState;
use siphasher::sip128::SipHasher13;

use crate::row::RowNumber;

/// Half of a BLAKE3 hash, or SipHash-1-3 with 128 bits: among ten million, two that are equal by chance are out of reach.
pub(super) type KeyHash = [u8; 16];

/// Names a request. Rows with the same key share one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey {
    /// The request.
    pub(super) hash: KeyHash,
    /// 0 where equal rows share an answer, and the row's number where each row is asked on its own.
    pub(super) row: u64,
}

impl Hash for RequestKey {
    /// In one step: the bits are those of a hash already.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(u128::from_le_bytes(self.hash) ^ u128::from(self.row));
    }
}

impl RequestKey {
    /// The key of the same request for this row alone.
    #[must_use]
    pub(crate) fn for_row(self, row: RowNumber) -> Self {
        Self {
            row: row.get(),
            ..self
        }
    }

    /// The hash of the request: equal requests have the same one.
    #[must_use]
    pub(crate) const fn hash(&self) -> [u8; 16] {
        self.hash
    }

    /// The row as the database stores it.
    pub(super) fn stored_row(&self) -> i64 {
        // No file has that many rows.
        i64::try_from(self.row).unwrap_or(i64::MAX)
    }
}

/// A table by request. The keys are keyed hashes, so nobody can choose them.
pub(crate) type ByRequest<T> = HashMap<RequestKey, T, FixedState>;

/// Makes the keys of one service and one service ID within one ledger.
#[derive(Clone)]
pub struct RequestHasher {
    context: [u8; 32],
    /// For keys that are gone with the run: less work than BLAKE3, and keyed, so nobody can choose requests with equal keys.
    of_pass: Option<SipHasher13>,
}

impl RequestHasher {
    /// For a ledger with this secret, and this address and service ID.
    pub(super) fn new(secret: &[u8; 32], endpoint: &str, service_id: &str) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        for part in [endpoint, service_id] {
            // The length first: no two pairs run together to the same bytes.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self::of_context(*hasher.finalize().as_bytes())
    }

    /// For keys that no ledger has: to tell equal requests of one pass.
    #[must_use]
    pub(crate) fn of_pass() -> Self {
        let mut hasher = blake3::Hasher::new();
        for _ in 0..4 {
            // The standard library's source of unpredictable numbers.
            hasher.update(&RandomState::new().hash_one(()).to_le_bytes());
        }
        let context = *hasher.finalize().as_bytes();
        Self {
            of_pass: Some(SipHasher13::new_with_key(&half(&context))),
            ..Self::of_context(context)
        }
    }

    /// For a context that a ledger holds.
    pub(super) const fn of_context(context: [u8; 32]) -> Self {
        Self {
            context,
            of_pass: None,
        }
    }

    pub(super) const fn context(&self) -> &[u8; 32] {
        &self.context
    }

    /// The key of a request with this body, shared by all equal rows. The same user and flags always give the same body.
    #[must_use]
    pub fn key(&self, body: &[u8]) -> RequestKey {
        RequestKey {
            hash: self.hash(body),
            row: 0,
        }
    }

    /// Names a run that writes to this file, or to standard output.
    pub(super) fn run(&self, output: Option<&Path>) -> KeyHash {
        // The absolute path: a file of this name in another directory is a different output.
        let path = output.map(|path| absolute(path).unwrap_or_else(|_| path.to_owned()));
        let bytes = path
            .as_ref()
            .map(|path| path.as_os_str().as_encoded_bytes());
        self.hash(bytes.unwrap_or_default())
    }

    /// Seals text, or opens what was sealed, with the request's body: without the body it is noise.
    pub(super) fn seal(&self, key: &RequestKey, body: &[u8], text: &mut [u8]) {
        let mut hasher = blake3::Hasher::new_keyed(&self.context);
        // The prefix keeps this apart from a key's hash, as a body starts with a brace. The key differs from row to row
        // where equal rows are each asked.
        hasher.update(b"sealed");
        hasher.update(&key.hash);
        hasher.update(&key.row.to_le_bytes());
        hasher.update(body);
        let mut noise = vec![0; text.len()];
        hasher.finalize_xof().fill(&mut noise);
        for (byte, noise) in text.iter_mut().zip(noise) {
            *byte ^= noise;
        }
    }

    fn hash(&self, bytes: &[u8]) -> KeyHash {
        match &self.of_pass {
            Some(hasher) => hasher.hash(bytes).as_bytes(),
            None => half(blake3::keyed_hash(&self.context, bytes).as_bytes()),
        }
    }
}

/// The first half of a hash.
fn half(hash: &[u8; 32]) -> KeyHash {
    let (half, _) = hash.split_at(16);
    let mut key = [0; 16];
    key.copy_from_slice(half);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_services_accounts_and_ledgers_have_different_keys() {
        let hasher = |secret, endpoint, id| RequestHasher::new(&[secret; 32], endpoint, id);
        let usual = hasher(1, "https://a", "b").key(b"{}");
        assert_eq!(hasher(1, "https://a", "b").key(b"{}"), usual);
        for other in [
            hasher(2, "https://a", "b").key(b"{}"),
            hasher(1, "https://", "ab").key(b"{}"),
            hasher(1, "https://a", "c").key(b"{}"),
            hasher(1, "https://a", "b").key(b"{ }"),
        ] {
            assert_ne!(other, usual);
        }
    }

    #[test]
    fn each_pass_has_keys_of_its_own() {
        let (pass, other) = (RequestHasher::of_pass(), RequestHasher::of_pass());
        assert_eq!(pass.key(b"{}"), pass.clone().key(b"{}"));
        assert_ne!(pass.key(b"{}"), pass.key(b"{ }"));
        assert_ne!(pass.key(b"{}"), other.key(b"{}"));
    }

    #[test]
    fn a_row_of_its_own_shares_its_key_with_no_other_row() {
        let key = RequestHasher::new(&[1; 32], "https://a", "b").key(b"{}");
        let (first, second) = (RowNumber::FIRST, RowNumber::FIRST.next());
        let keys = [key, key.for_row(first), key.for_row(second)];
        let different: std::collections::HashSet<_> = keys.into_iter().collect();
        assert_eq!(different.len(), 3);
        assert_eq!(key.for_row(second), keys[2]);
        assert!(keys.iter().all(|row| row.hash == key.hash));
    }
}
