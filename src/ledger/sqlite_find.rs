//! Finding answers: where the latest ones are, in memory until there are many, then merged into a table in sorted slices; or, where
//! requests come in the order of their answers, right behind the last one.
//!
//! Answers are appended; their fingerprints come in no order. To insert each into a large table when it arrives would rewrite a
//! page an answer. A slice of many that are next to each other in the table rewrites few. What is not merged yet is read back
//! when a ledger is opened.
//!
//! A file that is scored again has its rows nearly in the order in which its answers arrived. So after a hit the answers that
//! follow it are read together, and the next requests are looked for among them first: that needs no index.

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::fast::RandomState;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::answers::{KnownResult, LookupResult, Scope, Stored};
use super::key::RequestKey;
use crate::base::threads::lock;

/// The number of answers that are found in memory at most, beside those that arrive while they are merged. With twice as many, merges
/// write a third less, for 5 MiB more.
const MAX_TAIL: usize = if cfg!(test) { 1_000 } else { 200_000 };
/// How many are merged with each commit: with 48 answers a commit, all are merged long before the same number has arrived.
const SLICE: usize = if cfg!(test) { 50 } else { 500 };

/// An answer's fingerprint and its place.
pub(super) type Entry = (i64, i64);

/// Where the latest answers are.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The answers that are not in the table, or not surely: one for each fingerprint, by its place.
    tail: HashMap<i64, i64, RandomState>,
    /// The others of these fingerprints: there are few.
    more: BTreeSet<Entry>,
    /// All answers up to this place are in memory or in the table.
    pub(super) seen: i64,
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
    /// Those that are not, in the order of the table, the last one first.
    left: Vec<Entry>,
}

/// Entries to be merged with the next commit.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) entries: Vec<Entry>,
    /// With them, all answers up to this place are in the table.
    pub(super) completes: Option<i64>,
}

impl Index {
    /// An answer has arrived, in this process or another.
    pub(super) fn add(&mut self, (fingerprint, seq): Entry) {
        self.seen = self.seen.max(seq);
        if *self.tail.entry(fingerprint).or_insert(seq) != seq {
            self.more.insert((fingerprint, seq));
        }
    }

    /// Forgets the answers behind this place: they were not stored after all, and others may get their places.
    pub(super) fn forget_after(&mut self, seq: i64) {
        self.keep(|place| place <= seq);
        self.seen = self.seen.min(seq);
    }

    /// The answer at this place is replaced by a later one.
    pub(super) fn add_replaced(&mut self, seq: i64) {
        self.replaced = self.replaced.max(seq);
    }

    /// The places of answers with this fingerprint that are in memory.
    pub(super) fn places(&self, fingerprint: i64) -> impl Iterator<Item = i64> {
        let all = (fingerprint, i64::MIN)..=(fingerprint, i64::MAX);
        let more = (!self.more.is_empty()).then(|| self.more.range(all).map(|(_, seq)| *seq));
        let one = self.tail.get(&fingerprint).copied();
        one.into_iter().chain(more.into_iter().flatten())
    }

    /// Keeps only the places for which this holds.
    fn keep(&mut self, is_kept: impl Fn(i64) -> bool) {
        self.tail.retain(|_, place| is_kept(*place));
        self.more.retain(|(_, place)| is_kept(*place));
        if let Some(merge) = &mut self.merging {
            merge.left.retain(|(_, place)| is_kept(*place));
        }
    }

    /// Another process has merged answers up to this place, or replaced ones up to that.
    pub(super) fn set_table(&mut self, merged: i64, replaced: i64) {
        self.add_replaced(replaced);
        if merged > self.merged {
            self.merged = merged;
            self.seen = self.seen.max(merged);
            self.keep(|place| place > merged);
            self.merging = None;
        }
    }

    /// What is merged with the next commit, if there are many in memory.
    pub(super) fn next_slice(&mut self) -> Option<Slice> {
        if self.merging.is_none() && self.tail.len() >= MAX_TAIL {
            let tail = self
                .tail
                .iter()
                .map(|(fingerprint, seq)| (*fingerprint, *seq));
            let mut left: Vec<_> = tail.chain(self.more.iter().copied()).collect();
            left.sort_unstable_by(|one, other| other.cmp(one));
            let up_to = self.seen;
            self.merging = Some(Merge { up_to, left });
        }
        let Merge { up_to, left } = self.merging.as_ref()?;
        let entries: Vec<_> = left.iter().rev().take(SLICE).copied().collect();
        Some(Slice {
            completes: (entries.len() < SLICE).then_some(*up_to),
            entries,
        })
    }

    /// A slice is in the table, durably.
    pub(super) fn merged_slice(&mut self, slice: &Slice) {
        if let Some(up_to) = slice.completes {
            self.set_table(up_to, self.replaced);
        } else if let Some(merge) = &mut self.merging {
            merge
                .left
                .truncate(merge.left.len().saturating_sub(slice.entries.len()));
        }
    }
}

/// How many answers are read together. Calls end in another order than they start, shifted by about the number in flight.
const AHEAD: i64 = 512;

/// Finds answers over one connection.
#[derive(Default)]
pub(super) struct Finder {
    /// What the process knows of where answers are, on all its connections.
    index: Arc<Mutex<Index>>,
    /// Answers that were read behind a hit, by fingerprint: the latest and those before them.
    latest: HashMap<i64, Stored>,
    earlier: HashMap<i64, Stored>,
    /// The last one that was read.
    end: i64,
    /// Where an answer was found last.
    last: i64,
}

impl Finder {
    /// One for another connection.
    pub(super) fn beside(&self) -> Self {
        Self {
            index: Arc::clone(&self.index),
            ..Self::default()
        }
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }

    /// Adds answers that were stored since the last time, by whichever process, and at first all that are not in the table.
    pub(super) fn catch_up(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (merged, replaced) = connection
            .prepare_cached("SELECT up_to, replaced_up_to FROM merged")?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut index = self.index();
        index.set_table(merged, replaced);
        let mut new =
            connection.prepare_cached("SELECT fp, seq FROM answers WHERE seq > ? ORDER BY seq")?;
        let mut rows = new.query([index.seen])?;
        while let Some(row) = rows.next()? {
            index.add((row.get(0)?, row.get(1)?));
        }
        Ok(())
    }

    /// What is known of a request.
    pub(super) fn find(
        &mut self,
        connection: &Connection,
        scope: &Scope,
        key: &RequestKey,
    ) -> rusqlite::Result<LookupResult> {
        if let Some(found) = self.find_ahead(scope, key) {
            return Ok(found);
        }
        let places = self.places(connection, key.fingerprint())?;
        let mut places = places.into_iter().peekable();
        let Some(latest) = places.peek().copied() else {
            return Ok(LookupResult::default());
        };
        let mut load = connection.prepare_cached(
            "SELECT fp, seq, at, price, sealed FROM answers WHERE seq = ? AND length(sealed) <> 8",
        )?;
        let result = scope.judge(key, || {
            for seq in places.by_ref() {
                // It was discarded, or another connection has just stored it and this one may not see it yet.
                if let Some((_, stored)) = load.query_row([seq], stored).optional()? {
                    return Ok(Some(stored));
                }
            }
            Ok::<_, rusqlite::Error>(None)
        })?;
        drop(load);
        self.read_ahead(connection, latest)?;
        Ok(result)
    }

    /// Looks among the answers that were read ahead. Only one that no later one has replaced is right without the index.
    fn find_ahead(&self, scope: &Scope, key: &RequestKey) -> Option<LookupResult> {
        let fingerprint = &key.fingerprint();
        let found = self.latest.get(fingerprint);
        let stored = found.or_else(|| self.earlier.get(fingerprint))?;
        // Whether a run's own answer has replaced one is in the index.
        let replaces = scope.not_before != i64::MIN && stored.at >= scope.started;
        if replaces || stored.place <= self.index().replaced {
            return None;
        }
        let mut only = Some(stored.clone());
        let judged = scope.judge(key, || Ok::<_, ()>(only.take())).ok()?;
        // There may be an answer before a failure.
        matches!(judged.known, Some(KnownResult::Answer(_))).then_some(judged)
    }

    /// The places of all answers to a request, the latest first.
    pub(super) fn places(
        &self,
        connection: &Connection,
        fingerprint: i64,
    ) -> rusqlite::Result<Vec<i64>> {
        let (mut places, has_table): (Vec<_>, _) = {
            let index = self.index();
            (
                index.places(fingerprint).collect(),
                index.merged > 0 || index.merging.is_some(),
            )
        };
        if has_table {
            let mut find = connection.prepare_cached("SELECT seq FROM idx WHERE fp = ?")?;
            for place in find.query_map([fingerprint], |row| row.get(0))? {
                places.push(place?);
            }
        }
        places.sort_unstable_by(|one, other| other.cmp(one));
        places.dedup();
        Ok(places)
    }

    /// An answer was found at this place through the index: if it is near the last one, those that follow are read.
    fn read_ahead(&mut self, connection: &Connection, seq: i64) -> rusqlite::Result<()> {
        let is_near = (seq - mem::replace(&mut self.last, seq)).abs() <= AHEAD;
        // Those shortly before what was read come out of turn.
        if !is_near || (seq <= self.end && seq > self.end - 2 * AHEAD) {
            return Ok(());
        }
        let continues = seq > self.end && seq <= self.end + AHEAD;
        let from = if continues { self.end } else { seq };
        self.earlier = mem::take(&mut self.latest);
        let mut read = connection.prepare_cached(
            "SELECT fp, seq, at, price, sealed FROM answers WHERE seq > ? ORDER BY seq LIMIT ?",
        )?;
        let mut rows = read.query(params![from, AHEAD])?;
        while let Some(row) = rows.next()? {
            let (fingerprint, stored) = stored(row)?;
            self.end = stored.place;
            self.latest.insert(fingerprint, stored);
        }
        Ok(())
    }
}

/// An answer, with its fingerprint.
fn stored(row: &Row<'_>) -> rusqlite::Result<(i64, Stored)> {
    let stored = Stored {
        place: row.get(1)?,
        at: row.get(2)?,
        price: row.get(3)?,
        sealed: row.get(4)?,
    };
    Ok((row.get(0)?, stored))
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
        for _ in 0..10 * MAX_TAIL / 48 {
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
        assert!(slices > 40 && index.merged > 0);
        for seq in 1..=seq {
            let places: Vec<_> = index.places(fingerprint(seq)).collect();
            let is_merged = table.contains(&(fingerprint(seq), seq));
            assert!(places == [seq] || is_merged, "{seq}");
            assert!(is_merged || seq > index.merged, "{seq}");
        }
        assert!(index.tail.len() < 3 * MAX_TAIL);
        index.forget_after(seq - 48);
        assert_eq!(
            (index.seen, index.places(fingerprint(seq)).next()),
            (seq - 48, None)
        );
    }
}
