//! What an answer is found by in a block.

use crate::ledger::request_key::{KeyHash, RequestKey};

/// Bytes of a request's hash that are stored: that any two of a billion requests are equal in them has a chance of one in
/// 10^11.
pub(super) const HASH_BYTES: usize = 12;

/// What an answer is found by in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::ledger) struct PackedKey {
    pub(in crate::ledger) hash: [u8; HASH_BYTES],
    /// 0 where equal rows share an answer.
    pub(in crate::ledger) row: u64,
}

impl PackedKey {
    /// The key of a request that equal rows share.
    pub(in crate::ledger) const fn of_hash(hash: &KeyHash) -> Self {
        let [hash @ .., _, _, _, _] = *hash;
        Self { hash, row: 0 }
    }
}

impl From<&RequestKey> for PackedKey {
    fn from(key: &RequestKey) -> Self {
        Self {
            row: key.row,
            ..Self::of_hash(&key.hash)
        }
    }
}
