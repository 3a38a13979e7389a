//! How answers are packed into few bytes, and how they are found again.
//!
//! Answers are kept in the order in which they come, some in a block ([`BlockBuilder`], [`PackedAnswer`]). Where the answer
//! to a request is, an index says: fingerprints of requests, each with the number of a block, sorted in chunks
//! ([`Chunk`]), and in memory for the latest ones ([`Tail`]). Nothing here knows the database.

mod block;
mod chunk;
mod fields;
mod fingerprint;
mod key;
mod score;
mod tail;
mod transaction_id;

pub(super) use block::{
    BlockBuilder, PackedAnswer, PackedBlock, ReplacedScore, unpack, unpack_keys,
};
pub(super) use chunk::{Chunk, NewChunk, chunks};
pub(super) use fingerprint::{BlockNumber, Fingerprint, IndexEntry};
pub(super) use key::PackedKey;
pub(super) use score::PackedScore;
pub(super) use tail::{MOST_ENTRIES, Tail};
pub(super) use transaction_id::{PackedId, UuidBuffer};
