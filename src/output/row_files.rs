//! The output and the files beside it, from their first row to their final names. The writers decide what is in a row.

use super::name;
use super::outcome::{Unfinished, WriteError, Written};
use super::side::Sides;
use super::sink::{Sealed, Sink};
use crate::base::directory::directory_of;

/// The files that rows are written to.
pub struct RowFiles {
    output: Sink,
    pub(super) sides: Sides,
    /// Only complete rows: what is written to the file never ends within a row.
    pub(super) buffer: Vec<u8>,
    /// The number of rows in the output.
    rows: u64,
}

/// Room for a batch of usual rows, so that the buffer does not have to grow.
const BUFFER: usize = 128 * 1024;

impl RowFiles {
    /// Open files without rows.
    pub(super) fn new(output: Sink, sides: Sides) -> Self {
        Self {
            output,
            sides,
            buffer: Vec::with_capacity(BUFFER),
            rows: 0,
        }
    }

    /// The number of rows in the output.
    pub(super) const fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the buffer, which has this many more rows, to the output.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn write_out(&mut self, rows: u64) -> Result<(), WriteError> {
        self.output
            .write(&self.buffer)
            .map_err(|error| error.about(self.output.path()))?;
        self.buffer.clear();
        self.rows += rows;
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
        self.write_out(0)?;
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
        if let Err(error) = self.write_out(0) {
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

    /// Removes the partial files: what was written costs nothing to write again.
    pub(crate) fn discard(self) {
        self.output.discard();
        self.sides.discard();
    }
}

/// Syncs the directories, so that the files' names are durable.
pub(super) fn sync_names(mut written: Written) -> Result<Written, Box<Unfinished>> {
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
