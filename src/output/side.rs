//! A side file with some of the output's rows: the rejects or the changes.
//!
//! It is opened before the first call, so that no call is paid for if it cannot be written, and it
//! ends in the same way as the output. It stays empty until its first row, without even a header.
//! This file knows nothing about a row's content.

use std::path::PathBuf;

use super::outcome::{FileFault, FileResult, Unfinished, WriteError, Written};
use super::sink::{Sealed, Sink};
use super::target::Target;
use crate::base::error::Result;

/// What happens to a file that has no rows at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenEmpty {
    /// It is removed, and so is a file from an earlier run: its rows would be mistaken for this
    /// run's.
    Removed,
    /// It is kept with its header: the user asked for it, and that it has no rows is a result.
    Kept,
}

/// A file for some of the rows.
#[derive(Debug)]
pub(super) struct SideFile {
    sink: Sink,
    /// Bytes that are not in the file yet. The header waits here for the first row.
    buffer: Vec<u8>,
    /// Whether rows are in the buffer.
    pending: bool,
    /// Whether rows are in the file.
    any: bool,
    empty: WhenEmpty,
}

impl SideFile {
    /// Opens the partial file.
    pub(super) fn open(target: &Target, mode: u32, empty: WhenEmpty) -> Result<Self> {
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

    /// The buffer, for what comes before the first row.
    pub(super) const fn header(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// The buffer, for a row.
    pub(super) const fn row(&mut self) -> &mut Vec<u8> {
        self.pending = true;
        &mut self.buffer
    }

    /// Writes the buffered rows to the file.
    pub(super) fn write_out(&mut self) -> Result<(), WriteError> {
        if self.pending {
            self.put()?;
            self.buffer.clear();
            self.pending = false;
            self.any = true;
        }
        Ok(())
    }

    /// Completes the file except for its name, if it is kept.
    fn seal(&mut self) -> Result<Option<Sealed>, WriteError> {
        if !self.any && self.empty == WhenEmpty::Kept {
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

    /// Removes the partial file, with all of its rows.
    pub(super) fn discard(self) {
        self.sink.discard();
    }

    fn commit(self) -> FileResult {
        if self.any {
            self.sink.commit()
        } else {
            self.sink.remove()
        }
    }

    fn keep_partial(self) -> FileResult {
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
    pub(super) rejects: Option<SideFile>,
    /// For rows whose decision changed.
    pub(super) changes: Option<SideFile>,
}

impl Sides {
    /// Opens the files that were asked for, with at most the permissions in `mode`.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn open(rejects: Option<&Target>, changes: Option<&Target>, mode: u32) -> Result<Self> {
        let open = |target: Option<&Target>, empty| {
            let side = target.map(|target| SideFile::open(target, mode, empty));
            side.transpose()
        };
        Ok(Self {
            rejects: open(rejects, WhenEmpty::Removed)?,
            changes: open(changes, WhenEmpty::Kept)?,
        })
    }

    pub(super) fn write_out(&mut self) -> Result<(), WriteError> {
        let Self { rejects, changes } = self;
        for side in [rejects, changes].into_iter().flatten() {
            side.write_out()?;
        }
        Ok(())
    }

    /// Completes the files except for their names, and returns those that are kept.
    pub(super) fn seal(&mut self) -> Result<Vec<Sealed>, WriteError> {
        let Self { rejects, changes } = self;
        let sides = [rejects, changes].into_iter().flatten();
        sides.filter_map(|side| side.seal().transpose()).collect()
    }

    /// Gives the files their final names, after the output.
    pub(super) fn commit(self, output: FileResult) -> Result<Written, Box<Unfinished>> {
        self.end(output, SideFile::commit)
    }

    /// Keeps partial files, as after a stopped run, after the output.
    pub(super) fn keep_partial(self, output: FileResult) -> Result<Written, Box<Unfinished>> {
        self.end(output, SideFile::keep_partial)
    }

    /// Leaves the files as they are.
    pub(super) fn give_up(self, output: Option<PathBuf>) -> Written {
        Written {
            output,
            rejects: self.rejects.and_then(SideFile::give_up),
            changes: self.changes.and_then(SideFile::give_up),
            unsynced: None,
        }
    }

    /// Removes the partial files.
    pub(super) fn discard(self) {
        for side in [self.rejects, self.changes].into_iter().flatten() {
            side.sink.discard();
        }
    }

    /// Ends one file after the other. If one fails, those after it keep their partial names: a file
    /// under its final name would make the run look complete.
    fn end(
        self,
        output: FileResult,
        end: fn(SideFile) -> FileResult,
    ) -> Result<Written, Box<Unfinished>> {
        let mut failed = None;
        let output = settle(output, &mut failed);
        let mut one = |side: SideFile| match failed {
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

/// The file that exists, in either case.
fn settle(ended: FileResult, failed: &mut Option<WriteError>) -> Option<PathBuf> {
    ended.unwrap_or_else(|FileFault { error, left, .. }| {
        *failed = Some(error.about(left.as_deref()));
        left.map(PathBuf::from)
    })
}
