//! A file beside the output, with some of its rows: rejects, changes.
//!
//! It is opened before the first call, so that nothing is paid for in vain, and ends as the output does. Until it has a
//! row nothing is in it, not even its header. What stands in a row is not known here.

use std::path::PathBuf;

use super::file::{Ended, Sealed, Sink};
use super::target::Target;
use super::{Unfinished, WriteError, Written};
use crate::base::error::Result;

/// What becomes of a file that got no row until the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Empty {
    /// It is gone, and with it one that an earlier run left: its rows would be taken for this run's.
    Removed,
    /// It is there with its header: it was asked for, and that it has no row is an answer.
    Kept,
}

/// A file for some of the rows.
#[derive(Debug)]
pub(super) struct Side {
    sink: Sink,
    /// What is not in the file yet; the header alone waits for the first row.
    buffer: Vec<u8>,
    /// Rows are in the buffer.
    pending: bool,
    /// Rows are in the file.
    any: bool,
    empty: Empty,
}

impl Side {
    fn open(target: &Target, mode: u32, empty: Empty) -> Result<Self> {
        Ok(Self {
            sink: target
                .open(mode)
                .map_err(|error| error.about(target.path()))?,
            buffer: Vec::new(),
            pending: false,
            any: false,
            empty,
        })
    }

    /// Where what stands before the first row is put.
    pub(super) const fn header(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Where a row is put.
    pub(super) const fn row(&mut self) -> &mut Vec<u8> {
        self.pending = true;
        &mut self.buffer
    }

    /// Writes the rows that were put.
    pub(super) fn write_out(&mut self) -> Result<(), WriteError> {
        if self.pending {
            self.put()?;
            self.buffer.clear();
            self.pending = false;
            self.any = true;
        }
        Ok(())
    }

    /// Makes the file whole but for its name, if there is to be one.
    fn seal(&mut self) -> Result<Option<Sealed>, WriteError> {
        if !self.any && self.empty == Empty::Kept {
            self.put()?;
            self.any = true;
        }
        if !self.any {
            return Ok(None);
        }
        self.sink
            .seal()
            .map_err(|error| error.about(self.sink.path()))
    }

    fn put(&mut self) -> Result<(), WriteError> {
        self.sink
            .write(&self.buffer)
            .map_err(|error| error.about(self.sink.path()))
    }

    fn commit(self) -> Ended {
        if self.any {
            self.sink.commit()
        } else {
            self.sink.remove()
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

/// The files beside the output.
#[derive(Debug, Default)]
pub struct Sides {
    /// For rows without a verdict.
    pub(super) rejects: Option<Side>,
    /// For rows whose decision changed.
    pub(super) changes: Option<Side>,
}

impl Sides {
    /// Opens those that there are to be, for nobody who is not in `mode`.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn open(rejects: Option<&Target>, changes: Option<&Target>, mode: u32) -> Result<Self> {
        let open = |target: Option<&Target>, empty| {
            let side = target.map(|target| Side::open(target, mode, empty));
            side.transpose()
        };
        Ok(Self {
            rejects: open(rejects, Empty::Removed)?,
            changes: open(changes, Empty::Kept)?,
        })
    }

    pub(super) fn write_out(&mut self) -> Result<(), WriteError> {
        let Self { rejects, changes } = self;
        for side in [rejects, changes].into_iter().flatten() {
            side.write_out()?;
        }
        Ok(())
    }

    /// Makes the files whole but for their names: those that there are to be.
    pub(super) fn seal(&mut self) -> Result<Vec<Sealed>, WriteError> {
        let Self { rejects, changes } = self;
        let sides = [rejects, changes].into_iter().flatten();
        sides.filter_map(|side| side.seal().transpose()).collect()
    }

    /// Gives the files their names, after the output.
    pub(super) fn commit(self, output: Ended) -> Result<Written, Box<Unfinished>> {
        self.end(output, Side::commit)
    }

    /// Leaves the files as a run that was stopped does, after the output.
    pub(super) fn keep_partial(self, output: Ended) -> Result<Written, Box<Unfinished>> {
        self.end(output, Side::keep_partial)
    }

    /// Leaves the files as they are.
    pub(super) fn give_up(self, output: Option<PathBuf>) -> Written {
        Written {
            output,
            rejects: self.rejects.and_then(Side::give_up),
            changes: self.changes.and_then(Side::give_up),
            unsynced: None,
        }
    }

    /// Ends one file after the other; where one cannot be, those after it are given up: a file under its own name would
    /// look like a run that is over.
    fn end(self, output: Ended, end: fn(Side) -> Ended) -> Result<Written, Box<Unfinished>> {
        let mut failed = None;
        let output = settle(output, &mut failed);
        let mut one = |side: Side| match failed {
            Some(_) => side.give_up(),
            None => settle(end(side), &mut failed),
        };
        let rejects = self.rejects.and_then(&mut one);
        let changes = self.changes.and_then(one);
        let left = Written {
            output,
            rejects,
            changes,
            unsynced: None,
        };
        match failed {
            Some(error) => Err(Box::new(Unfinished { error, left })),
            None => Ok(left),
        }
    }
}

/// The file that there is, either way.
fn settle(ended: Ended, failed: &mut Option<WriteError>) -> Option<PathBuf> {
    ended.unwrap_or_else(|(error, left)| {
        *failed = Some(error.about(left.as_deref()));
        left
    })
}
