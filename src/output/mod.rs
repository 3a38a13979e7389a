//! Rows to files.
//!
//! A [`Writer`] gets rows in input order and writes each one's own bytes with our cells put in; what has no verdict
//! goes to the rejects as well, and what had another decision before to the changes. It runs on a thread of its own and
//! must not know where verdicts come from.

mod csv;
mod file;
mod jsonl;
mod name;
mod previous;
mod side;
mod target;

use std::io;
use std::path::{Path, PathBuf};

pub(crate) use file::Sealed;
pub use file::Sink;
pub use side::Sides;
pub(crate) use target::{PARTIAL, is_same_file, partial_of};
pub use target::{Replace, Target};

use previous::Previous;
use target::directory_of;

use crate::base::error::{Error, Result};
use crate::drift::Drift;
use crate::layout::{Format, Layout};
use crate::row::Row;
use crate::verdict::{Decision, DecisionPolicy, Failure, Score, Verdict};

/// A row with its verdict.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The row.
    pub row: Row,
    /// Its verdict.
    pub verdict: Verdict,
    /// How the ledger's answer from before this run judged the same user, where it was not used.
    pub old: Option<Score>,
}

/// Writes rows to the output, failed ones to the rejects and those with another decision than before to the changes.
pub struct Writer {
    layout: Layout,
    /// What a score without a decision would have been.
    policy: DecisionPolicy,
    output: Sink,
    sides: Sides,
    /// Whole rows only: what is written out never ends within a row.
    buffer: Vec<u8>,
    /// Rows that the output has taken.
    rows: u64,
    /// What was found of decisions in them, since it was taken last.
    drift: Drift,
    cells: csv::Cells,
    /// What stands in front of rejects and of changes in a delimited file.
    reject: csv::Front,
    change: csv::Front,
}

/// What the writer left behind.
#[derive(Debug)]
pub struct Written {
    /// The output, or what there is of it.
    pub(crate) output: Option<PathBuf>,
    /// The rejects, where there are any.
    pub(crate) rejects: Option<PathBuf>,
    /// The rows whose decision changed, where they were asked for.
    pub(crate) changes: Option<PathBuf>,
    /// A directory of theirs that could not be synced: they are whole, and a power cut may undo their names.
    pub(crate) unsynced: Option<PathBuf>,
}

impl Written {
    /// Nothing at all.
    pub(crate) const NOTHING: Self = Self {
        output: None,
        rejects: None,
        changes: None,
        unsynced: None,
    };

    /// Makes the files' names durable.
    fn sync(mut self) -> Result<Self, Box<Unfinished>> {
        let files = [&self.output, &self.rejects, &self.changes];
        let mut directories: Vec<_> = files
            .into_iter()
            .flatten()
            .map(|file| directory_of(file).to_owned())
            .collect();
        directories.dedup();
        for directory in directories {
            match name::sync(&directory) {
                Ok(true) => {}
                Ok(false) => self.unsynced = Some(directory),
                Err(e) => {
                    let name = format!("the names in `{}`", directory.display());
                    let error = WriteError::new(e, false, &name);
                    return Err(Box::new(Unfinished { error, left: self }));
                }
            }
        }
        Ok(self)
    }
}

/// The files could not be ended as they should.
#[derive(Debug)]
pub struct Unfinished {
    /// Why.
    pub(crate) error: WriteError,
    /// What there is nevertheless.
    pub(crate) left: Written,
}

/// Writing to this output failed.
#[derive(Debug)]
pub enum WriteError {
    /// Whoever read our standard output has gone: no error of anybody.
    Closed,
    /// Anything else.
    Failed(Error),
}

/// The columns in front of a reject.
const REJECT: [&str; 3] = ["reject_row", "reject_reason", "reject_message"];
/// The columns in front of a row whose decision changed.
const CHANGE: [&str; 5] = [
    "change_row",
    "old_decision",
    "old_score",
    "new_decision",
    "new_score",
];

/// A batch of usual rows, so that the buffer need not grow.
const BUFFER: usize = 128 * 1024;

impl Writer {
    /// A writer whose output begins with the byte order mark and the header.
    #[must_use]
    pub fn new(layout: Layout, policy: DecisionPolicy, output: Sink, mut sides: Sides) -> Self {
        let mut buffer = Vec::with_capacity(BUFFER);
        buffer.extend_from_slice(&layout.preamble);
        let mut cells = csv::Cells::new(layout.format);
        let [reject, change] = [&REJECT[..], &CHANGE]
            .map(|names| csv::Front::new(names, layout.header.as_ref(), &cells));
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
            cells,
            reject,
            change,
        }
    }

    /// Takes rows in input order.
    ///
    /// # Errors
    /// The output or a file beside it cannot be written.
    pub fn write(&mut self, rows: &[Finished]) -> Result<(), WriteError> {
        let mut drift = Drift::default();
        for finished in rows {
            let Finished { row, verdict, .. } = finished;
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
                Verdict::Scored(answer, now) => {
                    let before = Previous::of(finished, self.layout.format, &self.policy);
                    if let Some(before) = before {
                        drift.count(before.decision, *now);
                        if before.decision != *now {
                            self.change(row, &before, &answer.score, *now);
                        }
                    }
                }
            }
        }
        // Not kept for later: these rows are paid for, and nothing gets a killed program's buffers back.
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

    fn change(&mut self, row: &Row, before: &Previous, score: &Score, now: Decision) {
        let Some(changes) = &mut self.sides.changes else {
            return;
        };
        match self.layout.format {
            Format::Delimited { .. } => {
                let now = (now, score);
                csv::write_change(
                    changes.row(),
                    self.change,
                    row,
                    before,
                    now,
                    &mut self.cells,
                );
            }
            Format::Jsonl => jsonl::write_change(changes.row(), row, before, (now, score)),
        }
    }

    /// How many rows the output has taken.
    #[must_use]
    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }

    /// What was found of decisions in the rows that the output has taken since this was asked last.
    pub(crate) fn take_drift(&mut self) -> Drift {
        std::mem::take(&mut self.drift)
    }

    /// Takes blank lines that stood after the last row.
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

    /// Ends a run that reached the end of its input: everything is on disk and under its own name. When all files are
    /// whole but for their names, `note` is told how they are.
    ///
    /// # Errors
    /// The output or a file beside it cannot be written.
    pub fn commit(mut self, note: impl FnOnce(&[Sealed])) -> Result<Written, Box<Unfinished>> {
        match self.seal() {
            Ok(sealed) => note(&sealed),
            Err(error) => {
                let left = self.give_up();
                return Err(Box::new(Unfinished { error, left }));
            }
        }
        // The output first: rejects alone under their own name would look like a run that is over.
        self.sides.commit(self.output.commit())?.sync()
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

    /// Ends a run that was stopped: whole rows stay in the partial file; a file without any row is removed.
    ///
    /// # Errors
    /// The output or a file beside it cannot be written.
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

    /// Ends a run whose output cannot be written: nothing is tried again, what is there stays.
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

impl WriteError {
    fn new(error: io::Error, stream: bool, to: &str) -> Self {
        if stream && error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Self::Failed(Error::stopped(format!("cannot write {to}")).because(error))
    }

    /// It is about this file.
    fn about(self, file: Option<&Path>) -> Self {
        match (self, file) {
            (Self::Failed(error), Some(file)) => Self::Failed(error.about(file)),
            (other, _) => other,
        }
    }
}

#[cfg(test)]
mod tests;
