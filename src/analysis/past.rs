//! The verdicts of an earlier file by the key of their rows, and how the rows of another file are paired with them. Users come
//! and go between two files, so rows are not paired by their position. Of each row a few bytes are kept, and nothing of a user
//! but a hash of the key. It must not know how files are read.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use super::tally::PastVerdict;
use crate::verdict::{Decision, Score};

/// The verdicts of an earlier file, by the key of their rows.
#[derive(Default)]
pub(crate) struct PastVerdicts {
    hasher: RandomState,
    /// By the hash of their keys. A map would take twice the memory.
    rows: Vec<PastRow>,
    counts: PairingCounts,
}

/// A row of the earlier file.
struct PastRow {
    /// The hash of its key.
    hash: u64,
    /// The digits of its score, which take less memory than a [`Score`].
    score: Option<Box<str>>,
    decision: Option<Decision>,
    /// Several rows have this key, with different verdicts.
    is_ambiguous: bool,
    is_found: bool,
}

/// How rows were paired with those of an earlier file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PairingCounts {
    /// The column by which rows are paired.
    pub(crate) key: String,
    /// Rows that were paired.
    pub(crate) paired: u64,
    /// Rows that the earlier file does not have.
    pub(crate) new: u64,
    /// Rows of the earlier file that are gone.
    pub(crate) gone: u64,
    /// Rows that have several pairs with different verdicts, and so are not compared.
    pub(crate) ambiguous: u64,
}

impl PastVerdicts {
    /// The hash by which a row is recognised; `None` if it has no key.
    fn hash(&self, key: &str) -> Option<u64> {
        let key = key.trim();
        (!key.is_empty()).then(|| self.hasher.hash_one(key))
    }

    /// Adds a row of the earlier file. Without a decision it has no verdict.
    pub(crate) fn add(&mut self, key: &str, score: Option<&Score>, decision: Option<Decision>) {
        let score = score.filter(|_| decision.is_some()).map(Score::digits);
        self.rows.extend(self.hash(key).map(|hash| PastRow {
            hash,
            score: score.map(Into::into),
            decision,
            is_ambiguous: false,
            is_found: false,
        }));
    }

    /// Makes the rows ready to be found, once all are added: rows that share a key become one.
    pub(crate) fn sort(&mut self) {
        self.rows.sort_unstable_by_key(|row| row.hash);
        self.rows.dedup_by(|next, row| {
            let is_other = row.decision != next.decision || row.score != next.score;
            row.is_ambiguous |= row.hash == next.hash && is_other;
            row.hash == next.hash
        });
    }

    /// The verdict before on the row with this key. Also counts whether there is one.
    pub(crate) fn find(&mut self, key: &str) -> Option<PastVerdict> {
        let hash = self.hash(key);
        let at = hash.and_then(|hash| self.rows.binary_search_by_key(&hash, |row| row.hash).ok());
        let Some(row) = at.and_then(|at| self.rows.get_mut(at)) else {
            self.counts.new += 1;
            return None;
        };
        row.is_found = true;
        if row.is_ambiguous {
            self.counts.ambiguous += 1;
            return None;
        }
        self.counts.paired += 1;
        let score = row.score.as_deref();
        Some(PastVerdict {
            decision: row.decision?,
            score: score.and_then(|digits| Score::from_json_number(digits).ok()),
        })
    }

    /// How many keys several rows of the earlier file have, with different verdicts.
    pub(crate) fn ambiguous_keys(&self) -> u64 {
        let rows = self.rows.iter();
        rows.filter(|row| row.is_ambiguous).count() as u64
    }

    /// How the rows that were looked for are paired with those of the earlier file, by this column.
    pub(crate) fn pairing(self, key: &str) -> PairingCounts {
        let gone = self.rows.iter().filter(|row| !row.is_found);
        PairingCounts {
            key: key.to_owned(),
            gone: gone.count() as u64,
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_with_its_verdict_and_others_are_new_or_gone() {
        let mut past = PastVerdicts::default();
        let score = |digits: &str| Score::from_json_number(digits).unwrap();
        let mut add = |key, digits: Option<&str>, decision| {
            past.add(key, digits.map(score).as_ref(), decision);
        };
        let [approve, block] = [Decision::Approve, Decision::Block];
        add("1", Some("1.50"), Some(block));
        add("2", Some("1"), None);
        add(" 3 ", None, Some(block));
        // The same twice, and two that differ.
        add("4", Some("1"), Some(approve));
        add("4", Some("1"), Some(approve));
        add("5", Some("1"), Some(approve));
        add("5", Some("3"), Some(approve));
        add("6", None, None);
        add("", None, Some(block));
        past.sort();
        assert_eq!(past.ambiguous_keys(), 1);
        let mut find = |key| past.find(key).map(|found| (found.decision, found.score));
        assert_eq!(find("1"), Some((block, Some(score("1.50")))));
        assert_eq!(find("2"), None);
        assert_eq!(find("3 "), Some((block, None)));
        assert_eq!(find("4"), Some((approve, Some(score("1")))));
        assert_eq!((find("5"), find("7"), find("")), (None, None, None));
        let expected = PairingCounts {
            key: "id".to_owned(),
            paired: 4,
            new: 2,
            gone: 1,
            ambiguous: 1,
        };
        assert_eq!(past.pairing("id"), expected);
    }

    #[test]
    fn a_row_takes_few_bytes() {
        assert_eq!(size_of::<PastRow>(), 32);
    }
}
