//! Reads a scored file once and counts everything that its report shows.

use super::cells::Cells;
use super::past::{Pair, PairedBy, PastVerdicts};
use crate::analysis::{GroupTally, PastVerdict, RowTally, TalliedRow, number_of};
use crate::base::error::Result;
use crate::input::{OpenedScored, ScoredColumns, ScoredReader, ScoredRow};
use crate::layout::{Layout, PREVIOUS, VERDICT_COLUMNS};
use crate::report::PairingCounts;
use crate::sandbox::ID_PREFIX;
use crate::verdict::Thresholds;

/// A scored file that is open, and where its columns are.
pub(super) struct ScoredFile {
    reader: ScoredReader,
    layout: Layout,
    /// The number of columns by which decisions are counted; they come first.
    by: usize,
    paired_by: PairedBy,
    /// The columns of the score and the decision before.
    previous: (usize, usize),
}

/// What was counted.
pub(super) struct CountedFile {
    /// Of all rows.
    pub(super) tally: RowTally,
    /// By the values of each column.
    pub(super) groups: Vec<GroupTally>,
    /// How rows were paired, without those that are gone.
    pub(super) pairing: PairingCounts,
    /// A stand-in answered.
    pub(super) sandbox: bool,
}

impl ScoredFile {
    /// Opens a scored file and finds its columns: those of `by` and `key`, and those that `--existing keep` leaves.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read, or is not a scored file with these columns.
    pub(super) fn open(
        settings: &crate::input::FileSettings,
        prefix: &str,
        by: &[String],
        key: Option<&String>,
    ) -> Result<(Self, OpenedScored)> {
        let further: Vec<_> = by.iter().chain(key).cloned().collect();
        let [_, score, decision] = VERDICT_COLUMNS.map(|name| format!("{PREVIOUS}{prefix}{name}"));
        let columns = ScoredColumns::new(prefix, &further).and_if_there([score, decision]);
        let (reader, opened) = ScoredReader::open(settings, columns)?;
        let first = ScoredColumns::first_further();
        let previous = first + further.len();
        let file = Self {
            reader,
            layout: opened.layout.clone(),
            by: by.len(),
            paired_by: key.map_or(PairedBy::Rest, |_| PairedBy::Column(first + by.len())),
            previous: (previous, previous + 1),
        };
        Ok((file, opened))
    }

    /// Reads all rows and counts them, with the verdicts of an earlier file or else with those that they had before.
    ///
    /// # Errors
    /// Exit code 2: the file cannot be read to its end.
    pub(super) fn count(
        mut self,
        thresholds: &Thresholds,
        mut past: Option<&mut PastVerdicts>,
    ) -> Result<CountedFile> {
        let mut counted = CountedFile {
            tally: RowTally::new(Some(thresholds)),
            groups: vec![GroupTally::default(); self.by],
            pairing: PairingCounts::default(),
            sandbox: false,
        };
        while let Some(batch) = self.reader.next_batch()? {
            for row in &batch.rows {
                let before = match &mut past {
                    Some(past) => {
                        let fingerprint = past.fingerprint(row, &self.layout, self.paired_by);
                        paired(past.find(fingerprint), &mut counted.pairing)
                    }
                    None => self.previous(row, thresholds),
                };
                self.count_row(row, before, &mut counted);
            }
        }
        Ok(counted)
    }

    fn count_row(&self, row: &ScoredRow, before: Option<PastVerdict>, to: &mut CountedFile) {
        let Cells { score, decision } = Cells::of(row, self.layout.format);
        let tallied = TalliedRow {
            number: row.row.number,
            score: score.as_ref(),
            decision,
        };
        to.tally.count(tallied, before);
        for (column, groups) in (ScoredColumns::first_further()..).zip(&mut to.groups) {
            groups.count(row.value(column, self.layout.format).as_bytes(), decision);
        }
        to.sandbox = to.sandbox || row.value(0, self.layout.format).starts_with(ID_PREFIX);
    }

    /// The verdict that the row itself had before.
    fn previous(&self, row: &ScoredRow, thresholds: &Thresholds) -> Option<PastVerdict> {
        let (score, decision) = self.previous;
        if row.written(score).is_empty() && row.written(decision).is_empty() {
            return None;
        }
        let Cells { score, decision } = Cells::at(row, self.layout.format, self.previous);
        let by_score = || score.as_ref().map(|score| thresholds.decide(score));
        Some(PastVerdict {
            decision: decision.or_else(by_score)?,
            score: score.as_ref().map(number_of),
        })
    }
}

/// Counts a pair, and finds the verdict before.
const fn paired(pair: Pair, counts: &mut PairingCounts) -> Option<PastVerdict> {
    match pair {
        Pair::New => {
            counts.new += 1;
            None
        }
        Pair::Ambiguous => {
            counts.ambiguous += 1;
            None
        }
        Pair::Found(verdict) => {
            counts.paired += 1;
            verdict
        }
    }
}
