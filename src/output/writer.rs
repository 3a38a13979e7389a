//! Writes rows with their verdicts in input order: the output, the rejects and the changes.

use super::csv::CsvEncoder;
use super::earlier::{DecisionChange, DoneRow, EarlierVerdict};
use super::file::{OutputFile, RowFiles, WriteError, Written};
use super::jsonl;
use super::target::Target;
use crate::analysis::{RowTally, TalliedRow, UnknownLevels};
use crate::base::error::Result;
use crate::drift::Drift;
use crate::layout::{Format, Layout};
use crate::row::Row;
use crate::verdict::{DecisionPolicy, Failure, Verdict};

/// Writes rows to the output, failed rows also to the rejects, and rows whose decision changed also
/// to the changes.
pub struct Writer {
    layout: Layout,
    /// Decides about earlier scores that have no decision, and knows where levels are.
    policy: DecisionPolicy,
    files: RowFiles,
    /// The comparison of decisions in these rows, since it was last taken.
    drift: Drift,
    /// The levels without a decision in these rows, since they were last taken.
    unknown_levels: UnknownLevels,
    /// What a report shows of these rows, if there will be one.
    tally: Option<Box<RowTally>>,
    beside: RowsBeside,
    heads: jsonl::MemberHeads,
}

impl Writer {
    /// A writer whose output starts with the byte order mark and the header.
    #[must_use]
    pub fn new(layout: Layout, policy: DecisionPolicy, mut files: RowFiles) -> Self {
        let mut beside = RowsBeside::new(&layout, &mut files);
        let out = files.output.buffer();
        out.extend_from_slice(&layout.preamble);
        if let Some(header) = &layout.header {
            beside.csv.header(out, header, &layout);
        }
        Self {
            heads: jsonl::MemberHeads::new(&layout.columns),
            layout,
            policy,
            files,
            drift: Drift::default(),
            unknown_levels: UnknownLevels::default(),
            tally: None,
            beside,
        }
    }

    /// Counts rows for a report as well.
    #[must_use]
    pub(crate) fn counting(mut self) -> Self {
        self.tally = Some(Box::new(RowTally::new(self.policy.thresholds())));
        self
    }

    /// What was counted for a report, if there will be one.
    #[must_use]
    pub(crate) const fn take_tally(&mut self) -> Option<Box<RowTally>> {
        self.tally.take()
    }

    /// Writes rows in input order.
    ///
    /// # Errors
    /// The output, the rejects or the changes cannot be written.
    pub fn write(&mut self, rows: &[DoneRow]) -> Result<(), WriteError> {
        let mut drift = Drift::default();
        // A row that is decided again and has no decision has none that could be guessed of its score.
        let only_decisions = self.layout.columns.only_decisions();
        for finished in rows {
            let DoneRow { row, verdict, .. } = finished;
            let policy = (!only_decisions).then_some(&self.policy);
            let mut past = match verdict {
                Verdict::Failed(_) => None,
                Verdict::Scored(..) => EarlierVerdict::of(finished, self.layout.format, policy),
            };
            let before = past.as_ref().map(|past| past.decision);
            let out = self.files.output.row();
            match (verdict, self.layout.format) {
                (Verdict::Failed(_), _) if only_decisions => out.extend_from_slice(&row.raw),
                (Verdict::Scored(_, now), _) if only_decisions && *now == before => {
                    out.extend_from_slice(&row.raw);
                }
                (_, Format::Delimited { .. }) => {
                    self.beside.csv.row(out, row, verdict, &self.layout);
                }
                (_, Format::Jsonl) => {
                    jsonl::write_row(out, row, verdict, &self.layout, &self.heads);
                }
            }
            match verdict {
                Verdict::Failed(failure) => self.beside.reject(&mut self.files, row, failure),
                Verdict::Scored(_, None) => {
                    self.unknown_levels.count(row.number);
                    past = None;
                }
                Verdict::Scored(answer, Some(now)) => {
                    if let Some(before) = &past {
                        drift.count(before.decision, *now);
                        if before.decision != *now {
                            let change = DecisionChange {
                                before,
                                decision: *now,
                                score: &answer.score,
                            };
                            self.beside.change(&mut self.files, row, &change);
                        }
                    }
                }
            }
            if let Some(tally) = &mut self.tally {
                tally.count(
                    tallied(finished),
                    past.as_ref().map(EarlierVerdict::outline),
                );
            }
        }
        // Written right away: these rows are paid for, and the buffers of a killed program are
        // lost.
        self.files.output.write_out()?;
        self.drift.add(&drift);
        self.files.write_out_beside()
    }

    /// The number of rows in the output.
    #[must_use]
    pub(crate) const fn rows(&self) -> u64 {
        self.files.output.rows()
    }

    /// The comparison of decisions in the rows that were written since the last call.
    pub(crate) fn take_drift(&mut self) -> Drift {
        std::mem::take(&mut self.drift)
    }

    /// The levels without a decision in the rows that were written since the last call.
    pub(crate) fn take_unknown_levels(&mut self) -> UnknownLevels {
        std::mem::take(&mut self.unknown_levels)
    }

    /// Adds the blank lines after the last row.
    pub(crate) fn trailer(&mut self, trailer: &[u8]) {
        self.files.output.buffer().extend_from_slice(trailer);
    }

    /// Its files, once there are no more rows.
    #[must_use]
    pub fn into_files(self) -> RowFiles {
        self.files
    }
}

/// A row as it is counted.
fn tallied(finished: &DoneRow) -> TalliedRow<'_> {
    let (score, decision) = match &finished.verdict {
        Verdict::Failed(_) => (None, None),
        Verdict::Scored(answer, decision) => (Some(&answer.score), *decision),
    };
    TalliedRow {
        number: finished.row.number,
        score,
        decision,
    }
}

/// How rows are written beside the output: to the rejects and the changes.
pub(super) struct RowsBeside {
    format: Format,
    csv: CsvEncoder,
}

impl RowsBeside {
    /// For rows with this layout; the files get their headers.
    pub(super) fn new(layout: &Layout, files: &mut RowFiles) -> Self {
        let header = layout.header.as_ref();
        let mut csv = CsvEncoder::new(layout.format, layout.encoding, header);
        if let (Some(rejects), Some(header)) = (&mut files.rejects, header) {
            csv.reject_header(rejects.buffer(), header, layout);
        }
        if let (Some(changes), Some(header)) = (&mut files.changes, header) {
            csv.change_header(changes.buffer(), header, layout);
        }
        let format = layout.format;
        Self { format, csv }
    }

    fn reject(&mut self, files: &mut RowFiles, row: &Row, failure: &Failure) {
        let Some(rejects) = &mut files.rejects else {
            return;
        };
        match self.format {
            Format::Delimited { .. } => self.csv.reject(rejects.row(), row, failure),
            Format::Jsonl => jsonl::write_reject(rejects.row(), row, failure),
        }
    }

    pub(super) fn change(&self, files: &mut RowFiles, row: &Row, change: &DecisionChange<'_>) {
        let Some(changes) = &mut files.changes else {
            return;
        };
        match self.format {
            Format::Delimited { .. } => self.csv.change(changes.row(), row, change),
            Format::Jsonl => jsonl::write_change(changes.row(), row, change),
        }
    }
}

/// Rejects without an output beside them: the rows of a file that cannot be sent. They have the form that they have beside
/// an output. Nothing in them was paid for, so a file that is not complete is removed.
pub(crate) struct RejectsWriter {
    files: RowFiles,
    beside: RowsBeside,
}

impl RejectsWriter {
    /// Opens the file, with at most the permissions in `mode`. It stays empty until its first row.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub(crate) fn open(target: &Target, mode: u32, layout: &Layout) -> Result<Self> {
        let rejects = target.open(mode)?.worthless();
        let mut files = RowFiles::new(OutputFile::nothing(), Some(rejects), None);
        let beside = RowsBeside::new(layout, &mut files);
        Ok(Self { files, beside })
    }

    /// Adds a row with the rule that it breaks. It is in the file after the next [`Self::write_out`].
    pub(crate) fn add(&mut self, row: &Row, failure: &Failure) {
        self.beside.reject(&mut self.files, row, failure);
    }

    /// Writes the rows that were added.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write_out(&mut self) -> Result<(), WriteError> {
        self.files.write_out_beside()
    }

    /// Completes the file, and gives it its final name. Without rows there is none, and one from before is removed.
    pub(crate) fn commit(self) -> Written {
        self.files.commit(|_| ())
    }
}
