//! Writes rows with their verdicts in input order: the output, the rejects and the changes.

use super::columns::{CHANGE, REJECT};
use super::csv;
use super::done_row::DoneRow;
use super::earlier::{DecisionChange, EarlierVerdict};
use super::jsonl;
use super::outcome::WriteError;
use super::row_files::RowFiles;
use super::side::Sides;
use super::sink::Sink;
use crate::analysis::{RowTally, TalliedRow, UnknownLevels};
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
    cells: csv::CellEncoder,
    heads: jsonl::MemberHeads,
    /// The columns in front of rejects and changes in a delimited file.
    reject: csv::FrontColumns,
    change: csv::FrontColumns,
}

impl Writer {
    /// A writer whose output starts with the byte order mark and the header.
    #[must_use]
    pub fn new(layout: Layout, policy: DecisionPolicy, output: Sink, sides: Sides) -> Self {
        let mut files = RowFiles::new(output, sides);
        let RowFiles { buffer, sides, .. } = &mut files;
        buffer.extend_from_slice(&layout.preamble);
        let mut cells = csv::CellEncoder::new(layout.format, layout.encoding);
        let [reject, change] = [&REJECT[..], &CHANGE]
            .map(|names| csv::FrontColumns::new(names, layout.header.as_ref(), &cells));
        if let Some(header) = &layout.header {
            csv::write_header(buffer, header, &layout, &mut cells);
            if let Some(rejects) = &mut sides.rejects {
                csv::write_side_header(rejects.header(), reject, header, &layout, &mut cells);
            }
            if let Some(changes) = &mut sides.changes {
                csv::write_side_header(changes.header(), change, header, &layout, &mut cells);
            }
        }
        Self {
            heads: jsonl::MemberHeads::new(&layout.columns),
            layout,
            policy,
            files,
            drift: Drift::default(),
            unknown_levels: UnknownLevels::default(),
            tally: None,
            cells,
            reject,
            change,
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
            let out = &mut self.files.buffer;
            match (verdict, self.layout.format) {
                (Verdict::Failed(_), _) if only_decisions => out.extend_from_slice(&row.raw),
                (Verdict::Scored(_, now), _) if only_decisions && *now == before => {
                    out.extend_from_slice(&row.raw);
                }
                (_, Format::Delimited { .. }) => {
                    csv::write_row(out, row, verdict, &self.layout, &mut self.cells);
                }
                (_, Format::Jsonl) => {
                    jsonl::write_row(out, row, verdict, &self.layout, &self.heads);
                }
            }
            match verdict {
                Verdict::Failed(failure) => self.reject(row, failure),
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
                            self.change(row, &change);
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
        self.files.write_out(rows.len() as u64)?;
        self.drift.add(&drift);
        self.files.sides.write_out()
    }

    fn reject(&mut self, row: &Row, failure: &Failure) {
        let Some(rejects) = &mut self.files.sides.rejects else {
            return;
        };
        match self.layout.format {
            Format::Delimited { .. } => {
                csv::write_reject(rejects.row(), self.reject, row, failure, &mut self.cells);
            }
            Format::Jsonl => jsonl::write_reject(rejects.row(), row, failure),
        }
    }

    fn change(&mut self, row: &Row, change: &DecisionChange<'_>) {
        let Some(changes) = &mut self.files.sides.changes else {
            return;
        };
        match self.layout.format {
            Format::Delimited { .. } => {
                csv::write_change(changes.row(), self.change, row, change, &mut self.cells);
            }
            Format::Jsonl => jsonl::write_change(changes.row(), row, change),
        }
    }

    /// The number of rows in the output.
    #[must_use]
    pub(crate) const fn rows(&self) -> u64 {
        self.files.rows()
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
        self.files.buffer.extend_from_slice(trailer);
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
