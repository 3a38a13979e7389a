//! Writes rows in input order: the output, the rejects and the changes.

use super::columns::{CHANGE, REJECT};
use super::csv;
use super::done_row::DoneRow;
use super::earlier::{DecisionChange, EarlierVerdict};
use super::jsonl;
use super::name;
use super::outcome::{Unfinished, WriteError, Written};
use super::paths::directory_of;
use super::side::Sides;
use super::sink::{Sealed, Sink};
use crate::analysis::UnknownLevels;
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
    output: Sink,
    sides: Sides,
    /// Only complete rows: what is written to the file never ends within a row.
    buffer: Vec<u8>,
    /// The number of rows in the output.
    rows: u64,
    /// The comparison of decisions in these rows, since it was last taken.
    drift: Drift,
    /// The levels without a decision in these rows, since they were last taken.
    unknown_levels: UnknownLevels,
    cells: csv::CellEncoder,
    /// The columns in front of rejects and changes in a delimited file.
    reject: csv::FrontColumns,
    change: csv::FrontColumns,
}

/// Room for a batch of usual rows, so that the buffer does not have to grow.
const BUFFER: usize = 128 * 1024;

impl Writer {
    /// A writer whose output starts with the byte order mark and the header.
    #[must_use]
    pub fn new(layout: Layout, policy: DecisionPolicy, output: Sink, mut sides: Sides) -> Self {
        let mut buffer = Vec::with_capacity(BUFFER);
        buffer.extend_from_slice(&layout.preamble);
        let mut cells = csv::CellEncoder::new(layout.format, layout.encoding);
        let [reject, change] = [&REJECT[..], &CHANGE]
            .map(|names| csv::FrontColumns::new(names, layout.header.as_ref(), &cells));
        if let Some(header) = &layout.header {
            csv::write_header(&mut buffer, header, &layout, &mut cells);
            if let Some(rejects) = &mut sides.rejects {
                csv::write_side_header(rejects.header(), reject, header, &layout, &mut cells);
            }
            if let Some(changes) = &mut sides.changes {
                csv::write_side_header(changes.header(), change, header, &layout, &mut cells);
            }
        }
        Self {
            layout,
            policy,
            output,
            sides,
            buffer,
            rows: 0,
            drift: Drift::default(),
            unknown_levels: UnknownLevels::default(),
            cells,
            reject,
            change,
        }
    }

    /// Writes rows in input order.
    ///
    /// # Errors
    /// The output, the rejects or the changes cannot be written.
    pub fn write(&mut self, rows: &[DoneRow]) -> Result<(), WriteError> {
        let mut drift = Drift::default();
        for finished in rows {
            let DoneRow { row, verdict, .. } = finished;
            match self.layout.format {
                Format::Delimited { .. } => csv::write_row(
                    &mut self.buffer,
                    row,
                    verdict,
                    &self.layout,
                    &mut self.cells,
                ),
                Format::Jsonl => jsonl::write_row(&mut self.buffer, row, verdict, &self.layout),
            }
            match verdict {
                Verdict::Failed(failure) => self.reject(row, failure),
                Verdict::Scored(answer, None) => {
                    self.unknown_levels
                        .count(self.policy.level(answer).as_deref());
                }
                Verdict::Scored(answer, Some(now)) => {
                    let before = EarlierVerdict::of(finished, self.layout.format, &self.policy);
                    if let Some(before) = before {
                        drift.count(before.decision, *now);
                        if before.decision != *now {
                            let change = DecisionChange {
                                before: &before,
                                decision: *now,
                                score: &answer.score,
                            };
                            self.change(row, &change);
                        }
                    }
                }
            }
        }
        // Written right away: these rows are paid for, and the buffers of a killed program are
        // lost.
        self.write_out()?;
        self.rows += rows.len() as u64;
        self.drift.add(&drift);
        self.sides.write_out()
    }

    fn reject(&mut self, row: &Row, failure: &Failure) {
        let Some(rejects) = &mut self.sides.rejects else {
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
        let Some(changes) = &mut self.sides.changes else {
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
        self.rows
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
        self.buffer.extend_from_slice(trailer);
    }

    fn write_out(&mut self) -> Result<(), WriteError> {
        self.output
            .write(&self.buffer)
            .map_err(|error| error.about(self.output.path()))?;
        self.buffer.clear();
        Ok(())
    }

    /// Completes a run that reached the end of its input: everything is on disk, and every file
    /// gets its final name. Before the renaming, when all files are complete, `note` gets their
    /// state.
    ///
    /// # Errors
    /// The output, the rejects or the changes cannot be written.
    pub fn commit(mut self, note: impl FnOnce(&[Sealed])) -> Result<Written, Box<Unfinished>> {
        match self.seal() {
            Ok(sealed) => note(&sealed),
            Err(error) => {
                let left = self.give_up();
                return Err(Box::new(Unfinished { error, left }));
            }
        }
        // The output first: if only the rejects had their final name, the run would look complete.
        sync_names(self.sides.commit(self.output.commit())?)
    }

    fn seal(&mut self) -> Result<Vec<Sealed>, WriteError> {
        self.write_out()?;
        let output = self
            .output
            .seal()
            .map_err(|error| error.about(self.output.path()))?;
        let sides = self.sides.seal()?;
        Ok(output.into_iter().chain(sides).collect())
    }

    /// Ends a run that was stopped: complete rows stay in the partial file; a file without rows is
    /// removed.
    ///
    /// # Errors
    /// The output, the rejects or the changes cannot be written.
    pub(crate) fn keep_partial(mut self) -> Result<Written, Box<Unfinished>> {
        if self.rows == 0 {
            return Ok(self.give_up());
        }
        if let Err(error) = self.write_out() {
            let left = self.give_up();
            return Err(Box::new(Unfinished { error, left }));
        }
        self.sides.keep_partial(self.output.keep_partial())
    }

    /// Ends a run whose output cannot be written: nothing is retried, and existing rows stay.
    #[must_use]
    pub(crate) fn give_up(self) -> Written {
        let output = if self.rows == 0 {
            self.output.discard();
            None
        } else {
            self.output.give_up()
        };
        self.sides.give_up(output)
    }
}

/// Syncs the directories, so that the files' names are durable.
fn sync_names(mut written: Written) -> Result<Written, Box<Unfinished>> {
    let files = [&written.output, &written.rejects, &written.changes];
    let mut directories: Vec<_> = files
        .into_iter()
        .flatten()
        .map(|file| directory_of(file).to_owned())
        .collect();
    directories.dedup();
    for directory in directories {
        match name::sync(&directory) {
            Ok(true) => {}
            Ok(false) => written.unsynced = Some(directory),
            Err(e) => {
                let name = format!("the names in `{}`", directory.display());
                let error = WriteError::new(e, false, &name);
                let left = written;
                return Err(Box::new(Unfinished { error, left }));
            }
        }
    }
    Ok(written)
}
