//! The latest answers' entries, in memory until there are enough of them to be merged into the index.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

use foldhash::fast::FixedState;

use super::fingerprint::{BlockNumber, ENTRY_BYTES, Fingerprint, IndexEntry};

/// Entries beyond which they are to be moved to the index: a table of 2^19 places, which is 5 MiB, is nearly full then. Half
/// as many would make a run write nearly twice as much.
pub(in crate::ledger) const MOST_ENTRIES: usize = 450_000;

/// Entries beyond which room is made for all: a table that doubles needs both sizes for a moment, and few ledgers stop there.
const SMALL: usize = 28_000;

/// Entries in memory: ten bytes and not sixteen each, as there may be half a million.
#[derive(Default)]
pub(in crate::ledger) struct Tail {
    /// The latest block of each fingerprint, both as bytes.
    latest: HashMap<[u8; 6], [u8; 4], FixedState>,
    /// Entries of earlier blocks with the fingerprint of a later one. Next to none, unless answers were removed and their
    /// requests are answered again.
    earlier: BTreeSet<[u8; ENTRY_BYTES]>,
    /// Entries that the index may still have, of answers that were replaced.
    outdated: Vec<[u8; ENTRY_BYTES]>,
}

/// The number of these bytes.
const fn join(block: [u8; 4]) -> BlockNumber {
    BlockNumber(u32::from_le_bytes(block))
}

impl Tail {
    /// How many entries there are.
    pub(in crate::ledger) fn len(&self) -> usize {
        self.latest.len() + self.earlier.len() + self.outdated.len()
    }

    /// Adds an entry, whose answer replaced one in the block `previous`. Blocks come in the order of their numbers.
    pub(in crate::ledger) fn add(&mut self, entry: IndexEntry, previous: Option<BlockNumber>) {
        if self.latest.len() == SMALL {
            self.latest.reserve(MOST_ENTRIES - SMALL);
        }
        let IndexEntry { fingerprint, block } = entry;
        let entry_of = |block| IndexEntry { fingerprint, block }.packed();
        let mut outdated = previous;
        match self.latest.entry(fingerprint.to_bytes()) {
            Entry::Vacant(place) => {
                place.insert(block.0.to_le_bytes());
            }
            Entry::Occupied(mut place) => {
                let before = join(place.insert(block.0.to_le_bytes()));
                if previous == Some(before) {
                    outdated = None;
                } else if before != block {
                    self.earlier.insert(entry_of(before));
                }
            }
        }
        if let Some(previous) = outdated {
            let outdated = entry_of(previous);
            self.earlier.remove(&outdated);
            self.outdated.push(outdated);
        }
    }

    /// The blocks that may hold the answer, the latest first.
    pub(in crate::ledger) fn find(&self, wanted: Fingerprint) -> impl Iterator<Item = BlockNumber> {
        let latest = self.latest.get(&wanted.to_bytes());
        let latest = latest.map(|block| join(*block));
        let earlier = latest.map(|latest| {
            let entry_of = |block| IndexEntry {
                fingerprint: wanted,
                block,
            };
            let all = entry_of(BlockNumber::default()).packed()..entry_of(latest).packed();
            self.earlier.range(all).rev()
        });
        let earlier = { earlier.into_iter().flatten() }.map(|it| IndexEntry::unpacked(*it).block);
        latest.into_iter().chain(earlier)
    }

    /// The entries within a range of fingerprints, in order, and those that the index must lose.
    pub(in crate::ledger) fn within(
        &self,
        range: &RangeInclusive<Fingerprint>,
    ) -> (Vec<IndexEntry>, Vec<IndexEntry>) {
        let is_within = |entry: &IndexEntry| range.contains(&entry.fingerprint);
        let unpacked = |entry: &[u8; ENTRY_BYTES]| IndexEntry::unpacked(*entry);
        let earlier = self.earlier.iter().map(unpacked);
        let mut entries: Vec<_> = { earlier.chain(self.latest()) }.filter(is_within).collect();
        entries.sort_unstable();
        let outdated = self.outdated.iter().map(unpacked);
        let mut outdated: Vec<_> = outdated.filter(is_within).collect();
        outdated.sort_unstable();
        (entries, outdated)
    }

    /// The latest entry of each fingerprint.
    pub(in crate::ledger) fn latest(&self) -> impl Iterator<Item = IndexEntry> {
        self.latest.iter().map(|(fingerprint, block)| IndexEntry {
            fingerprint: Fingerprint::from_bytes(*fingerprint),
            block: join(*block),
        })
    }

    /// Forgets what is in the index: the entries of blocks up to this one. The memory stays for the next ones.
    pub(in crate::ledger) fn forget_up_to(&mut self, last: BlockNumber) {
        if self.latest.values().all(|block| join(*block) <= last) {
            self.latest.clear();
        }
        self.latest.retain(|_, block| join(*block) > last);
        self.earlier
            .retain(|entry| IndexEntry::unpacked(*entry).block > last);
        // Those of later answers are lost as well: the index then has entries that lead nowhere, until it is cleaned.
        self.outdated.clear();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fingerprint(bits: u64) -> Fingerprint {
        let [_, _, bytes @ ..] = bits.to_be_bytes();
        Fingerprint::from_bytes(bytes)
    }

    fn entry(bits: u64, block: u32) -> IndexEntry {
        IndexEntry {
            fingerprint: fingerprint(bits),
            block: BlockNumber(block),
        }
    }

    fn found(tail: &Tail, bits: u64) -> Vec<u32> {
        let blocks = tail.find(fingerprint(bits));
        blocks.map(|BlockNumber(block)| block).collect()
    }

    #[test]
    fn the_latest_block_is_found_first_and_a_replaced_answer_no_more() {
        let mut tail = Tail::default();
        tail.add(entry(1, 5), None);
        tail.add(entry(2, 5), None);
        // Another request with the same fingerprint.
        tail.add(entry(1, 6), None);
        // A request that was answered again: once within the tail, and once before it.
        tail.add(entry(2, 7), Some(BlockNumber(5)));
        tail.add(entry(3, 8), Some(BlockNumber(2)));
        assert_eq!(found(&tail, 1), [6, 5]);
        assert_eq!(found(&tail, 2), [7]);
        assert_eq!(found(&tail, 3), [8]);
        assert_eq!(found(&tail, 4), [0; 0]);
        // The first of the two with the same fingerprint is answered again.
        tail.add(entry(1, 9), Some(BlockNumber(5)));
        assert_eq!(found(&tail, 1), [9, 6]);
        let all = Fingerprint::slice(0, 1);
        let (entries, outdated) = tail.within(&all);
        assert_eq!(
            entries,
            [entry(1, 6), entry(1, 9), entry(2, 7), entry(3, 8)]
        );
        assert_eq!(outdated, [entry(1, 5), entry(3, 2)]);
        tail.forget_up_to(BlockNumber(7));
        assert_eq!(tail.within(&all).0, [entry(1, 9), entry(3, 8)]);
    }

    #[test]
    fn requests_that_are_answered_again_are_found_without_looking_at_all_of_them() {
        // Their answers were removed, so the new ones replace nothing: a `prune` beside a run, or `--fresh`.
        const REQUESTS: u32 = 200_000;
        let mut tail = Tail::default();
        for block in 1..=2 {
            for request in 0..REQUESTS {
                tail.add(entry(request.into(), block), None);
            }
        }
        // Where each look takes as long as there are requests, this does not end.
        for request in 0..REQUESTS {
            assert_eq!(found(&tail, request.into()), [2, 1]);
            assert_eq!(found(&tail, u64::from(REQUESTS + request)), [0; 0]);
            tail.add(entry(request.into(), 3), Some(BlockNumber(1)));
        }
        assert_eq!(tail.within(&Fingerprint::slice(0, 1)).0.len(), 400_000);
    }
}
