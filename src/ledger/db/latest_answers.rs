//! What a process knows of a ledger's latest answers, in memory: the entries that are not in the index yet.
//!
//! All connections of a process share it, and each brings it up to date before it looks. Several processes may append to
//! a ledger, and any of them may merge entries into the index. Every look-up must find an entry here or in the index: an
//! answer that is found in neither is paid for again. So a look-up in an older state of the database than the one that is
//! known here is repeated in a newer one ([`LatestAnswers::find`]).

use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::answer_blocks;
use super::checksum::Checksums;
use super::errors::damaged;
use crate::ledger::bloom_filter::BloomFilter;
use crate::ledger::packed::{BlockNumber, Fingerprint, IndexEntry, PackedKey, Tail};

/// How far the answers of a ledger go, in one state of its database.
#[derive(Debug, Clone, Copy)]
pub(super) struct LedgerState {
    /// The last block whose answers are in the index.
    pub(super) indexed: BlockNumber,
    /// The last block.
    pub(super) last: BlockNumber,
}

impl LedgerState {
    /// Reads it.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        const QUERY: &str =
            "SELECT indexed, (SELECT coalesce(max(id), 0) FROM answer_blocks) FROM ledger";
        let state = connection.prepare_cached(QUERY)?.query_row([], |row| {
            Ok(Self {
                indexed: BlockNumber(row.get(0)?),
                last: BlockNumber(row.get(1)?),
            })
        })?;
        // The last block always stays. Beyond it, answers would be looked for in the index that only memory knows.
        if state.indexed > state.last {
            return Err(damaged());
        }
        Ok(state)
    }
}

/// The latest answers of a ledger.
#[derive(Default)]
pub(crate) struct LatestAnswers(Mutex<Latest>);

/// What is known.
#[derive(Default)]
struct Latest {
    /// Whether the ledger's state was ever seen.
    is_open: bool,
    tail: Tail,
    /// Answers up to this block are in the index.
    indexed: BlockNumber,
    /// Answers from there up to this block are in the tail.
    last: BlockNumber,
    /// The blocks that this process has written, in order.
    ours: Vec<RangeInclusive<BlockNumber>>,
    /// What was in the tail and is in the index now.
    merged: Option<BloomFilter>,
}

impl LatestAnswers {
    fn lock(&self) -> MutexGuard<'_, Latest> {
        // A panic elsewhere cannot leave it half changed in a way that hides an entry.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings it up to date with the state that a connection sees, which it must see until this has ended.
    pub(super) fn update(
        &self,
        connection: &Connection,
        checksums: Checksums,
        state: LedgerState,
    ) -> rusqlite::Result<()> {
        let mut latest = self.lock();
        if !latest.is_open {
            latest.is_open = true;
            (latest.indexed, latest.last) = (state.indexed, state.indexed);
        }
        // Also what another process has merged meanwhile: it must be noted that it has come.
        if state.last > latest.last {
            let new = latest.last.next()..=state.last;
            answer_blocks::for_each(connection, checksums, new, |block| {
                if block.number <= state.indexed {
                    let merged = latest.merged.get_or_insert_default();
                    for key in block.keys() {
                        merged.insert(Fingerprint::of(&key));
                    }
                } else if block.is_sound {
                    for answer in block.answers() {
                        latest.add(block.number, &answer.key, answer.previous);
                    }
                } else {
                    // A look for one of them then says that it is damaged.
                    for key in block.keys() {
                        latest.add(block.number, &key, None);
                    }
                }
                Ok(())
            })?;
            latest.last = state.last;
        }
        latest.forget_indexed(state.indexed);
        Ok(())
    }

    /// The blocks that may hold the answer and whose answers are not in the index, the latest first; `None` if the given
    /// state is older than what is known here: an entry may have moved on.
    pub(super) fn find(&self, wanted: Fingerprint, state: LedgerState) -> Option<Vec<BlockNumber>> {
        let latest = self.lock();
        let found: Vec<_> = latest.tail.find(wanted).collect();
        let is_old = latest.indexed > state.indexed || found.iter().any(|it| *it > state.last);
        (!is_old).then_some(found)
    }

    /// Whether an answer to this request may have come since this process first saw the ledger, as far as that is up to
    /// date: from this process or another one. "No" is always right.
    pub(crate) fn may_have(&self, request: Fingerprint) -> bool {
        let latest = self.lock();
        let is_latest = latest.tail.find(request).next().is_some();
        let merged = latest.merged.as_ref();
        is_latest || merged.is_some_and(|merged| merged.may_contain(request))
    }

    /// Whether this process has written a block.
    pub(super) fn is_ours(&self, block: BlockNumber) -> bool {
        let latest = self.lock();
        let next = latest.ours.partition_point(|ours| *ours.start() <= block);
        let before = next.checked_sub(1).and_then(|it| latest.ours.get(it));
        before.is_some_and(|ours| ours.contains(&block))
    }

    /// Adds what this process has appended, once it is durable: keys, each with its block, and the block of the answer that
    /// it replaced. Everything before it must be known already.
    pub(super) fn append(&self, appended: &[(BlockNumber, PackedKey, Option<BlockNumber>)]) {
        let mut latest = self.lock();
        let ends = appended.first().zip(appended.last());
        let Some(((first, ..), (last, ..))) = ends else {
            return;
        };
        match latest.ours.last_mut() {
            Some(ours) if ours.end().next() == *first => *ours = *ours.start()..=*last,
            _ => latest.ours.push(*first..=*last),
        }
        // Another connection may have read them already, and another process may even have merged them.
        for (block, key, previous) in appended {
            if *block > latest.last {
                latest.add(*block, key, *previous);
            } else if *block <= latest.indexed {
                let merged = latest.merged.get_or_insert_default();
                merged.insert(Fingerprint::of(key));
            }
        }
        latest.last = latest.last.max(*last);
    }

    /// How many entries are in memory, and the last block of them.
    pub(super) fn extent(&self) -> (usize, BlockNumber) {
        let latest = self.lock();
        (latest.tail.len(), latest.last)
    }

    /// The entries within a range, in order, and those that the index must lose.
    pub(super) fn within(
        &self,
        range: &RangeInclusive<Fingerprint>,
    ) -> (Vec<IndexEntry>, Vec<IndexEntry>) {
        self.lock().tail.within(range)
    }

    /// The index now has the answers of all blocks up to this one.
    pub(super) fn forget_indexed(&self, last: BlockNumber) {
        self.lock().forget_indexed(last);
    }
}

impl Latest {
    fn add(&mut self, block: BlockNumber, key: &PackedKey, previous: Option<BlockNumber>) {
        let fingerprint = Fingerprint::of(key);
        self.tail.add(IndexEntry { fingerprint, block }, previous);
    }

    /// Forgets what the index has.
    fn forget_indexed(&mut self, indexed: BlockNumber) {
        if indexed > self.indexed {
            // What this process has stored must still be known to be there, also if another process has merged it.
            if self.tail.len() > 0 {
                let merged = self.merged.get_or_insert_default();
                for entry in self.tail.latest() {
                    merged.insert(entry.fingerprint);
                }
            }
            self.tail.forget_up_to(indexed);
            self.indexed = indexed;
            self.last = self.last.max(indexed);
        }
    }
}
