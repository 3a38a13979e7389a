//! The verdicts of an earlier file, looked up by the rows of a later one.
//!
//! Users come and go between two files, so rows are paired by their content or a key, not by their position. Of each row of the
//! earlier file only a fingerprint, its score and its decision are kept: 16 bytes, and twice that while the list grows.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;

use super::cells::Cells;
use crate::analysis::{PastVerdict, number_of};
use crate::base::error::Result;
use crate::config::EarlierFile;
use crate::input::{OpenedScored, ScoredColumns, ScoredReader, ScoredRow};
use crate::layout::{Layout, VERDICT_COLUMNS};
use crate::verdict::{Decision, Thresholds};

/// The verdicts of an earlier file.
pub(super) struct PastVerdicts {
    /// Ordered by their fingerprints once all are there.
    rows: Vec<PastRow>,
    hashing: RandomState,
}

/// A row of the earlier file. The lowest bits of its fingerprint are its decision, or what it has instead of one, and
/// whether it was found.
#[derive(Debug, Clone, Copy)]
struct PastRow {
    bits: u64,
    /// Its score, or NaN.
    score: f64,
}

/// The bits of a fingerprint that are not its own. The other 60 make it unlikely (1 in 20,000) that among ten million rows
/// any two look the same.
const NOT_OWN: u64 = 0b1111;
/// The bit of a row that was found.
const FOUND: u64 = 0b1000;
/// A row without a verdict.
const WITHOUT: u64 = 3;
/// Several rows with different verdicts.
const SEVERAL: u64 = 4;

impl PastRow {
    const fn fingerprint(self) -> u64 {
        self.bits & !NOT_OWN
    }

    const fn kind(self) -> u64 {
        self.bits & NOT_OWN & !FOUND
    }

    fn is_same_verdict(self, other: Self) -> bool {
        self.kind() == other.kind() && self.score.to_bits() == other.score.to_bits()
    }

    fn verdict(self) -> Option<PastVerdict> {
        let decision = match self.kind() {
            0 => Decision::Approve,
            1 => Decision::Review,
            2 => Decision::Block,
            _ => return None,
        };
        let score = Some(self.score).filter(|score| !score.is_nan());
        Some(PastVerdict { decision, score })
    }
}

/// What an earlier file has of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pair {
    /// Nothing.
    New,
    /// Several rows with different verdicts.
    Ambiguous,
    /// A row, with its verdict if it has one.
    Found(Option<PastVerdict>),
}

/// By what rows are paired.
#[derive(Debug, Clone, Copy)]
pub(super) enum PairedBy {
    /// This column's value.
    Column(usize),
    /// Everything but the verdict.
    Rest,
}

impl PastVerdicts {
    /// Reads an earlier file.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read, or is not a scored file.
    pub(super) fn read(
        file: &EarlierFile,
        prefix: &str,
        thresholds: &Thresholds,
    ) -> Result<(Self, OpenedScored)> {
        let columns = ScoredColumns::new(prefix, file.key.as_slice());
        let paired_by = match file.key {
            Some(_) => PairedBy::Column(ScoredColumns::first_further()),
            None => PairedBy::Rest,
        };
        let (mut reader, opened) = ScoredReader::open(&file.file, columns)?;
        let mut verdicts = Self::empty();
        while let Some(batch) = reader.next_batch()? {
            for row in &batch.rows {
                if let Some(fingerprint) = verdicts.fingerprint(row, &opened.layout, paired_by) {
                    let cells = Cells::of(row, opened.layout.format);
                    verdicts.add(fingerprint, &cells, thresholds);
                }
            }
        }
        verdicts.sort();
        Ok((verdicts, opened))
    }

    fn empty() -> Self {
        Self {
            rows: Vec::new(),
            hashing: RandomState::default(),
        }
    }

    /// What a row is recognised by; `None` if it has nothing to be recognised by.
    pub(super) fn fingerprint(
        &self,
        row: &ScoredRow,
        layout: &Layout,
        by: PairedBy,
    ) -> Option<u64> {
        let cells = row.cells.as_deref().ok()?;
        let mut hasher = self.hashing.build_hasher();
        match by {
            PairedBy::Column(column) => {
                let value = row.value(column, layout.format);
                let value = value.trim();
                if value.is_empty() {
                    return None;
                }
                hasher.write(value.as_bytes());
            }
            PairedBy::Rest => {
                let mut ours =
                    [cells.first(), cells.get(1), cells.get(2)].map(Option::<&_>::copied);
                ours.sort_unstable_by_key(|span| span.map(|span| span.range().start));
                let content = row.row.content.range();
                let mut from = content.start;
                for span in ours.into_iter().flatten() {
                    hasher.write(row.row.raw.get(from..span.range().start)?);
                    from = span.range().end;
                }
                hasher.write(row.row.raw.get(from..content.end)?);
            }
        }
        Some(hasher.finish())
    }

    fn add(&mut self, fingerprint: u64, cells: &Cells, thresholds: &Thresholds) {
        let Cells { score, decision } = cells;
        let by_score = || score.as_ref().map(|score| thresholds.decide(score));
        let kind = match decision.or_else(by_score) {
            Some(Decision::Approve) => 0,
            Some(Decision::Review) => 1,
            Some(Decision::Block) => 2,
            None => WITHOUT,
        };
        self.rows.push(PastRow {
            bits: fingerprint & !NOT_OWN | kind,
            score: score.as_ref().map_or(f64::NAN, number_of),
        });
    }

    /// Orders the rows, and makes one of those that are the same.
    fn sort(&mut self) {
        self.rows.sort_unstable_by_key(|row| row.bits);
        self.rows.dedup_by(|row, kept| {
            let is_same = row.fingerprint() == kept.fingerprint();
            if is_same && !row.is_same_verdict(*kept) {
                kept.bits = kept.fingerprint() | SEVERAL;
            }
            is_same
        });
    }

    /// Finds the pair of a row.
    pub(super) fn find(&mut self, fingerprint: Option<u64>) -> Pair {
        let Some(fingerprint) = fingerprint.map(|bits| bits & !NOT_OWN) else {
            return Pair::New;
        };
        let at = self
            .rows
            .binary_search_by_key(&fingerprint, |row| row.fingerprint());
        let Some(row) = at.ok().and_then(|at| self.rows.get_mut(at)) else {
            return Pair::New;
        };
        row.bits |= FOUND;
        match row.kind() {
            SEVERAL => Pair::Ambiguous,
            _ => Pair::Found(row.verdict()),
        }
    }

    /// The rows, where those that are the same count once.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The rows that were not found.
    pub(super) fn gone(&self) -> u64 {
        let gone = self.rows.iter().filter(|row| row.bits & FOUND == 0);
        gone.count() as u64
    }
}

// A verdict's columns are the first ones that are read.
const _: () = assert!(VERDICT_COLUMNS.len() == 3);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::verdict::Score;

    fn cells(score: Option<&str>, decision: Option<Decision>) -> Cells {
        Cells {
            score: score.map(|digits| Score::from_json_number(digits).unwrap()),
            decision,
        }
    }

    #[test]
    fn a_row_is_found_with_its_verdict_and_others_are_new_or_gone() {
        let mut past = PastVerdicts::empty();
        let thresholds = Thresholds::default();
        let mut add = |number: u64, cells: Cells| past.add(number << 8, &cells, &thresholds);
        add(1, cells(Some("1.5"), Some(Decision::Block)));
        add(2, cells(None, None));
        add(3, cells(Some("9"), None));
        // The same twice, and two that differ.
        add(4, cells(Some("1"), Some(Decision::Approve)));
        add(4, cells(Some("1"), Some(Decision::Approve)));
        add(5, cells(Some("1"), Some(Decision::Approve)));
        add(5, cells(Some("3"), Some(Decision::Review)));
        add(6, cells(Some("2"), Some(Decision::Approve)));
        past.sort();
        let mut find = |number: u64| past.find(Some(number << 8));
        let found = |decision, score| Pair::Found(Some(PastVerdict { decision, score }));
        assert_eq!(find(1), found(Decision::Block, Some(1.5)));
        assert_eq!(find(2), Pair::Found(None));
        // By today's thresholds, as a decision is all that it lacks.
        assert_eq!(find(3), found(Decision::Block, Some(9.0)));
        assert_eq!(find(4), found(Decision::Approve, Some(1.0)));
        assert_eq!(find(5), Pair::Ambiguous);
        assert_eq!(find(7), Pair::New);
        assert_eq!(past.find(None), Pair::New);
        assert_eq!((past.rows(), past.gone()), (6, 1));
    }
}
