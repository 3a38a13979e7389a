//! Writes rows with their verdicts in input order: the output, the rejects and the changes.

use super::encoder::{CHANGE_COLUMNS, DecisionChange, REJECT_COLUMNS, RowEncoder};
use super::file::{RowFiles, WriteError};
use crate::analysis::{Drift, PastVerdict, RowTally, UserOutcome};
use crate::base::error::Result;
use crate::layout::Layout;
use crate::row::{RawRow, RowNumber};
use crate::row_state::{Row, RowState, earlier_verdict};
use crate::verdict::{DecisionPolicy, Failure, Score, Verdict};

/// Writes rows to the output, failed rows also to the rejects, and rows whose decision changed also to the changes.
pub struct Writer {
    encoder: RowEncoder,
    /// Decides about earlier scores that have no decision, and knows where levels are.
    policy: DecisionPolicy,
    files: RowFiles,
    /// The comparison of decisions in these rows, since it was last taken.
    drift: Drift,
    /// The counts for a report, if there will be one.
    tally: Option<Box<RowTally>>,
}

impl Writer {
    /// A writer whose files start with the byte order mark and the header.
    pub fn new(layout: Layout, policy: DecisionPolicy, mut files: RowFiles) -> Self {
        let encoder = RowEncoder::new(layout);
        encoder.start(&mut files.output.buffer);
        encoder.start_beside(&mut files.rejects, &REJECT_COLUMNS);
        encoder.start_beside(&mut files.changes, &CHANGE_COLUMNS);
        Self {
            encoder,
            policy,
            files,
            drift: Drift::default(),
            tally: None,
        }
    }

    /// Counts rows for a report as well.
    pub(crate) fn counting(mut self) -> Self {
        self.tally = Some(Box::new(RowTally::new(self.policy.thresholds())));
        self
    }

    /// The counts for a report, if there will be one.
    pub(crate) const fn take_tally(&mut self) -> Option<Box<RowTally>> {
        self.tally.take()
    }

    /// Writes rows in input order.
    ///
    /// # Errors
    /// The output, the rejects or the changes cannot be written.
    pub fn write(&mut self, rows: &[Row]) -> Result<(), WriteError> {
        let mut drift = Drift::default();
        let only_decisions = self.encoder.layout.columns.only_decisions;
        for Row { number, raw, state } in rows {
            // A row without a verdict is left for a later run.
            let (verdict, old) = match state {
                RowState::Done { verdict, old } => (verdict, old),
                // It is written with what an earlier run wrote.
                RowState::Passed => {
                    self.encoder.row(self.files.output.row(), raw, None);
                    continue;
                }
                _ => continue,
            };
            let mut past = match verdict {
                Verdict::Failed(_) => None,
                Verdict::Scored(..) => self.verdict_before(raw, old.as_ref()),
            };
            let before = past.as_ref().map(|past| past.decision);
            let is_unchanged = match verdict {
                Verdict::Failed(_) => only_decisions,
                Verdict::Scored(_, now) => only_decisions && *now == before,
            };
            let out = self.files.output.row();
            if is_unchanged {
                out.extend_from_slice(&raw.bytes);
            } else {
                self.encoder.row(out, raw, Some(verdict));
            }
            match verdict {
                Verdict::Failed(failure) => {
                    self.reject(*number, raw, failure);
                }
                Verdict::Scored(_, None) => past = None,
                Verdict::Scored(answer, Some(now)) => {
                    if let Some(past) = &past {
                        drift.count(past.decision, *now);
                        if past.decision != *now {
                            let change = DecisionChange {
                                before: past.decision,
                                score_before: past.score.as_ref(),
                                now: *now,
                                score_now: &answer.score,
                            };
                            self.change(*number, raw, &change);
                        }
                    }
                }
            }
            if let Some(tally) = &mut self.tally {
                let (score, decision) = match verdict {
                    Verdict::Failed(_) => (None, None),
                    Verdict::Scored(answer, decision) => (Some(&answer.score), *decision),
                };
                tally.count(score, decision, past.as_ref(), UserOutcome::Unknown);
            }
        }
        // Written right away: these rows are paid for, and the buffers of a killed program are lost.
        self.files.output.write_out()?;
        self.drift.add(&drift);
        self.files.write_out_beside()
    }

    fn reject(&mut self, number: RowNumber, row: &RawRow, failure: &Failure) {
        if let Some(rejects) = &mut self.files.rejects {
            self.encoder.reject(rejects.row(), number, row, failure);
        }
    }

    fn change(&mut self, number: RowNumber, row: &RawRow, change: &DecisionChange<'_>) {
        if let Some(changes) = &mut self.files.changes {
            self.encoder.change(changes.row(), number, row, change);
        }
    }

    /// The verdict on a row's user before this run: that of the output that is replaced, if it was read for this; otherwise the
    /// row's own, or else what today's policy makes of the `old` score in the ledger.
    fn verdict_before(&mut self, raw: &RawRow, old: Option<&Score>) -> Option<PastVerdict> {
        if let Some(past) = &mut self.files.past {
            return past.find(&self.encoder.layout.value(raw.slice(raw.key)));
        }
        // Most files have no earlier verdicts, and must not be slowed down by those that do.
        if raw.scored_cells.is_empty() && old.is_none() {
            return None;
        }
        // If only decisions are written, a row without one had none: it is not made up from its score.
        let only_decisions = self.encoder.layout.columns.only_decisions;
        let thresholds = self.policy.thresholds().filter(|_| !only_decisions);
        let decide = |score: &Score| thresholds.map(|by| by.decide(score));
        let (score, decision) = earlier_verdict(raw, &self.encoder.layout);
        // The earlier decision counts, whatever the thresholds were then: their change should show.
        match decision.or_else(|| decide(score.as_ref()?)) {
            Some(decision) => Some(PastVerdict { decision, score }),
            None => Some(PastVerdict {
                decision: decide(old?)?,
                score: old.cloned(),
            }),
        }
    }

    /// The number of rows in the output.
    pub(crate) const fn rows(&self) -> u64 {
        self.files.output.rows
    }

    /// The comparison of decisions in the rows that were written since the last call.
    pub(crate) fn take_drift(&mut self) -> Drift {
        std::mem::take(&mut self.drift)
    }

    /// Adds the blank lines after the last row.
    pub(crate) fn trailer(&mut self, trailer: &[u8]) {
        self.files.output.buffer.extend_from_slice(trailer);
    }

    /// Its files, after the last row.
    pub fn into_files(self) -> RowFiles {
        self.files
    }
}
