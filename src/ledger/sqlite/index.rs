//! Where the latest answers are: in memory until there are many, then merged into a table in sorted slices.
//!
//! Answers are appended; their fingerprints come in no order. To insert each into a large table when it arrives would rewrite a
//! page an answer. A slice of many that are next to each other in the table rewrites few. What is not merged yet is read back
//! when a ledger is opened. This file must not know any database.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

/// So many answers are found in memory at most, beside those that arrive while they are merged. With twice as many, merges
/// write a third less, for 5 MiB more.
const MOST: usize = if cfg!(test) { 1_000 } else { 200_000 };
/// So many are merged with each commit: with 48 answers a commit, all are merged long before as many have arrived.
const SLICE: usize = if cfg!(test) { 50 } else { 500 };

/// An answer's fingerprint and its place.
pub(super) type Entry = (i64, i64);

/// Where the latest answers are.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The answers that are not in the table, or not surely.
    tail: BTreeSet<Entry>,
    /// All answers up to this place are in memory or in the table.
    seen: i64,
    /// All answers up to this place are in the table.
    merged: i64,
    /// No answer behind this place has been replaced by a later one.
    replaced: i64,
    merging: Option<Merge>,
}

/// A merge under way.
#[derive(Debug)]
struct Merge {
    /// Answers up to this place are merged.
    up_to: i64,
    /// Up to this entry, they have been.
    done: Entry,
}

/// Entries to be merged with the next commit.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) entries: Vec<Entry>,
    /// With them, all answers up to this place are in the table.
    pub(super) completes: Option<i64>,
}

impl Index {
    /// The place up to which answers are known.
    pub(super) const fn seen(&self) -> i64 {
        self.seen
    }

    /// The place up to which answers are in the table.
    #[cfg(test)]
    pub(super) const fn merged(&self) -> i64 {
        self.merged
    }

    /// Whether the table has entries.
    pub(super) const fn may_be_in_table(&self) -> bool {
        self.merged > 0 || self.merging.is_some()
    }

    /// The last place of an answer that was replaced by a later one.
    pub(super) const fn replaced(&self) -> i64 {
        self.replaced
    }

    /// An answer has arrived, in this process or another.
    pub(super) fn add(&mut self, (fingerprint, seq): Entry) {
        self.seen = self.seen.max(seq);
        self.tail.insert((fingerprint, seq));
    }

    /// Forgets the answers behind this place: they were not stored after all, and others may get their places.
    pub(super) fn forget_after(&mut self, seq: i64) {
        self.tail.retain(|(_, place)| *place <= seq);
        self.seen = self.seen.min(seq);
    }

    /// The answer at this place is replaced by a later one.
    pub(super) fn add_replaced(&mut self, seq: i64) {
        self.replaced = self.replaced.max(seq);
    }

    /// The places of answers with this fingerprint that are in memory.
    pub(super) fn places(&self, fingerprint: i64) -> impl Iterator<Item = i64> {
        let all = (fingerprint, i64::MIN)..=(fingerprint, i64::MAX);
        self.tail.range(all).map(|(_, seq)| *seq)
    }

    /// Another process has merged answers up to this place, or replaced ones up to that.
    pub(super) fn set_table(&mut self, merged: i64, replaced: i64) {
        self.add_replaced(replaced);
        if merged > self.merged {
            self.merged = merged;
            self.seen = self.seen.max(merged);
            self.tail.retain(|(_, seq)| *seq > merged);
            self.merging = None;
        }
    }

    /// What is merged with the next commit, if there are many in memory.
    pub(super) fn next_slice(&mut self) -> Option<Slice> {
        if self.merging.is_none() && self.tail.len() >= MOST {
            self.merging = Some(Merge {
                up_to: self.seen,
                done: (i64::MIN, 0),
            });
        }
        let Merge { up_to, done } = *self.merging.as_ref()?;
        let left = self.tail.range((Excluded(done), Unbounded));
        let left = left.filter(|(_, seq)| *seq <= up_to);
        let entries: Vec<_> = left.take(SLICE).copied().collect();
        Some(Slice {
            completes: (entries.len() < SLICE).then_some(up_to),
            entries,
        })
    }

    /// A slice is in the table, durably.
    pub(super) fn merged_slice(&mut self, slice: &Slice) {
        if let Some(up_to) = slice.completes {
            self.set_table(up_to, self.replaced);
        } else if let (Some(merge), Some(last)) = (&mut self.merging, slice.entries.last()) {
            merge.done = *last;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_in_memory_or_in_the_table_at_every_step_of_a_merge() {
        let mut index = Index::default();
        let fingerprint = |seq: i64| seq.wrapping_mul(0x5851_f42d_4c95_7f2d);
        let mut table = BTreeSet::new();
        let (mut seq, mut slices) = (0, 0);
        for _ in 0..10 * MOST / 48 {
            for _ in 0..48 {
                seq += 1;
                index.add((fingerprint(seq), seq));
            }
            if let Some(slice) = index.next_slice() {
                // A commit that fails is tried again with the same slice.
                assert_eq!(index.next_slice().unwrap().entries, slice.entries);
                table.extend(slice.entries.iter().copied());
                index.merged_slice(&slice);
                slices += 1;
            }
        }
        assert!(slices > 40 && index.merged() > 0);
        for seq in 1..=seq {
            let places: Vec<_> = index.places(fingerprint(seq)).collect();
            let is_merged = table.contains(&(fingerprint(seq), seq));
            assert!(places == [seq] || is_merged, "{seq}");
            assert!(is_merged || seq > index.merged(), "{seq}");
        }
        assert!(index.tail.len() < 3 * MOST);
        index.forget_after(seq - 48);
        assert_eq!(
            (index.seen(), index.places(fingerprint(seq)).next()),
            (seq - 48, None)
        );
    }
}
