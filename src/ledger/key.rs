//! Names for requests, and the seals on their results.
//!
//! A key comes from the service's address, the service ID and the request's body, with a secret
//! that each ledger draws for itself. It has two parts: a fingerprint, by which an answer is
//! found, and a sealing key, with which it is encrypted. So an answer can be read only with its
//! request, and a seal that opens proves that the answer belongs to the request and that no bit of
//! it has changed. This file must not know how answers are stored.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher};
use std::path::{Path, absolute};

use foldhash::fast::FixedState;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

/// A keyed hash of something that must not be readable in a ledger, such as a path.
pub(super) type PathHash = [u8; 32];

/// Makes each seal different: no two seals with one key may share it.
pub(super) type SealNonce = [u8; NONCE_LEN];

/// Names a request in one ledger.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestKey {
    /// Two different requests share one with a chance of 2⁻⁶⁴.
    pub(super) fingerprint: i64,
    sealing: [u8; 32],
}

impl fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The other half opens the answer.
        write!(f, "RequestKey({:x})", self.fingerprint)
    }
}

impl Hash for RequestKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_i64(self.fingerprint);
    }
}

/// Anything by request.
pub(crate) type ByRequest<T> = HashMap<RequestKey, T, FixedState>;

impl RequestKey {
    /// The fingerprint, for counting different requests.
    pub(crate) const fn fingerprint(&self) -> i64 {
        self.fingerprint
    }

    /// Encrypts the result of the request at this time, given in parts, to the nonce, the
    /// encrypted bytes and the tag. Changing the time breaks the seal. `None` if the result is far
    /// too long.
    pub(super) fn seal(&self, nonce: SealNonce, at: i64, plain: &[&[u8]]) -> Option<Vec<u8>> {
        let length: usize = plain.iter().map(|part| part.len()).sum();
        let mut sealed = Vec::with_capacity(NONCE_LEN + length + CHACHA20_POLY1305.tag_len());
        sealed.extend_from_slice(&nonce);
        for part in plain {
            sealed.extend_from_slice(part);
        }
        let (_, text) = sealed.split_at_mut(NONCE_LEN);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let about = Aad::from(at.to_le_bytes());
        let tag = self
            .cipher()?
            .seal_in_place_separate_tag(nonce, about, text);
        sealed.extend_from_slice(tag.ok()?.as_ref());
        Some(sealed)
    }

    /// Decrypts the result of the request at this time; `None` if it belongs to another request,
    /// or is damaged.
    pub(super) fn open(&self, at: i64, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let nonce = Nonce::try_assume_unique_for_key(sealed.get(..NONCE_LEN)?).ok()?;
        let about = Aad::from(at.to_le_bytes());
        let opened = self
            .cipher()?
            .open_within(nonce, about, &mut sealed, NONCE_LEN..);
        let length = opened.ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }

    fn cipher(&self) -> Option<LessSafeKey> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &self.sealing).ok()?;
        Some(LessSafeKey::new(key))
    }

    /// The key of a row for tests.
    #[cfg(test)]
    pub(crate) const fn of_row(row: u64) -> Self {
        Self {
            fingerprint: row.cast_signed(),
            sealing: [0; 32],
        }
    }

    /// A key for tests.
    #[cfg(test)]
    pub(crate) const fn some(number: u8) -> Self {
        Self {
            fingerprint: number as i64,
            sealing: [number; 32],
        }
    }
}

/// Makes the keys of one account: an address and a service ID.
#[derive(Clone)]
pub(crate) struct RequestHasher {
    account: [u8; 32],
}

impl RequestHasher {
    /// Keys with this ledger's secret.
    pub(super) fn new(secret: &[u8; 32], endpoint: &str, service_id: &str) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        for part in [endpoint, service_id] {
            // The length first: no two pairs give the same bytes.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self::of_account(*hasher.finalize().as_bytes())
    }

    /// Keys of one pass over a file, which nothing finds after it.
    pub(crate) fn of_pass() -> Self {
        Self::of_account(random_secret())
    }

    /// Keys of an account as a ledger lists it.
    pub(super) const fn of_account(account: [u8; 32]) -> Self {
        Self { account }
    }

    /// The hash by which a ledger lists the account. The service ID cannot be read from it.
    pub(super) const fn account(&self) -> &[u8; 32] {
        &self.account
    }

    /// The key of the request with this body.
    pub(crate) fn key(&self, body: &[u8]) -> RequestKey {
        let mut bytes = [0; 40];
        let mut hasher = blake3::Hasher::new_keyed(&self.account);
        hasher.update(body);
        hasher.finalize_xof().fill(&mut bytes);
        let (mut fingerprint, mut sealing) = ([0; 8], [0; 32]);
        let (first, second) = bytes.split_at(8);
        fingerprint.copy_from_slice(first);
        sealing.copy_from_slice(second);
        RequestKey {
            fingerprint: i64::from_le_bytes(fingerprint),
            sealing,
        }
    }
}

/// A hash of a path, which cannot be recognised without the secret.
pub(super) fn hash_of_path(secret: &[u8; 32], path: &Path) -> PathHash {
    // A file of this name in another directory is a different one.
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut hasher = blake3::Hasher::new_keyed(secret);
    // No request starts with it, and an address has its length in front.
    hasher.update(b"a file\0");
    hasher.update(path.as_os_str().as_encoded_bytes());
    *hasher.finalize().as_bytes()
}

/// A number that no other process draws.
pub(super) fn random_number() -> i64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(random_secret().split_at(8).0);
    i64::from_le_bytes(bytes)
}

/// A new secret.
pub(super) fn random_secret() -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut bytes = [0; 32];
    if SystemRandom::new().fill(&mut bytes).is_ok() {
        hasher.update(&bytes);
    }
    // The standard library's source of unpredictable numbers, for systems where the other one
    // fails.
    for _ in 0..4 {
        hasher.update(&RandomState::new().hash_one(()).to_le_bytes());
    }
    *hasher.finalize().as_bytes()
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
            RequestHasher::of_pass().key(b"{}"),
        ] {
            assert_ne!(other.fingerprint, usual.fingerprint);
            assert_ne!(other.sealing, usual.sealing);
        }
    }

    #[test]
    fn only_the_same_request_opens_a_seal_and_no_bit_of_it_may_change() {
        let hasher = RequestHasher::new(&[1; 32], "https://a", "b");
        let (key, other) = (hasher.key(b"{}"), hasher.key(b"{ }"));
        let seal = || {
            let nonce = fastrand::u128(..).to_le_bytes();
            key.seal(*nonce.first_chunk().unwrap(), 7, &[b"an ", b"answer"])
                .unwrap()
        };
        let sealed = seal();
        assert_eq!(key.open(7, sealed.clone()).unwrap(), b"an answer");
        assert_eq!(other.open(7, sealed.clone()), None);
        assert_eq!(key.open(8, sealed.clone()), None, "another time");
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(7, flipped), None);
        }
        for length in 0..sealed.len() {
            assert_eq!(key.open(7, sealed[..length].to_vec()), None);
        }
        assert!(
            !sealed
                .windows(4)
                .any(|part| b"an answer".windows(4).any(|word| word == part))
        );
        assert_ne!(seal(), sealed, "a new nonce");
        assert!(!format!("{key:?}").contains(&format!("{:?}", key.sealing)));
    }
}
