//! Rows to files.
//!
//! A [`Writer`] gets rows in input order and writes each one's own bytes with our cells put in; what has no verdict
//! goes to the rejects as well. It runs on a thread of its own and must not know where verdicts come from.

mod csv;
mod file;
mod jsonl;

use std::io;
use std::path::PathBuf;

pub use file::{Sink, Target, is_same_file, partial_of};

use crate::error::{Error, Result};
use crate::layout::{Format, Layout};
use crate::row::Row;
use crate::verdict::Verdict;

/// A row with its verdict.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The row.
    pub row: Row,
    /// Its verdict.
    pub verdict: Verdict,
}

/// Writes rows to the output and failed ones to the rejects.
pub struct Writer {
    layout: Layout,
    output: Sink,
    rejects: Option<Rejects>,
    /// Whole rows only: what is written out never ends within a row.
    buffer: Vec<u8>,
    rejected: Vec<u8>,
    cells: csv::Cells,
}

/// Where failed rows go; the file comes into being with the first of them.
#[derive(Debug)]
pub struct Rejects {
    target: Target,
    sink: Option<Sink>,
}

impl Rejects {
    /// Rejects that will be written to `target`.
    #[must_use]
    pub const fn new(target: Target) -> Self {
        Self { target, sink: None }
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
            cells,
        }
    }

    /// Takes rows in input order.
    ///
    /// # Errors
    /// The output or the rejects cannot be written.
    pub fn write(&mut self, rows: &[Finished]) -> Result<(), WriteError> {
        for Finished { row, verdict } in rows {
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
                        if rejects.sink.is_none() && self.rejected.is_empty() {
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
            }
        }
        // Not kept for later: these rows are paid for, and nothing gets a killed program's buffers back.
        self.write_out()
    }

    /// Takes blank lines that stood after the last row.
    pub fn trailer(&mut self, trailer: &[u8]) {
        self.buffer.extend_from_slice(trailer);
    }

    fn write_out(&mut self) -> Result<(), WriteError> {
        self.output.write(&self.buffer)?;
        self.buffer.clear();
        if let (Some(rejects), false) = (&mut self.rejects, self.rejected.is_empty()) {
            let sink = match &mut rejects.sink {
                Some(sink) => sink,
                none => none.insert(rejects.target.open().map_err(WriteError::Failed)?),
            };
            sink.write(&self.rejected)?;
            self.rejected.clear();
        }
        Ok(())
    }

    /// Ends a run that reached the end of its input: everything is on disk and under its own name.
    ///
    /// # Errors
    /// The output or the rejects cannot be written.
    pub fn commit(mut self) -> Result<Written, WriteError> {
        self.write_out()?;
        let rejects = match self.rejects {
            Some(Rejects {
                sink: Some(sink), ..
            }) => sink.commit()?,
            Some(Rejects { target, sink: None }) => {
                // Rejects of an earlier run would be taken for this one's.
                target.remove_old().map_err(WriteError::Failed)?;
                None
            }
            None => None,
        };
        Ok(Written {
            output: self.output.commit()?,
            rejects,
        })
    }

    /// Ends a run whose output cannot be written: nothing is tried again, what is there stays.
    #[must_use]
    pub fn give_up(self, any_rows: bool) -> Written {
        if !any_rows {
            self.output.discard();
            return Written::NOTHING;
        }
        let rejects = self.rejects.and_then(|rejects| rejects.sink);
        Written {
            output: self.output.give_up(),
            rejects: rejects.and_then(Sink::give_up),
        }
    }

    /// Ends a run that was stopped: whole rows stay in the partial file; a file without any row is removed.
    ///
    /// # Errors
    /// The output or the rejects cannot be written.
    pub fn keep_partial(mut self, any_rows: bool) -> Result<Written, WriteError> {
        if !any_rows {
            self.output.discard();
            return Ok(Written::NOTHING);
        }
        self.write_out()?;
        let rejects = match self.rejects.and_then(|rejects| rejects.sink) {
            Some(sink) => sink.keep_partial()?,
            None => None,
        };
        Ok(Written {
            output: self.output.keep_partial()?,
            rejects,
        })
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
