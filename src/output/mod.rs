//! Rows to files.
//!
//! A [`Writer`] gets rows in input order and writes each one's own bytes with our cells put in; what has no verdict
//! goes to the rejects as well. It runs on a thread of its own and must not know where verdicts come from.

mod csv;
mod file;
mod jsonl;

use std::io;
use std::path::PathBuf;

pub use file::{Replace, Sink, Target, is_same_file, partial_of};

use file::Ended;

use crate::error::{Error, Result};
use crate::layout::{Format, Layout};
use crate::row::Row;
use crate::verdict::{Answer, Verdict};

/// A row with its verdict.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The row.
    pub row: Row,
    /// Its verdict.
    pub verdict: Verdict,
    /// An earlier answer about the same user, which was too old to be used.
    pub aged: Option<Box<Answer>>,
}

/// Writes rows to the output and failed ones to the rejects.
pub struct Writer {
    layout: Layout,
    output: Sink,
    rejects: Option<Rejects>,
    /// Whole rows only: what is written out never ends within a row.
    buffer: Vec<u8>,
    rejected: Vec<u8>,
    /// Rows that the output has taken.
    rows: u64,
    cells: csv::Cells,
}

/// Where failed rows go. The file is opened before the first call, so that nothing is paid for in vain, and is gone at
/// the end when there are none.
#[derive(Debug)]
pub struct Rejects {
    target: Target,
    sink: Sink,
    any: bool,
}

impl Rejects {
    /// Opens the rejects.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn open(target: Target) -> Result<Self> {
        let sink = target.open()?;
        Ok(Self {
            target,
            sink,
            any: false,
        })
    }

    fn commit(self) -> Ended {
        if self.any {
            return self.sink.commit();
        }
        self.sink.discard();
        // Rejects of an earlier run would be taken for this one's.
        match self.target.remove_old() {
            Ok(()) => Ok(None),
            Err(error) => Err((WriteError::Failed(error), None)),
        }
    }

    fn keep_partial(self) -> Ended {
        if self.any {
            return self.sink.keep_partial();
        }
        self.sink.discard();
        Ok(None)
    }

    fn give_up(self) -> Option<PathBuf> {
        if self.any {
            return self.sink.give_up();
        }
        self.sink.discard();
        None
    }
}

/// What the writer left behind.
#[derive(Debug)]
pub struct Written {
    /// The output, or what there is of it.
    pub output: Option<PathBuf>,
    /// The rejects, where there are any.
    pub rejects: Option<PathBuf>,
}

impl Written {
    /// Nothing at all.
    pub const NOTHING: Self = Self {
        output: None,
        rejects: None,
    };
}

/// The files could not be ended as they should.
#[derive(Debug)]
pub struct Unfinished {
    /// Why.
    pub error: WriteError,
    /// What there is nevertheless.
    pub left: Written,
}

/// Writing to this output failed.
#[derive(Debug)]
pub enum WriteError {
    /// Whoever read our standard output has gone: no error of anybody.
    Closed,
    /// Anything else.
    Failed(Error),
}

/// A batch of usual rows, so that the buffer need not grow.
const BUFFER: usize = 128 * 1024;

impl Writer {
    /// A writer whose output begins with the byte order mark and the header.
    #[must_use]
    pub fn new(layout: Layout, output: Sink, rejects: Option<Rejects>) -> Self {
        let mut buffer = Vec::with_capacity(BUFFER);
        buffer.extend_from_slice(layout.byte_order_mark);
        let mut cells = csv::Cells::new(layout.format);
        if let Some(header) = &layout.header {
            csv::write_header(&mut buffer, header, &layout, &mut cells);
        }
        Self {
            layout,
            output,
            rejects,
            buffer,
            rejected: Vec::new(),
            rows: 0,
            cells,
        }
    }

    /// Takes rows in input order.
    ///
    /// # Errors
    /// The output or the rejects cannot be written.
    pub fn write(&mut self, rows: &[Finished]) -> Result<(), WriteError> {
        for Finished { row, verdict, .. } in rows {
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
            if let (Verdict::Failed(failure), Some(rejects)) = (verdict, &mut self.rejects) {
                match self.layout.format {
                    Format::Delimited { .. } => {
                        if !rejects.any {
                            csv::write_reject_header(
                                &mut self.rejected,
                                &self.layout,
                                &mut self.cells,
                            );
                        }
                        csv::write_reject(&mut self.rejected, row, failure, &mut self.cells);
                    }
                    Format::Jsonl => jsonl::write_reject(&mut self.rejected, row, failure),
                }
                rejects.any = true;
            }
        }
        // Not kept for later: these rows are paid for, and nothing gets a killed program's buffers back.
        self.write_out()?;
        self.rows += rows.len() as u64;
        self.write_rejects()
    }

    /// How many rows the output has taken.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes blank lines that stood after the last row.
    pub fn trailer(&mut self, trailer: &[u8]) {
        self.buffer.extend_from_slice(trailer);
    }

    fn write_out(&mut self) -> Result<(), WriteError> {
        self.output.write(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn write_rejects(&mut self) -> Result<(), WriteError> {
        if let (Some(rejects), false) = (&mut self.rejects, self.rejected.is_empty()) {
            rejects.sink.write(&self.rejected)?;
            self.rejected.clear();
        }
        Ok(())
    }

    /// Ends a run that reached the end of its input: everything is on disk and under its own name.
    ///
    /// # Errors
    /// The output or the rejects cannot be written.
    pub fn commit(mut self) -> Result<Written, Box<Unfinished>> {
        if let Err(error) = self.write_out() {
            let left = self.give_up();
            return Err(Box::new(Unfinished { error, left }));
        }
        // The output first: rejects alone under their own name would look like a run that is over.
        let rejects = self.rejects;
        let output = match self.output.commit() {
            Ok(output) => output,
            Err((error, output)) => {
                let rejects = rejects.and_then(Rejects::give_up);
                let left = Written { output, rejects };
                return Err(Box::new(Unfinished { error, left }));
            }
        };
        both(output, rejects.map(Rejects::commit))
    }

    /// Ends a run that was stopped: whole rows stay in the partial file; a file without any row is removed.
    ///
    /// # Errors
    /// The output or the rejects cannot be written.
    pub fn keep_partial(mut self) -> Result<Written, Box<Unfinished>> {
        if self.rows == 0 {
            return Ok(self.give_up());
        }
        if let Err(error) = self.write_out() {
            let left = self.give_up();
            return Err(Box::new(Unfinished { error, left }));
        }
        let rejects = self.rejects;
        let output = match self.output.keep_partial() {
            Ok(output) => output,
            Err((error, output)) => {
                let rejects = rejects.and_then(Rejects::give_up);
                let left = Written { output, rejects };
                return Err(Box::new(Unfinished { error, left }));
            }
        };
        both(output, rejects.map(Rejects::keep_partial))
    }

    /// Ends a run whose output cannot be written: nothing is tried again, what is there stays.
    #[must_use]
    pub fn give_up(self) -> Written {
        let rejects = self.rejects.and_then(Rejects::give_up);
        if self.rows == 0 {
            self.output.discard();
            return Written {
                output: None,
                rejects,
            };
        }
        Written {
            output: self.output.give_up(),
            rejects,
        }
    }
}

/// The output is as it should be; are the rejects?
fn both(output: Option<PathBuf>, rejects: Option<Ended>) -> Result<Written, Box<Unfinished>> {
    match rejects.unwrap_or(Ok(None)) {
        Ok(rejects) => Ok(Written { output, rejects }),
        Err((error, rejects)) => Err(Box::new(Unfinished {
            error,
            left: Written { output, rejects },
        })),
    }
}

impl WriteError {
    fn new(error: io::Error, stream: bool, to: &str) -> Self {
        if stream && error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Self::Failed(Error::stopped(format!("cannot write {to}")).because(error))
    }
}

#[cfg(test)]
mod tests;
